"""The points of an answer, which are collected in arrays and encoded as chunks of JSON."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mistbow.streams.json_numbers import to_json
from storage_agent.series import Metadata, Series
from storage_agent.streams.columns import as_list

COLUMNS = ("metric", "entity", "ts", "value")

_MAX_ENCODED_POINTS = 1000
_CHUNK_BYTES = 64 * 2**10

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]


class _Value(msgspec.Struct, frozen=True, gc=False):
    timestamp: int
    val: float | str


@dataclass(frozen=True, slots=True)
class SeriesSlice:
    """A series with some of its points, sorted by time; ``times`` in ms."""

    metadata: Metadata
    times: Int64s
    values: Float64s

    def to_json(self) -> Iterator[bytes]:
        """Yield the parts of the JSON object that ``series_item`` describes."""
        yield msgspec.json.encode(self.metadata)[:-1] + b',"values":['
        for begin in range(0, len(self.times), _MAX_ENCODED_POINTS):
            some = slice(begin, begin + _MAX_ENCODED_POINTS)
            numbers: list[Any] = self.values[some].tolist()
            if not np.isfinite(self.values[some]).all():
                numbers = list(map(to_json, numbers))
            encoded = list(map(_Value, self.times[some].tolist(), numbers))
            data = msgspec.json.encode(encoded)[1:-1]
            yield data if begin == 0 else b"," + data
        yield b"]}"


class GroupedPoints:
    """Collects points in any order, and groups them by series."""

    def __init__(self, series: Mapping[Series, Metadata]) -> None:
        self._series = series
        self._indices = {each: index for index, each in enumerate(series)}
        # For each batch: the index of the series, the time and the value of each point.
        self._parts: list[tuple[npt.NDArray[Any], ...]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def series(self) -> Collection[Series]:
        """The series whose points are collected."""
        return self._indices.keys()

    def add(self, points: pa.RecordBatch) -> None:
        """Add a batch of points of several series; the data is copied from the batch."""
        if points.num_rows:
            columns = (_copy_numbers(points[name]) for name in ("ts", "value"))
            self._parts.append((self._series_indices(points), *columns))
            self._count += points.num_rows

    def cut(self, limit: int) -> bool:
        """Retain the first ``limit`` points in the order of series and time; return whether points
        were dropped.

        Points of one series with equal times are all retained, or all dropped.
        """
        if self._count <= limit:
            return False
        indices, times, values = self._sorted()
        beyond = (indices[limit:] != indices[limit - 1]) | (times[limit:] != times[limit - 1])
        end = limit + int(np.argmax(beyond)) if beyond.any() else self._count
        has_dropped = end < self._count
        # Copies: views would retain the memory of the dropped points.
        self._parts = [(indices[:end].copy(), times[:end].copy(), values[:end].copy())]
        self._count = end
        return has_dropped

    def slices(self) -> Iterator[SeriesSlice]:
        """Yield each series that has points, with its points sorted by time.

        Call this method only once: the call releases the points.
        """
        if self._parts:
            indices, times, values = self._sorted()
            self._parts.clear()
            yield from self._divide(indices, times, values)

    def to_json(self) -> Iterator[bytes]:
        """Yield the chunks of a JSON list with an object (see ``series_item``) for each series.

        The values of a series are sorted by time. Series without points are omitted. Call this
        method only once: the call releases the points.
        """
        return join_chunks(encode_slices(self.slices()))

    def _sorted(self) -> tuple[npt.NDArray[Any], Int64s, Float64s]:
        indices, times, values = (
            np.concatenate(column) for column in zip(*self._parts, strict=True)
        )
        # Stable: points of equal times stay in the order of their positions.
        order = np.lexsort((times, indices))
        return indices[order], times[order], values[order]

    def _divide(
        self, indices: npt.NDArray[Any], times: Int64s, values: Float64s
    ) -> Iterator[SeriesSlice]:
        begin = 0
        ends = np.cumsum(np.bincount(indices, minlength=len(self._series)))
        for metadata, end in zip(self._series.values(), ends.tolist(), strict=True):
            if begin < end:
                yield SeriesSlice(metadata, times[begin:end], values[begin:end])
            begin = end

    def _series_indices(self, points: pa.RecordBatch) -> npt.NDArray[np.int32]:
        metric, entity = points["metric"], points["entity"]
        entities = as_list(entity.dictionary)
        metrics = as_list(metric.dictionary)
        pairs = metric.indices.to_numpy().astype(np.int64) * len(entities)
        distinct, inverse = np.unique(pairs + entity.indices.to_numpy(), return_inverse=True)
        split = [divmod(pair, len(entities)) for pair in distinct.tolist()]
        indices = [self._indices[metrics[m], entities[e]] for m, e in split]
        return np.take(np.array(indices, np.int32), inverse)


def encode_slices(slices: Iterator[SeriesSlice]) -> Iterator[bytes]:
    """Yield the parts of a JSON list with an object (see ``series_item``) for each series."""
    separator = b"["
    for each in slices:
        yield separator
        yield from each.to_json()
        separator = b","
    yield b"[]" if separator == b"[" else b"]"


def series_item(metadata: Metadata, values: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the JSON object of a series in an answer: the metadata and the values."""
    return {**metadata, "values": values}


def join_items(items: Iterable[bytes]) -> Iterator[bytes]:
    """Yield encoded items with commas between them."""
    separator = b""
    for item in items:
        yield separator + item
        separator = b","


def join_chunks(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Join small parts; yield chunks of at least ``_CHUNK_BYTES``, and a last, smaller chunk."""
    chunk = bytearray()
    for part in parts:
        chunk += part
        if len(chunk) >= _CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
    yield bytes(chunk)


def _copy_numbers(column: pa.Array) -> npt.NDArray[Any]:
    # A view would retain the memory of all columns of the batch.
    return np.array(column.to_numpy())
