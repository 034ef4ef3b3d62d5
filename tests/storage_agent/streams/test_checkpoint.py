"""The checkpoint of the catalogue in a real Ignite, through changes and restarts."""

import random

import msgspec
import pytest

from storage_agent.ignite.client import LATEST, METADATA
from storage_agent.series import series_key
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.checkpoint import BLOCKS_KEY
from storage_agent.timeseries.series_index import LatestValue
from tests.storage_agent.streams.opener import Opener


def content(catalogue: Catalogue) -> dict[tuple[str, str], tuple[object, LatestValue | None]]:
    return {
        series: (metadata, catalogue.stored_latest(series)) for series, metadata in catalogue.all()
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
    assert dict(after.all()) == dict(before.all())


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
