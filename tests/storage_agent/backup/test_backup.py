"""Backups under load, and their restoration: rows from before the cut are equal, none is lost."""

import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import httpx
import msgspec
import pyarrow as pa
import pytest

from mistbow.client import Point
from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from mistbow.errors import ConflictError, FencedError, MistbowError, NotFoundError, ReusedKeyError
from mistbow.streams.events import event_rows
from mistbow.streams.schemas import EVENTS, RESULT_ROWS
from storage_agent.backup.archive import Archive, BackupFile
from storage_agent.backup.copy import back_up
from storage_agent.backup.parts import decode_part
from storage_agent.backup.restore import GAP
from storage_agent.main import create_app
from tests.storage_agent.backup.conftest import Load, restored, wipe
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.gate import close_gate
from tests.support.agents import running_agent
from tests.support.conditions import eventually
from tests.support.http_server import served

RESULTS = "results/all.fair"
HOUR = 3_600_000


def result_rows(*values: float) -> pa.RecordBatch:
    row = {"insight": "i", "key": "{}", "revision": 0, "computed_at": 0}
    rows = [{**row, "ts": number, "value": value} for number, value in enumerate(values)]
    return pa.RecordBatch.from_pylist(rows, schema=RESULT_ROWS)


def fill(client: AgentClient, now: int) -> None:
    """Store points of each kind, records, results and a changed configuration."""
    labels = {"rack": "7"}
    client.put([Point(metric="cpu", entity="a", value=1.5, ts=now, units="%", labels=labels)])
    client.put([Point(metric="cpu", entity="late", value=2, ts=now - HOUR, desc="of yesterday")])
    client.put([Point(metric="cpu", entity="nan", value=math.nan, ts=now)])
    client.put([Point(metric="cpu", entity="future", value=3, ts=now + HOUR)])
    client.put([Point(metric="cpu", entity="deleted", value=4, ts=now)])
    client.delete(metric="cpu", entity="deleted")
    client.create_stream(RESULTS, RESULT_ROWS)
    epoch = client.claim(RESULTS).epoch
    client.append(RESULTS, result_rows(1, 2, 3), epoch=epoch, frontier=99)
    client.advance(RESULTS, epoch, attributes={"progress": [1, 2]})
    client.operations.change_config(streams={"results/*": 7 * 24 * HOUR})


