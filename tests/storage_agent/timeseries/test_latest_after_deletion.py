"""The latest value of a series after a deletion."""

from collections.abc import Sequence

import pytest

from mistbow.client import AgentClient, Point
from mistbow.errors import UnavailableError
from mistbow.streams.schemas import POINTS
from storage_agent.http.points import GetBody
from storage_agent.streams.extents import Extent
from storage_agent.streams.index import IndexEntry
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.point_queries import series_selection
from storage_agent.timeseries.removal import PointRemover
from storage_agent.timeseries.series_index import LatestValue
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.streams.opener import Opener, points
from tests.storage_agent.streams.test_deletions_during_reads import NoOffloads


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
