"""The values of an answer: collected as numbers, told as JSON piece by piece; little is held."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_agent.monitoring.catalogue import Metadata, Series
from storage_agent.streams.columns import as_list

COLUMNS = ("metric", "entity", "ts", "value")

_AT_ONCE = 1000
_PIECE_BYTES = 64 * 2**10

Int64s = npt.NDArray[np.int64]


class _Value(msgspec.Struct, frozen=True, gc=False):
    timestamp: int
    val: float


class Values:
    """The values of some series, which may come in any order."""

    def __init__(self, wanted: Mapping[Series, Metadata]) -> None:
        self._metadata = list(wanted.values())
        self._places = {series: place for place, series in enumerate(wanted)}
        # Of each part: which series each value is of, its time, and itself.
        self._parts: list[tuple[npt.NDArray[Any], ...]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, points: pa.RecordBatch) -> None:
        """Take the values of points of these series, with ``COLUMNS``, and nothing else of them."""
        if points.num_rows:
            self._parts.append((self._of(points), *(_numbers(points[n]) for n in ("ts", "value"))))
            self._count += points.num_rows

    def json(self) -> Iterator[bytes]:
        """Yield a list of items as ``item_of`` makes them, by time, some values at a time.

        To be called once: what was collected is forgotten.
        """
        parts, self._parts = self._parts, []
        if not parts:
            return iter((b"[]",))
        of, times, values = (np.concatenate(column) for column in zip(*parts, strict=True))
        parts.clear()
        # Stable: where times are equal, values stay in the order of their numbers.
        order = np.lexsort((times, of))
        ends = np.cumsum(np.bincount(of, minlength=len(self._metadata)))
        return _together(self._pieces(order, ends, times, values))

    def _of(self, points: pa.RecordBatch) -> npt.NDArray[np.int32]:
        metric, entity = points["metric"], points["entity"]
        entities = as_list(entity.dictionary)
        metrics = as_list(metric.dictionary)
        pairs = metric.indices.to_numpy().astype(np.int64) * len(entities)
        found, of = np.unique(pairs + entity.indices.to_numpy(), return_inverse=True)
        each = [divmod(pair, len(entities)) for pair in found.tolist()]
        places = [self._places[metrics[m], entities[e]] for m, e in each]
        return np.take(np.array(places, np.int32), of)

    def _pieces(
        self, order: Int64s, ends: Int64s, times: Int64s, values: npt.NDArray[np.float64]
    ) -> Iterator[bytes]:
        begin, between = 0, b"["
        for metadata, end in zip(self._metadata, ends.tolist(), strict=True):
            if begin == end:
                continue
            yield between + msgspec.json.encode(metadata)[:-1] + b',"values":['
            between = b","
            for at in range(begin, end, _AT_ONCE):
                some = order[at : min(at + _AT_ONCE, end)]
                told = list(map(_Value, times[some].tolist(), values[some].tolist()))
                data = msgspec.json.encode(told)[1:-1]
                yield data if at == begin else b"," + data
            yield b"]}"
            begin = end
        yield b"]"


def item_of(metadata: Metadata, values: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a series as an item of an answer."""
    return {**metadata, "values": values}


def _numbers(column: pa.Array) -> npt.NDArray[Any]:
    # A copy: a view would keep all columns of what was read.
    return np.array(column.to_numpy())


def _together(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in pieces that are worth sending."""
    held = bytearray()
    for piece in pieces:
        held += piece
        if len(held) >= _PIECE_BYTES:
            yield bytes(held)
            held.clear()
    yield bytes(held)
