"""Reads, deletions, checkpoints and restarts while a stored segment is applied to the catalogue."""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import pytest

from mistbow.errors import UnavailableError
from mistbow.runtime.slices import Slices
from mistbow.streams.schemas import POINTS
from storage_agent.agent import recovery
from storage_agent.agent.recovery import SeriesOfSegments
from storage_agent.http.points import GetBody
from storage_agent.ignite.client import METADATA
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.series import Metadata, Series, series_of
from storage_agent.streams import subscription
from storage_agent.streams.consumer import SegmentConsumer
from storage_agent.streams.extents import Extent
from storage_agent.streams.index import IndexEntry
from storage_agent.streams.log import StreamLog
from storage_agent.streams.segments import AppendResult
from storage_agent.streams.streams import Stream
from storage_agent.streams.subscription import RowSelection, RowSelector
from storage_agent.timeseries import catalogue as catalogue_module
from storage_agent.timeseries import removal
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.point_queries import series_selection
from storage_agent.timeseries.removal import PointRemover
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.gate import close_gate
from tests.storage_agent.streams.opener import FixedPolicy, Opener
from tests.storage_agent.streams.test_deletions_during_reads import NoOffloads
from tests.support.conditions import aeventually

T = TypeVar("T")

_Point = tuple[str, int]
"""The entity of a point of the metric ``m``, and its time (ms)."""


def rows_of(points: Sequence[_Point]) -> pa.RecordBatch:
    words = (["m"] * len(points), [entity for entity, _ in points], ["{}"] * len(points))
    times = [ts for _, ts in points]
    columns = [pa.array(each).dictionary_encode() for each in words]
    numbers = [pa.array(times, pa.int64()), pa.array(times, pa.float64())]
    return pa.RecordBatch.from_arrays([*columns, *numbers], schema=POINTS)


def metadata_of(entity: str) -> Metadata:
    return {"metricID": "m", "entityID": entity, "group": "g"}


class Published(FabricMembership):
    """A membership that records the last published metadata of each series."""

    def __init__(self) -> None:
        self.series: dict[Series, Metadata] = {}

    def publish_series(self, series: Iterable[Metadata]) -> None:
        self.series |= {series_of(each): each for each in series}


