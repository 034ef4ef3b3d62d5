"""Appends to a stream of points while a deletion is prepared, and long reads use all threads."""

import asyncio
import threading
from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext

import pytest

from mistbow.streams.schemas import POINTS
from storage_agent.http.points import GetBody
from storage_agent.series import Series
from storage_agent.streams.manifest import KeySet
from storage_agent.timeseries import removal
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.deletion import cover_series
from storage_agent.timeseries.history import RemoteSeries
from storage_agent.timeseries.point_queries import series_selection
from storage_agent.timeseries.removal import PointRemover, SelectSeries
from storage_agent.timeseries.selection import SeriesSelection
from storage_agent.work_threads import in_own_thread_if_many, limit_work_threads
from tests.storage_agent.streams.opener import Opener, points
from tests.support.conditions import aeventually


class NoOffloads:
    """The remote points of a site without offloads."""

    def among(self, series: Collection[Series]) -> list[RemoteSeries]:
        return []

    def reading(self) -> AbstractContextManager[None]:
        return nullcontext()

    async def latest(self, series: Collection[Series]) -> dict[Series, tuple[int, float]]:
        return {}


def describe(catalogue: Catalogue, entity: str, group: str) -> None:
    catalogue.describe(("m", entity), {"metricID": "m", "entityID": entity, "group": group})


def many_series() -> tuple[Catalogue, SelectSeries]:
    """Return a catalogue of many series of one metric, and the selection of their group."""
    catalogue = Catalogue()
    for number in range(5000):
        describe(catalogue, f"e{number}", "g")
    body = GetBody(groupName=frozenset({"g"}))
    return catalogue, series_selection(catalogue, body, in_own_thread_if_many)


async def test_append_waits_for_no_long_read_while_a_deletion_is_prepared(opener: Opener) -> None:
    limit_work_threads()
    catalogue, select = many_series()
    stream = await opener.open(POINTS, lateness_ms=0)
    remover = PointRemover(stream, catalogue, NoOffloads())
    ends, loop, begun = threading.Event(), asyncio.get_running_loop(), asyncio.Semaphore(0)

    async def tombstones() -> object:
        return stream.log.manifest.current.tombstones

    def long_read() -> None:
        loop.call_soon_threadsafe(begun.release)
        ends.wait(60)

    reads = [asyncio.ensure_future(asyncio.to_thread(long_read)) for _ in range(10)]
    deletion = asyncio.ensure_future(remover.delete(select, None, None))
    try:
        async with asyncio.timeout(20):
            await begun.acquire()
            await begun.acquire()
            await stream.writer.append(points(1))
        await aeventually(tombstones, timeout=20)
        [tombstone] = stream.log.manifest.current.tombstones
        assert tombstone.keys == (("m",),)
    finally:
        ends.set()
        await asyncio.gather(*reads, deletion)


class HeldCover:
    """Covers series as ``cover_series``; the first call waits until ``go`` is set."""

    def __init__(self) -> None:
        self.calls = 0
        self.begun = threading.Event()
        self.go = threading.Event()

    def __call__(self, series: SeriesSelection, catalogue: Catalogue) -> list[KeySet]:
        self.calls += 1
        found = cover_series(series, catalogue)
        if self.calls == 1:
            self.begun.set()
            assert self.go.wait(60)
        return found


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> HeldCover:
    held = HeldCover()
    monkeypatch.setattr(removal, "cover_series", held)
    return held


async def test_append_does_not_wait_for_the_keys_of_a_deletion(
    opener: Opener, held: HeldCover
) -> None:
    catalogue, select = many_series()
    stream = await opener.open(POINTS, lateness_ms=0)
    deletion = asyncio.ensure_future(
        PointRemover(stream, catalogue, NoOffloads()).delete(select, None, None)
    )
    try:
        async with asyncio.timeout(20):
            await asyncio.to_thread(held.begun.wait)
            await stream.writer.append(points(1))
    finally:
        held.go.set()
        await deletion
    [tombstone] = stream.log.manifest.current.tombstones
    assert (tombstone.keys, tombstone.before) == ((("m",),), stream.log.head)
    assert held.calls == 1


async def test_series_added_while_the_keys_are_computed_are_noticed(
    opener: Opener, held: HeldCover
) -> None:
    catalogue, select = many_series()
    stream = await opener.open(POINTS, lateness_ms=0)
    deletion = asyncio.ensure_future(
        PointRemover(stream, catalogue, NoOffloads()).delete(select, None, None)
    )
    await asyncio.to_thread(held.begun.wait)
    # The first keys select the whole metric.
    describe(catalogue, "new", "g")
    describe(catalogue, "other", "h")
    held.go.set()
    await deletion
    [tombstone] = stream.log.manifest.current.tombstones
    assert tombstone.columns == ("entity",)
    assert set(tombstone.keys) == {("new",), *((f"e{number}",) for number in range(5000))}
    assert held.calls == 2
