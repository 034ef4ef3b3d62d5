"""What the agent knows of each series: its metadata and its latest value.

Both follow from the segments of the raw stream. They are kept in memory, and written to Ignite
now and then with the number up to which they hold, from which a restart goes on.
"""

import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa

from storage_agent.ignite_client import LATEST, METADATA, IgniteClient
from storage_agent.streams.columns import as_list
from storage_agent.streams.log import StreamLog
from storage_agent.streams.segments import Segment

Series = tuple[str, str]
"""A metric and an entity."""

Metadata = dict[str, Any]
"""Of one series, as it was posted: metricID, entityID, entityType, name, units and so on."""

SERIES = "series/"
"""What the key of a series' metadata begins with."""

_APPLIED = "applied/raw"
_AT_ONCE = 500
_REPLAY = 32


class LatestValue(msgspec.Struct, frozen=True):
    """The value of a series with the greatest timestamp."""

    ts: int
    value: float


class Catalogue:
    """The series of this agent, by (metric, entity)."""

    def __init__(self) -> None:
        self._metadata: dict[Series, Metadata] = {}
        self._latest: dict[Series, LatestValue] = {}
        self._applied = 0
        self._described: set[Series] = set()
        self._valued: set[Series] = set()

    def metadata(self, series: Series) -> Metadata | None:
        """Return what is stored of a series."""
        return self._metadata.get(series)

    def latest(self, series: Series) -> LatestValue | None:
        """Return the latest value of a series."""
        return self._latest.get(series)

    def all(self) -> Iterator[tuple[Series, Metadata]]:
        """Yield every series."""
        yield from list(self._metadata.items())

    def apply(self, segment: Segment) -> None:
        """Follow a segment of the raw stream."""
        for metadata in segment.header.series:
            series = series_of(metadata)
            self._metadata[series] = metadata
            self._described.add(series)
        for rows in (segment.rows, segment.ahead):
            self._apply_values(rows)
        self._applied = segment.next

    async def recover(self, ignite: IgniteClient, metadata: dict[str, Any], raw: StreamLog) -> None:
        """Read what is written (``metadata`` is that cache's content), and replay the rest."""
        for key, stored in metadata.items():
            if key.startswith(SERIES):
                self._metadata[_series(key.removeprefix(SERIES))] = msgspec.json.decode(stored)
        for key, stored in (await ignite.scan(LATEST)).items():
            self._latest[_series(key)] = msgspec.json.decode(stored, type=LatestValue)
        self._applied = int(metadata.get(_APPLIED, b"0"))
        entries = list(raw.index.from_number(self._applied))
        for begin in range(0, len(entries), _REPLAY):
            for segment in await raw.segments(entries[begin : begin + _REPLAY]):
                self.apply(segment)

    async def checkpoint(self, ignite: IgniteClient) -> float:
        """Write what changed; returns how many seconds it took. Nothing is lost by an error."""
        begin = time.monotonic()
        applied = self._applied
        described, self._described = self._described, set()
        valued, self._valued = self._valued, set()
        try:
            await _put(ignite, METADATA, {series_key(s): self._metadata[s] for s in described})
            await _put(ignite, LATEST, {_key(s): self._latest[s] for s in valued})
            if described or valued:
                await ignite.put(METADATA, _APPLIED, str(applied).encode())
        except BaseException:
            self._described |= described
            self._valued |= valued
            raise
        return time.monotonic() - begin

    def _apply_values(self, rows: pa.RecordBatch) -> None:
        columns = (as_list(rows[name]) for name in ("metric", "entity", "ts", "value"))
        for metric, entity, ts, value in zip(*columns, strict=True):
            series = (metric, entity)
            known = self._latest.get(series)
            if known is None or known.ts <= ts:
                self._latest[series] = LatestValue(ts, value)
                self._valued.add(series)


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
