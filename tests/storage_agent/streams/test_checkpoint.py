"""The checkpoint of the catalogue in a real Ignite, through changes and restarts."""

import random

import httpx
import msgspec
import pytest
from pyignite import Client

from ignite_server.ports import LOOPBACK
from ignite_server.server import IgniteServer
from mistbow.client import AgentClient, Point
from storage_agent.ignite.client import LATEST, METADATA
from storage_agent.series import series_key
from storage_agent.settings import AgentSettings
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.checkpoint import BLOCKS_KEY
from storage_agent.timeseries.series_index import LatestValue
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.streams.opener import Opener
from tests.support.agents import running_agent
from tests.support.conditions import eventually


def content(catalogue: Catalogue) -> dict[tuple[str, str], tuple[object, LatestValue | None]]:
    return {
        series: (metadata, catalogue.stored_latest(series))
        for series, metadata in catalogue.select().items()
    }


@pytest.mark.parametrize("seed", range(3))
async def test_catalogue_is_as_before_after_each_restart(opener: Opener, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    log = (await opener.open()).log
    catalogue, model = Catalogue(), {}
    for number in range(2000):
        series = (f"m{chance.randrange(4)}", f"e{chance.randrange(300)}")
        if chance.random() < 0.6:
            metadata = {"metricID": series[0], "entityID": series[1], "units": str(number % 3)}
            latest = LatestValue(number, chance.random(), number, number)
            catalogue.describe(series, metadata)
            catalogue.set_latest(series, latest)
            model[series] = (metadata, latest)
        else:
            catalogue.set_latest(series, None)
            model.pop(series, None)
        if number % 97 == 0:
            await catalogue.checkpoint(opener.ignite)
        if number % 389 == 0:
            await catalogue.checkpoint(opener.ignite)
            catalogue = Catalogue()
            await catalogue.recover(opener.ignite, await opener.ignite.scan(METADATA), log)
            assert content(catalogue) == model


async def test_store_of_earlier_version_is_read_and_replaced(opener: Opener) -> None:
    log = (await opener.open()).log
    series = [("m", f"e{number}") for number in range(700)]
    for each in series:
        metadata = {"metricID": each[0], "entityID": each[1], "units": "W"}
        await opener.ignite.put(METADATA, series_key(each), msgspec.json.encode(metadata))
        key = msgspec.json.encode(each).decode()
        latest = b'{"ts":7,"value":"stale","created":8,"seen":9}'
        await opener.ignite.put(LATEST, key, latest)
    before = Catalogue()
    await before.recover(opener.ignite, await opener.ignite.scan(METADATA), log)
    assert before.metadata(series[0]) == {"metricID": "m", "entityID": "e0", "units": "W"}
    found = before.stored_latest(series[-1])
    assert found is not None
    assert (found.ts, found.created, found.seen) == (7, 8, 9)

    await before.checkpoint(opener.ignite)
    stored = await opener.ignite.scan(METADATA)
    assert [key for key in stored if key.startswith("series/")] == []
    assert stored[BLOCKS_KEY] == b"3"
    assert all(key.startswith("block/") for key in await opener.ignite.scan(LATEST))
    after = Catalogue()
    await after.recover(opener.ignite, stored, log)
    assert dict(after.select().items()) == dict(before.select().items())


async def test_blocks_without_their_number_are_no_checkpoint(opener: Opener) -> None:
    log = (await opener.open()).log
    catalogue = Catalogue()
    catalogue.describe(("m", "e"), {"metricID": "m", "entityID": "e"})
    await catalogue.checkpoint(opener.ignite)
    stored = await opener.ignite.scan(METADATA)
    del stored[BLOCKS_KEY]
    again = Catalogue()
    await again.recover(opener.ignite, stored, log)
    assert len(again) == 0


def stored(server: IgniteServer, key: str) -> bytes:
    """Return a stored value of the catalogue; empty: there is none."""
    client = Client(timeout=10)
    with client.connect(LOOPBACK, server.port):
        found: bytes | None = client.get_cache(LATEST).get(key)
    return b"" if found is None else bytes(found)


def replace(server: IgniteServer, key: str, data: bytes) -> None:
    """Replace a stored value of the catalogue."""
    client = Client(timeout=10)
    with client.connect(LOOPBACK, server.port):
        client.get_cache(LATEST).put(key, data)


@pytest.mark.parametrize("damage", [b"", b"no Arrow", "truncated", "flipped"], ids=str)
def test_damaged_block_is_rebuilt_from_points_and_facts(
    settings: AgentSettings, ignite: IgniteServer, clock: ManualClock, damage: bytes | str
) -> None:
    def content_of(client: AgentClient) -> dict[str, tuple[str | None, list[float]]]:
        """Return entity -> (units, latest value)."""
        [node] = client.get()
        return {
            each.entity: (each.units, [point.value for point in each.values]) for each in node.data
        }

    with running_agent(settings, clock) as url:
        client = AgentClient(url)
        units = ["V", "W", "A"]
        client.put([Point("m", f"e{n}", clock.now, n, units=units[n % 3]) for n in range(600)])
        before = content_of(client)
        eventually(lambda: stored(ignite, "block/1"), what="the checkpoint is stored")
        eventually(
            lambda: httpx.get(f"{url}/streams/metadata/info").json()["head"] > 600,
            what="the series are published",
        )
        client.close()
    block = stored(ignite, "block/1")
    match damage:
        case "truncated":
            replace(ignite, "block/1", block[: len(block) // 2])
        case "flipped":
            replace(ignite, "block/1", bytes(each ^ 0x55 for each in block))
        case bytes():
            replace(ignite, "block/1", damage)
    for _ in range(2):
        with running_agent(settings, clock) as url:
            client = AgentClient(url)
            assert content_of(client) == before
            client.close()


async def test_metadata_is_restored_where_the_points_have_none() -> None:
    catalogue = Catalogue()
    described = {"metricID": "m", "entityID": "a", "units": "W"}
    catalogue.describe(("m", "a"), described)
    catalogue.describe(("m", "b"), {"metricID": "m", "entityID": "b"})
    names = ("a", "b", "c")
    published = [(("m", e), {"metricID": "m", "entityID": e, "units": "V"}) for e in names]
    await catalogue.restore_metadata(published)
    assert dict(catalogue.select().items()) == {("m", "a"): described, **dict(published[1:])}
