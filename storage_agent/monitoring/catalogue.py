"""What the agent knows of each series: its metadata and its latest value.

Both follow from the segments of the raw stream. They are kept in memory, and written to Ignite
now and then with the number up to which they hold, from which a restart goes on.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain, product, takewhile
from typing import Any

import msgspec
import pyarrow as pa

from storage_agent.ignite_client import LATEST, METADATA, IgniteClient
from storage_agent.streams.columns import as_list
from storage_agent.streams.index import EARLIEST, Entry
from storage_agent.streams.log import StreamLog
from storage_agent.streams.segments import Segment

Series = tuple[str, str]
"""A metric and an entity."""

Metadata = dict[str, Any]
"""Of one series, as it was posted: metricID, entityID, entityType, name, units and so on."""

SERIES = "series/"
"""What the key of a series' metadata begins with."""

APPLIED = "applied/raw"
"""The number up to which what is written holds."""

_AT_ONCE = 100
"""Values put by one call: a commit that waits for it waits a moment only."""

_REPLAY = 32


class LatestValue(msgspec.Struct, frozen=True):
    """The value of a series with the greatest timestamp.

    ``created`` is when it came, ``seen`` when any value of the series came last; milliseconds.
    """

    ts: int
    value: float
    created: int = 0
    seen: int = 0