class Site:
    """A stream of points, and the catalogue and the facts that are derived from it."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.catalogue, self.published = Catalogue(stream.log.expired_before), Published()
        self.remover = PointRemover(stream, self.catalogue, NoOffloads())
        derived = SeriesOfSegments(self.catalogue, self.published)
        stream.log.attach(SegmentConsumer(derived.apply, self.catalogue.checkpointed_position))

    async def put(self, *points: _Point, described: bool = True) -> AppendResult:
        """Store points; ``described``: the segment contains the metadata of their series."""
        entities = dict.fromkeys(entity for entity, _ in points)
        series = [metadata_of(each) for each in entities] if described else []
        return await self.stream.writer.append(rows_of(points), series=series)

    async def delete_group(self, end: int | None = None) -> list[Series]:
        """Delete the points of all series up to ``end`` (ms); None: all points."""
        select = series_selection(self.catalogue, GetBody(groupName=frozenset({"g"})))
        return self._retract(await self.remover.delete(select, None, end))

    async def expire(self) -> list[Series]:
        """Remove the series without points, and return them."""
        return self._retract(await self.remover.expire())

    def _retract(self, removed: list[Series]) -> list[Series]:
        """Retract the facts of removed series, unless they were added again."""
        for each in removed:
            if not self.catalogue.contains(each):
                self.published.series.pop(each, None)
        return removed

    async def rows(self) -> list[_Point]:
        """Return the visible rows, in the order of positions."""
        found = subscription.read(self.stream.log, RowSelector(self.stream, RowSelection()), 0)
        parts = [(each.rows["entity"], each.rows["ts"]) async for each in found]
        return [
            pair
            for entities, times in parts
            for pair in zip(entities.to_pylist(), times.to_pylist(), strict=True)
        ]

    def latest(self) -> dict[str, int | None]:
        """Return the time (ms) of the latest value of each entity."""
        found = {}
        for series in self.catalogue.select():
            latest = self.catalogue.latest(series)
            found[series[1]] = None if latest is None else latest.ts
        return found

    def is_described(self) -> bool:
        """Return whether all series have their metadata."""
        return all(
            each == metadata_of(series[1]) for series, each in self.catalogue.select().items()
        )


async def test_rows_are_read_and_acknowledged_once_their_series_are_in_the_catalogue(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(await opener.open(POINTS, 1000))
    await site.put(("old", 1))
    log = site.stream.log
    head, frontier = log.head, log.frontier
    changed = log.watch()
    gate = close_gate(monkeypatch, 1)
    first = asyncio.create_task(site.put(("a", 2), ("b", 3)))
    await gate.wait_reached()
    second = asyncio.create_task(site.put(("c", 4)))
    assert site.latest() == {"old": 1, "a": 2, "b": None}
    assert (log.head, log.frontier, changed.is_set()) == (head, frontier, False)
    assert await site.rows() == [("old", 1)]
    assert not first.done()
    gate.open()
    results = await asyncio.gather(first, second)
    assert [each.first for each in results] == [head, head + 2]
    assert changed.is_set()
    assert await site.rows() == [("old", 1), ("a", 2), ("b", 3), ("c", 4)]
    assert site.latest() == {"old": 1, "a": 2, "b": 3, "c": 4}


async def test_deletion_that_comes_while_a_segment_is_applied_deletes_its_series(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(await opener.open(POINTS))
    gate = close_gate(monkeypatch, 1)
    putting = asyncio.create_task(site.put(("a", 1), ("b", 2)))
    await gate.wait_reached()
    deletion = asyncio.create_task(site.delete_group())

    async def is_queued() -> bool:
        return bool(site.stream.writer._queue)

    await aeventually(is_queued, what="the writer has received the deletion")
    gate.open()
    await putting
    assert sorted(await deletion) == [("m", "a"), ("m", "b")]
    assert (site.latest(), await site.rows()) == ({}, [])


async def delete_unchecked(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delete all points, but let the recheck fail, so that ``expire`` repeats it."""

    async def fail(entries: Sequence[IndexEntry]) -> list[Extent]:
        raise UnavailableError("a run of the stream was replaced during the read")

    with monkeypatch.context() as fault:
        fault.setattr(site.stream.log, "extents", fail)
        with pytest.raises(UnavailableError):
            await site.delete_group(10)


def observed(monkeypatch: pytest.MonkeyPatch, log: StreamLog) -> asyncio.Future[Any]:
    """Return a future that ends once a recheck with versions waits for the present segment.

    The first wait of the recheck returns at once, as if the application had begun after it.
    """
    wait_applied = log.wait_applied
    called: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    early = [True]

    async def wait() -> None:
        if early:
            early.pop()
            return
        if not called.done():
            called.set_result(None)
        await wait_applied()

    monkeypatch.setattr(log, "wait_applied", wait)
    return called


@pytest.mark.parametrize("applied", [0, 1, 2])
async def test_series_that_is_rechecked_while_its_new_points_are_applied_stays(
    opener: Opener, monkeypatch: pytest.MonkeyPatch, applied: int
) -> None:
    site = Site(await opener.open(POINTS))
    await site.put(("a", 5), ("z", 9))
    await delete_unchecked(site, monkeypatch)
    gate = close_gate(monkeypatch, applied)
    # The time is earlier than that of the deleted point.
    putting = asyncio.create_task(site.put(("a", 3), ("b", 4), ("c", 6)))
    await gate.wait_reached()
    waiting = observed(monkeypatch, site.stream.log)
    checking: asyncio.Future[Any] = asyncio.create_task(site.expire())
    await asyncio.wait([checking, waiting], return_when=asyncio.FIRST_COMPLETED)
    assert not checking.done(), "the recheck waits for the rows of the segment"
    gate.open()
    assert await checking == [("m", "z")]
    await putting
    assert site.latest() == {"a": 3, "b": 4, "c": 6}


@pytest.mark.parametrize("described", [True, False])
async def test_series_removed_before_its_points_are_applied_retains_its_metadata(
    opener: Opener, monkeypatch: pytest.MonkeyPatch, described: bool
) -> None:
    site = Site(await opener.open(POINTS))
    await site.put(("a", 1), ("b", 1))
    gate = close_gate(monkeypatch, 0)
    putting = asyncio.create_task(site.put(("a", 2), described=described))
    await gate.wait_reached()
    site.catalogue.set_latest(("m", "a"), None)
    gate.open()
    await putting
    assert site.latest() == {"a": 2, "b": 1}
    assert site.is_described()