def tables(client: AgentClient, heads: dict[str, int]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of streams before the given heads."""
    # NaN differs from itself; its text does not.
    return {
        name: [
            {key: str(value) if value != value else value for key, value in row.items()}
            for row in client.read(name, 0, head).table.to_pylist()
        ]
        for name, head in heads.items()
    }


async def test_restored_site_has_each_row_from_before_the_cut_of_a_backup_under_load(
    ignite, settings, tmp_path
):
    now = system_clock()
    archive = Archive(str(tmp_path / "backup"))
    with running_agent(settings) as url:
        client = AgentClient(url)
        fill(client, now)
        with Load(url).running() as load:
            # Both runs and segments are copied.
            eventually(lambda: len(load.acknowledged) > 300, timeout=120, what="points are stored")
            eventually(
                lambda: client.info("raw").segments < len(load.acknowledged),
                timeout=60,
                what="a run is built",
            )
            before = list(load.acknowledged)
            cut = back_up(client, archive)
            heads = {each.name: each.head for each in cut.streams if each.name != "metadata"}
            eventually(lambda: len(load.acknowledged) > len(before) + 20, what="the load goes on")
        expected = tables(client, heads)
        series = sorted(client.list_series(), key=str)
        client.close()

    wipe(ignite, settings.home)
    await restored(archive, ignite)

    clock = ManualClock(system_clock())
    with running_agent(settings, clock) as url:
        client = AgentClient(url)
        assert tables(client, heads) == expected
        values = {row["value"] for row in expected["raw"] if row["metric"] == "load"}
        assert set(before) <= values
        assert sorted(client.list_series(), key=str) == series
        assert client.operations.config().streams == {"results/*": 7 * 24 * HOUR}
        info = client.info(RESULTS)
        assert (info.frontier, info.attributes["progress"]) == (99, [1, 2])
        # Nobody who wrote before can write now, and a new writer can.
        with pytest.raises(FencedError):
            client.append(RESULTS, result_rows(4), epoch=1)
        client.append(RESULTS, result_rows(5), epoch=client.claim(RESULTS).epoch)
        # The keys from before the cut are known, with the digests of their bodies.
        repeated = before[-1]
        with pytest.raises(ReusedKeyError):
            client.put(
                [Point(metric="load", entity="e", value=repeated, ts=now)],
                idempotency_key=f"load-{repeated}",
            )
        client.put([Point(metric="new", entity="e", value=6, ts=clock.now)])
        # A reader at the position before the gap continues behind it at once.
        page = client.rows("raw", heads["raw"], limit=10)
        assert [row["metric"] for row in page.rows] == ["new"]
        assert page.next > heads["raw"] + GAP
        # The future point becomes a row when its time has come.
        clock.now += 2 * HOUR

        def released() -> bool:
            rows = client.rows("raw", heads["raw"], limit=10).rows
            return [row["entity"] for row in rows] == ["e", "future"]

        eventually(released, what="the future point is a row")
        client.close()


async def test_backup_contains_events_that_later_events_replaced_during_the_backup(
    ignite, settings, tmp_path
):
    with running_agent(settings) as url:
        client = AgentClient(url)
        for name in ("deployments", "placements"):
            client.create_stream(name, EVENTS)
        client.append("deployments", event_rows(0, {"a": "1"}))
        cut = client.operations.begin_backup()
        client.create_stream("deployments/later", EVENTS)
        for number in range(300):
            client.append("deployments", event_rows(0, {"a": f"{number}0"}))
            client.append("deployments/later", event_rows(0, {"a": f"{number}"}))
        # This stream is not in the backup: it shows that compaction had its turns.
        eventually(
            lambda: client.info("deployments/later").segments < 300, what="the stream is compacted"
        )
        assert client.info("deployments").segments == 301
        part = decode_part(client.operations.backup_part(cut.id, "deployments", 0))
        assert part.rows["event"].to_pylist() == ["1"]
        client.operations.end_backup(cut.id)
        eventually(lambda: client.info("deployments").segments < 300, what="it is compacted too")
        with pytest.raises(NotFoundError, match="there is no backup"):
            client.operations.backup_part(cut.id, "deployments", 0)
        client.close()


def backed_up(client: AgentClient) -> tuple[set[str], set[str]]:
    """Make a backup; return the entities of its rows of ``raw``, and those of its series."""
    cut = client.operations.begin_backup()
    lines = client.operations.backup_series(cut.id).splitlines()
    found, [raw] = set(), [each for each in cut.streams if each.name == "raw"]
    position = 0
    while position < raw.head:
        part = decode_part(client.operations.backup_part(cut.id, "raw", position))
        found |= set(part.rows["entity"].to_pylist())
        position = part.header.next
    client.operations.end_backup(cut.id)
    return found, {msgspec.json.decode(line)["entityID"] for line in lines}


def test_backup_that_begins_while_points_are_applied_has_the_series_of_its_rows(
    url: str, client: AgentClient, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.put([Point("m", "old", clock.now, 1.0)])
    gate = close_gate(monkeypatch, 1)
    with ThreadPoolExecutor(1) as pool, closing(AgentClient(url)) as sender:
        putting = pool.submit(sender.put, [Point("m", each, clock.now, 1.0) for each in "abc"])
        try:
            assert gate.reached.wait(20)
            rows, series = backed_up(client)
            assert rows == {"old"} <= series
            assert not putting.done()
        finally:
            gate.open()
        putting.result()
    rows, series = backed_up(client)
    assert rows == series == {"old", "a", "b", "c"}
    assert len(client.get("m")[0].data) == 4


class Interrupted(Archive):
    """An archive that fails when the metadata of series is read."""

    def read(self, file: BackupFile) -> bytes:
        if file.path == "series.jsonl":
            raise MistbowError("interrupted")
        return super().read(file)


async def test_agent_waits_for_an_interrupted_restoration_and_for_the_site_of_the_backup(
    ignite, settings, tmp_path
):
    place = str(tmp_path / "backup")
    with running_agent(settings) as url:
        client = AgentClient(url)
        fill(client, system_clock())
        back_up(client, Archive(place))
        client.close()
    with pytest.raises(ConflictError, match="only to an empty site"):
        await restored(Archive(place), ignite)
    wipe(ignite, settings.home)
    with pytest.raises(MistbowError, match="interrupted"):
        await restored(Interrupted(place), ignite)
    with served(create_app(settings)) as url:
        eventually(
            lambda: "was interrupted" in httpx.get(f"{url}/readyz").text, what="the agent waits"
        )
    await restored(Archive(place), ignite)
    foreign = settings.model_copy(update={"site": "foreign"})
    with served(create_app(foreign)) as url:
        eventually(
            lambda: "the data is that of the site" in httpx.get(f"{url}/readyz").text,
            what="an agent of another site waits",
        )
    with running_agent(settings) as url:
        client = AgentClient(url)
        assert len(client.read(RESULTS, 0).table) == 3
        client.close()


async def test_restoration_names_a_damaged_file_and_a_backup_is_not_overwritten(
    ignite, settings, tmp_path
):
    place = tmp_path / "backup"
    with running_agent(settings) as url:
        client = AgentClient(url)
        client.put([Point(metric="m", entity="e", value=1, ts=1)])
        back_up(client, Archive(place.as_uri()))
        with pytest.raises(ConflictError, match="contains a backup"):
            back_up(client, Archive(str(place)))
        client.close()
    wipe(ignite, settings.home)
    file = next(place.glob("streams/*/*.arrow"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(MistbowError, match=f"{file.name} of the backup .* is damaged"):
        await restored(Archive(str(place)), ignite)
    (place / "backup.json").unlink()
    with pytest.raises(NotFoundError, match="no complete backup"):
        await restored(Archive(str(place)), ignite)