class Catalogue:
    """The series of this agent, by (metric, entity)."""

    def __init__(self) -> None:
        self._metadata: dict[Series, Metadata] = {}
        self._of_metric: defaultdict[str, dict[Series, None]] = defaultdict(dict)
        self._of_entity: defaultdict[str, dict[Series, None]] = defaultdict(dict)
        self._latest: dict[Series, LatestValue] = {}
        self._applied = 0
        self._written = 0
        self._described: set[Series] = set()
        self._valued: set[Series] = set()
        self._forgotten: set[Series] = set()
        self.expired_before: Callable[[], int] = lambda: EARLIEST

    def metadata(self, series: Series) -> Metadata | None:
        """Return what is stored of a series."""
        return self._metadata.get(series)

    def latest(self, series: Series) -> LatestValue | None:
        """Return the latest value of a series, unless it has expired."""
        latest = self._latest.get(series)
        return None if latest is None or latest.created < self.expired_before() else latest

    def stored(self, series: Series) -> LatestValue | None:
        """Return the latest value of a series, expired or not."""
        return self._latest.get(series)

    def written(self) -> int:
        """Return the number up to which Ignite has what follows from the segments."""
        return self._written

    def expired(self) -> list[Series]:
        """Forget the series all of whose values have expired, and return the others to look at.

        Of those the latest value has expired, and values that are older came later.
        """
        before = self.expired_before()
        expired = [
            (series, latest) for series, latest in self._latest.items() if latest.created < before
        ]
        for series, latest in expired:
            if latest.seen < before:
                self.correct(series, None)
        return [series for series, latest in expired if latest.seen >= before]

    def correct(self, series: Series, latest: LatestValue | None) -> None:
        """Say what the latest value of a series is after some are gone; without one it is too."""
        if latest is not None:
            self._latest[series] = latest
            self._valued.add(series)
            return
        if self._metadata.pop(series, None) is not None:
            for index, name in zip((self._of_metric, self._of_entity), series, strict=True):
                del index[name][series]
                if not index[name]:
                    del index[name]
        self._latest.pop(series, None)
        self._described.discard(series)
        self._valued.discard(series)
        self._forgotten.add(series)

    def all(self) -> Iterator[tuple[Series, Metadata]]:
        """Yield every series."""
        yield from list(self._metadata.items())

    def among(
        self, metrics: Collection[str], entities: Collection[str]
    ) -> Iterator[tuple[Series, Metadata]]:
        """Yield the series of some metrics and of some entities; none of either asks for all."""
        if metrics and entities and len(metrics) * len(entities) <= len(self._metadata):
            asked: Iterable[Series] = product(sorted(metrics), sorted(entities))
        elif entities:
            of_entity = (self._of_entity.get(each, ()) for each in sorted(entities))
            every = chain.from_iterable(of_entity)
            asked = (series for series in every if not metrics or series[0] in metrics)
        elif metrics:
            of_metric = (self._of_metric.get(each, ()) for each in sorted(metrics))
            asked = chain.from_iterable(of_metric)
        else:
            asked = self._metadata
        for series in list(asked):
            metadata = self._metadata.get(series)
            if metadata is not None:
                yield series, metadata

    def apply(self, segment: Segment) -> list[Metadata]:
        """Follow a segment of the raw stream; returns the metadata that is new or changed."""
        told = list(segment.header.series)
        for metadata in segment.header.series:
            series = series_of(metadata)
            self._tell(series, metadata)
        for rows in (segment.rows, segment.ahead):
            if rows.num_rows:
                told += self._apply_values(rows, segment.header.created)
        self._applied = segment.next
        return told

    async def recover(self, ignite: IgniteClient, metadata: dict[str, Any], raw: StreamLog) -> None:
        """Read what is written (``metadata`` is that cache's content), and replay the rest."""
        for key, stored in metadata.items():
            if key.startswith(SERIES):
                self._index(_series(key.removeprefix(SERIES)), msgspec.json.decode(stored))
        for key, stored in (await ignite.scan(LATEST)).items():
            self._latest[_series(key)] = msgspec.json.decode(stored, type=LatestValue)
        self._applied = self._written = int(metadata.get(APPLIED, b"0"))
        entries = list(raw.index.from_number(self._applied))
        while entries:
            if entries[0].blocks:
                await self._replay_run(raw, entries.pop(0))
                continue
            commits = list(takewhile(lambda entry: not entry.blocks, entries[:_REPLAY]))
            for segment in await raw.segments(commits):
                self.apply(segment)
            del entries[: len(commits)]

    async def _replay_run(self, raw: StreamLog, entry: Entry) -> None:
        """Follow what a run holds from where this is: all of its commits but their metadata."""
        [piece] = await raw.pieces([entry])
        commits = piece.commits
        columns = (each.tolist() for each in (commits.first, commits.next, commits.created))
        for first, end, created in zip(*columns, strict=True):
            if end > self._applied:
                rows = piece.between(max(first, self._applied), end)
                self._apply_values(rows.batch, created)
        self._apply_values(piece.waiting(raw.ahead.released), entry.created)
        self._applied = entry.next

    async def checkpoint(self, ignite: IgniteClient) -> float:
        """Write what changed; returns how many seconds it took. Nothing is lost by an error."""
        begin = time.monotonic()
        applied = self._applied
        described, self._described = self._described, set()
        valued, self._valued = self._valued, set()
        # A series that came back is written, not removed.
        forgotten = self._forgotten - self._metadata.keys()
        try:
            # What is forgotten while Ignite answers is removed the next time.
            told = {series_key(s): self._metadata[s] for s in described if s in self._metadata}
            await _put(ignite, METADATA, told)
            values = {_key(s): self._latest[s] for s in valued if s in self._latest}
            await _put(ignite, LATEST, values)
            await ignite.remove_all(METADATA, map(series_key, forgotten))
            await ignite.remove_all(LATEST, map(_key, forgotten))
            if applied != self._written:
                await ignite.put(METADATA, APPLIED, str(applied).encode())
            self._written = applied
            self._forgotten -= forgotten
        except BaseException:
            self._described |= described
            self._valued |= valued
            raise
        return time.monotonic() - begin

    def _tell(self, series: Series, metadata: Metadata) -> None:
        self._index(series, metadata)
        self._described.add(series)

    def _index(self, series: Series, metadata: Metadata) -> None:
        metric, entity = series
        self._metadata[series] = metadata
        self._of_metric[metric][series] = None
        self._of_entity[entity][series] = None

    def _apply_values(self, rows: pa.RecordBatch, created: int) -> list[Metadata]:
        found = []
        columns = (as_list(rows[name]) for name in ("metric", "entity", "ts", "value"))
        # Once for each point that is stored: looked up by name just once.
        described, latest, valued = self._metadata, self._latest, self._valued
        for metric, entity, ts, value in zip(*columns, strict=True):
            series = (metric, entity)
            if series not in described:
                # It was deleted while these points, which say nothing new of it, were on their way.
                self._tell(series, {"metricID": metric, "entityID": entity})
                found.append(described[series])
            known = latest.get(series)
            if known is None or known.ts <= ts:
                latest[series] = LatestValue(ts, value, created, created)
                valued.add(series)
            elif known.seen < created:
                latest[series] = LatestValue(known.ts, known.value, known.created, created)
                valued.add(series)
        return found


async def _put(ignite: IgniteClient, cache: str, values: dict[str, Any]) -> None:
    items = [(key, msgspec.json.encode(value)) for key, value in values.items()]
    for begin in range(0, len(items), _AT_ONCE):
        await ignite.put_all(cache, dict(items[begin : begin + _AT_ONCE]))


def series_key(series: Series) -> str:
    """Return the key of a series' metadata."""
    return SERIES + _key(series)


def series_of(metadata: Metadata) -> Series:
    """Return the series that metadata is of."""
    return metadata["metricID"], metadata["entityID"]


def _key(series: Series) -> str:
    return msgspec.json.encode(series).decode()


def _series(key: str) -> Series:
    metric, entity = msgspec.json.decode(key, type=tuple[str, str])
    return metric, entity
