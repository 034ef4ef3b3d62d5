"""Appends to a stream of points while a deletion is prepared, and long reads use all threads."""

import asyncio
import threading
from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext

from mistbow.streams.schemas import POINTS
from storage_agent.http.points import GetBody
from storage_agent.series import Series
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.history import RemoteSeries
from storage_agent.timeseries.point_queries import series_selection
from storage_agent.timeseries.removal import PointRemover
from storage_agent.work_threads import in_own_thread_if_many, limit_work_threads
from tests.storage_agent.streams.opener import Opener, points


class NoOffloads:
    """The remote points of a site without offloads."""

    def among(self, series: Collection[Series]) -> list[RemoteSeries]:
        return []

    def reading(self) -> AbstractContextManager[None]:
        return nullcontext()

    async def latest(self, series: Collection[Series]) -> dict[Series, tuple[int, float]]:
        return {}


async def test_append_waits_for_no_long_read_while_a_deletion_is_prepared(opener: Opener) -> None:
    limit_work_threads()
    catalogue = Catalogue()
    for number in range(5000):
        series = ("m", f"e{number}")
        catalogue.describe(series, {"metricID": "m", "entityID": series[1], "group": "g"})
    stream = await opener.open(POINTS, lateness_ms=0)
    remover = PointRemover(stream, catalogue, NoOffloads())
    body = GetBody(groupName=frozenset({"g"}))
    select = series_selection(catalogue, body, in_own_thread_if_many)
    ends, loop, begun = threading.Event(), asyncio.get_running_loop(), asyncio.Semaphore(0)

    def long_read() -> None:
        loop.call_soon_threadsafe(begun.release)
        ends.wait(60)

    reads = [asyncio.ensure_future(asyncio.to_thread(long_read)) for _ in range(10)]
    deletion = asyncio.ensure_future(remover.delete(select, None, None))
    try:
        async with asyncio.timeout(20):
            await begun.acquire()
            await begun.acquire()
            # The deletion is queued before this append.
            await stream.writer.append(points(1))
        [tombstone] = stream.log.manifest.current.tombstones
        assert tombstone.keys == (("m",),)
    finally:
        ends.set()
        await asyncio.gather(*reads, deletion)
