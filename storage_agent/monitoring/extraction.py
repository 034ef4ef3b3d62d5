"""Answering a /get: which series are wanted, and their latest or past values."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from mistbow.errors import InvalidRequestError, TooLargeError
from storage_agent.monitoring.bodies import LATEST_MS, GetBody, whole
from storage_agent.monitoring.catalogue import Catalogue, Metadata, Series
from storage_agent.streams.ahead import between
from storage_agent.streams.columns import as_list, is_in
from storage_agent.streams.index import Entry
from storage_agent.streams.log import StreamLog
from storage_agent.streams.segments import Segment

_MOST_VALUES = 1_000_000
_SEGMENTS_AT_ONCE = 32
_COLUMNS = ["metric", "entity", "ts", "value"]


class Extraction:
    """Reads what is stored on this node."""

    def __init__(self, node: str, catalogue: Catalogue, raw: StreamLog) -> None:
        self._node = node
        self._catalogue = catalogue
        self._raw = raw

    async def get(self, body: GetBody) -> bytes:
        """Return the JSON answer; raises ``InvalidRequestError`` and ``TooLargeError``.

        That ``body`` may ask for other nodes too is not looked at here.
        """
        start, end = _times(body)
        filters = _filters(body)
        wanted = {
            series: metadata
            for series, metadata in self._catalogue.all()
            if all(told(metadata) in choice for told, choice in filters)
        }
        if body.latest or (body.latest is None and start is None and end is None):
            data = [self._latest(series, metadata) for series, metadata in wanted.items()]
            return self._answer([item for item in data if item is not None])
        parts = await self._read(wanted, start or 0, LATEST_MS if end is None else end)
        return await asyncio.to_thread(lambda: self._answer(_grouped(parts, wanted)))

    def _answer(self, data: Sequence[dict[str, Any]]) -> bytes:
        return msgspec.json.encode({"monitoring": [{"node": self._node, "data": data}]})

    def _latest(self, series: Series, metadata: Metadata) -> dict[str, Any] | None:
        latest = self._catalogue.latest(series)
        if latest is None:
            return None
        return _item(metadata, [{"timestamp": latest.ts, "val": latest.value}])

    async def _read(
        self, wanted: dict[Series, Metadata], start: int, end: int
    ) -> list[pa.RecordBatch]:
        """Return the rows of the wanted series, and maybe others, from all segments."""
        metrics = pa.array(sorted({metric for metric, _ in wanted}), pa.string())
        entities = pa.array(sorted({entity for _, entity in wanted}), pa.string())
        # Points that are released while this reads are rows beyond the head of now.
        released = self._raw.ahead.released
        entries = _entries(self._raw, start, end) if wanted else []
        parts = []
        values = 0
        for begin in range(0, len(entries), _SEGMENTS_AT_ONCE):
            segments = await self._raw.segments(entries[begin : begin + _SEGMENTS_AT_ONCE])
            for rows in _rows(segments, start, end, released):
                chosen = pc.and_(is_in(rows["metric"], metrics), is_in(rows["entity"], entities))
                part = rows.select(_COLUMNS).filter(chosen)
                if part.num_rows:
                    parts.append(part)
                values += part.num_rows
            if values > _MOST_VALUES:
                raise TooLargeError(
                    f"this asks for more than {_MOST_VALUES} values",
                    hint="Ask for less time, or fewer metrics and entities.",
                )
        return parts


def _rows(
    segments: Sequence[Segment], start: int, end: int, released: int
) -> Iterator[pa.RecordBatch]:
    for segment in segments:
        yield between(segment.rows, start - 1, end)
        if segment.ahead.num_rows:
            yield between(segment.ahead, max(start - 1, released), end)


def _entries(raw: StreamLog, start: int, end: int) -> list[Entry]:
    """Return the entries of segments that may have values in a time, in their order."""
    waiting = [raw.index[raw.index.at(first)] for first in raw.ahead.due(end)]
    found = {entry.first: entry for entry in (*raw.index.overlapping(start, end), *waiting)}
    return [found[first] for first in sorted(found)]


def _grouped(
    parts: Sequence[pa.RecordBatch], wanted: Mapping[Series, Metadata]
) -> list[dict[str, Any]]:
    values: dict[Series, list[dict[str, Any]]] = {}
    for part in parts:
        columns = (as_list(part[name]) for name in _COLUMNS)
        for metric, entity, ts, value in zip(*columns, strict=True):
            values.setdefault((metric, entity), []).append({"timestamp": ts, "val": value})
    return [
        # Sorting keeps the order of their numbers where times are equal.
        _item(metadata, sorted(values[series], key=itemgetter("timestamp")))
        for series, metadata in wanted.items()
        if series in values
    ]


def _item(metadata: Metadata, values: list[dict[str, Any]]) -> dict[str, Any]:
    return {**metadata, "values": values}


def _times(body: GetBody) -> tuple[int | None, int | None]:
    start = None if body.start is None else whole(body.start, "from")
    end = None if body.end is None else whole(body.end, "to")
    if start is not None and end is not None and start > end:
        raise InvalidRequestError(f"from ({start}) is after to ({end})")
    return start, end


def _filters(body: GetBody) -> list[tuple[Callable[[Metadata], Any], frozenset[str]]]:
    """Return what a series must tell of itself to be wanted: of each filter one of its values."""
    asked = (
        (itemgetter("metricID"), body.metricID),
        (itemgetter("entityID"), body.entityID),
        (lambda metadata: metadata.get("entityType"), body.entityType),
        (lambda metadata: metadata.get("group"), body.groupName),
        (lambda metadata: metadata.get("pod", {}).get("name"), body.podName),
        (lambda metadata: metadata.get("pod", {}).get("namespace"), body.podNamespace),
        (lambda metadata: metadata.get("container", {}).get("name"), body.containerName),
    )
    return [(told, choice) for told, values in asked if (choice := choice_of(values))]


def choice_of(value: frozenset[str] | str | None) -> frozenset[str]:
    """Return the values of a filter; none asks for all, as does an empty text."""
    return frozenset([value] if isinstance(value, str) and value else value or ())
