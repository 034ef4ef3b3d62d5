"""The latest value of a series after a deletion."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest

from mistbow.client import AgentClient, Point
from mistbow.errors import UnavailableError
from mistbow.streams.schemas import POINTS
from storage_agent.http.points import GetBody
from storage_agent.request_key import RequestKey
from storage_agent.streams.extents import Extent
from storage_agent.streams.index import IndexEntry
from storage_agent.streams.streams import Stream
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.point_queries import series_selection
from storage_agent.timeseries.removal import PointRemover
from storage_agent.timeseries.series_index import LatestValue
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.streams.opener import Opener, points
from tests.storage_agent.streams.test_deletions_during_reads import NoOffloads


def point(entity: str, ts: int) -> pa.RecordBatch:
    columns = points(ts).columns
    columns[1] = pa.array([entity]).dictionary_encode()
    return pa.RecordBatch.from_arrays(columns, schema=POINTS)


class Catalogued:
    """A catalogue of the series ("w", entity), whose latest points are deleted."""

    def __init__(self, stream: Stream, latest: Mapping[str, int]) -> None:
        self.catalogue = Catalogue()
        for entity, ts in latest.items():
            self.catalogue.describe(("w", entity), {"metricID": "w", "entityID": entity})
            self.catalogue.set_latest(("w", entity), LatestValue(ts, 1.0))
        self.remover = PointRemover(stream, self.catalogue, NoOffloads())

    async def delete(self, entity: str, ts: int) -> None:
        body = GetBody(metricID=frozenset({"w"}), entityID=frozenset({entity}))
        await self.remover.delete(series_selection(self.catalogue, body), ts, ts)

    def latest(self, entity: str) -> int | None:
        latest = self.catalogue.latest(("w", entity))
        return None if latest is None else latest.ts


def test_future_point_remains_latest_after_deletion(
    client: AgentClient, clock: ManualClock
) -> None:
    now = clock.now
    for ts in (now + 60_000, now - 100, now):
        client.put([Point("m", "e", ts, float(ts - now))])
    client.delete("m", start=now, end=now)
    [node] = client.get("m")
    assert [value.value for value in node.data[0].values] == [60_000.0]


async def test_latest_value_is_corrected_after_a_read_has_failed(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = await opener.open(POINTS)
    await stream.writer.append(points(1, 2))
    catalogue = Catalogue()
    catalogue.describe(("w", "w"), {"metricID": "w", "entityID": "w"})
    catalogue.set_latest(("w", "w"), LatestValue(2, 1.0))
    remover = PointRemover(stream, catalogue, NoOffloads())
    select = series_selection(catalogue, GetBody(metricID=frozenset({"w"})))

    async def fail(entries: Sequence[IndexEntry]) -> list[Extent]:
        raise UnavailableError("a run of the stream was replaced during the read")

    with monkeypatch.context() as fault:
        fault.setattr(stream.log, "extents", fail)
        with pytest.raises(UnavailableError):
            await remover.delete(select, 2, 2)
        assert await remover.expire() == []
    assert await remover.expire() == []
    latest = catalogue.latest(("w", "w"))
    assert latest is not None
    assert latest.ts == 1
    with monkeypatch.context() as fault:
        fault.setattr(stream.log, "extents", fail)
        with pytest.raises(UnavailableError):
            await remover.delete(select, 1, 1)
    assert await remover.expire() == [("w", "w")]
    assert await remover.expire() == []


async def test_series_that_cannot_be_read_does_not_delay_the_recheck_of_another(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = await opener.open(POINTS)
    for entity, ts in (("a", 1), ("a", 2), ("b", 11), ("b", 12)):
        await stream.writer.append(point(entity, ts))
    catalogued = Catalogued(stream, {"a": 2, "b": 12})
    extents = stream.log.extents
    unreadable = {0}

    async def fail(entries: Sequence[IndexEntry]) -> list[Extent]:
        if unreadable.intersection(entry.first for entry in entries):
            raise UnavailableError("the segment cannot be read")
        return await extents(entries)

    monkeypatch.setattr(stream.log, "extents", fail)
    for _ in range(2):
        with pytest.raises(UnavailableError):
            await catalogued.delete("a", 2)
    unreadable.add(2)
    with pytest.raises(UnavailableError):
        await catalogued.delete("b", 12)
    unreadable.remove(2)
    await catalogued.remover.expire()
    assert (catalogued.latest("a"), catalogued.latest("b")) == (2, 11)
    assert catalogued.remover._unchecked == [{("w", "a")}]
    unreadable.clear()
    await catalogued.remover.expire()
    assert (catalogued.latest("a"), catalogued.latest("b")) == (1, 11)


async def test_deletion_that_was_stored_without_an_answer_is_completed(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage_agent.streams.writer._COMMIT_S", 0.0)
    stream = await opener.open(POINTS)
    key = RequestKey.of_body("lines", "1")
    await stream.writer.append(points(1))
    await stream.writer.append(points(2), key=key)
    catalogued = Catalogued(stream, {"w": 2})
    put_if_absent = opener.ignite.put_if_absent

    async def lose_answer(cache: str, name: str, value: str) -> bool:
        await put_if_absent(cache, name, value)
        raise UnavailableError("the answer is lost")

    with monkeypatch.context() as fault:
        fault.setattr(opener.ignite, "put_if_absent", lose_answer)
        with pytest.raises(UnavailableError):
            await catalogued.delete("w", 2)
    assert await catalogued.remover.expire() == []
    assert catalogued.latest("w") == 1
    assert stream.log.keys.get(key) is None