# The first slice of the segment is applied, or its first new series is published.
@pytest.mark.parametrize("steps", [1, 4])
async def test_agent_that_ends_while_a_segment_is_applied_applies_it_after_its_start(
    opener: Opener, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    site = Site(await opener.open(POINTS, 1000))
    await site.put(("a", 1))
    gate = close_gate(monkeypatch, steps)

    class Publication(Slices):
        async def over(self, items: Iterable[T], steps: int = 1) -> AsyncIterator[T]:
            for item in items:
                await gate.pass_slice()
                yield item

    monkeypatch.setattr(recovery, "Slices", Publication)
    putting = asyncio.create_task(site.put(("b", 2), ("c", 3), ("a", 4)))
    await gate.wait_reached()
    await site.catalogue.checkpoint(opener.ignite)
    await site.stream.writer.close()
    with pytest.raises(UnavailableError):
        await putting
    # Not even the readers of the closed log find rows that are not applied.
    assert await site.rows() == [("a", 1)]
    again = Site(await opener.open(POINTS, 1000))
    metadata = await opener.ignite.scan(METADATA)
    await again.catalogue.recover(opener.ignite, metadata, again.stream.log)
    assert await again.rows() == [("a", 1), ("b", 2), ("c", 3), ("a", 4)]
    assert again.latest() == {"a": 4, "b": 2, "c": 3}
    assert again.is_described()


class Shuffled(Slices):
    """Slices that let other tasks run, for a random time, after each item."""

    random = random.Random()  # noqa: S311

    async def pause(self) -> None:
        for _ in range(self.random.randrange(5)):
            await asyncio.sleep(0)

    async def over(self, items: Iterable[T], steps: int = 1) -> AsyncIterator[T]:
        async for item in super().over(items, steps):
            yield item


async def read_until(site: Site, ends: asyncio.Event) -> None:
    """Read the rows again and again; each visible row must have its series in the catalogue."""
    while not ends.is_set():
        deletions = site.stream.log.manifest.current.last_tombstone
        rows = await site.rows()
        # Rows may have been deleted after they were read.
        if deletions == site.stream.log.manifest.current.last_tombstone:
            assert {entity for entity, _ in rows} <= site.latest().keys()
        await asyncio.sleep(0)


async def change(site: Site, random: random.Random, times: Iterator[int]) -> None:
    """Put and delete points, or check series, in a random order."""
    for _ in range(6):
        choice = random.random()
        if choice < 0.6:
            entities = random.sample("abcdef", random.randint(1, 4))
            before = next(times)
            await site.put(*((each, before - random.randrange(5)) for each in entities))
        elif choice < 0.8:
            await site.delete_group(random.choice((None, next(times) - 3)))
        else:
            await site.expire()


@pytest.mark.parametrize("seed", range(4))
async def test_catalogue_fits_the_visible_rows_whatever_changes_while_segments_are_applied(
    opener: Opener, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    site = Site(await opener.open(POINTS))
    for module in (catalogue_module, removal, recovery):
        monkeypatch.setattr(module, "Slices", Shuffled)
    monkeypatch.setattr(catalogue_module, "_SLICE", 1)
    Shuffled.random.seed(seed)
    choices, times = random.Random(seed), itertools.count(100)  # noqa: S311
    for _ in range(5):
        clock.now += 1000
        # The rows of the rounds before the last one expire.
        site.stream.log.policy = FixedPolicy(clock.now - 1500)
        ends = asyncio.Event()
        reading = asyncio.create_task(read_until(site, ends))
        await asyncio.gather(*(change(site, choices, times) for _ in range(3)))
        ends.set()
        await reading
        await site.expire()
        expected: dict[str, int] = {}
        for entity, ts in await site.rows():
            expected[entity] = max(ts, expected.get(entity, ts))
        assert site.latest() == expected
        assert site.is_described()
        assert site.published.series == dict(site.catalogue.select().items())
