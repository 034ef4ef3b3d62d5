"""Series in the order of metric and entity, in which pages of answers contain them."""

import bisect
from collections.abc import AsyncIterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage_agent.http.points import GetBody
from storage_agent.series import Series
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.point_queries import select_series
from storage_agent.timeseries.selection import Int32s, Int64s, SeriesSelection, used
from storage_agent.work_threads import in_thread_if_many

_CHUNK_SERIES = 50_000
"""The number of series that are sorted at once; the series of one metric are not divided."""

_MAX_TEXTS = 10_000
"""The number of texts that are copied to an array before other threads may run."""


class SeriesOrder:
    """The series in the catalogue that a request selects, in order.

    They are selected once, so that all parts of an answer have the same series. Each chunk is
    sorted when it is read: a page does not wait until all series are sorted.
    """

    def __init__(self, catalogue: Catalogue, body: GetBody) -> None:
        self._catalogue = catalogue
        self._body = body
        self._chunks: _Chunks | None = None

    async def after(self, series: Series | None) -> AsyncIterator[SeriesSelection]:
        """Yield the series after a series in order, in chunks; None: from the first series on.

        Raises ``ForbiddenError`` for an entity to which the caller's token gives no access.
        """
        if self._chunks is None:
            selection = await select_series(self._catalogue, self._body)
            self._chunks = await in_thread_if_many(len(selection), lambda: _Chunks(selection))
        chunks = self._chunks
        for number in range(chunks.number_of(series), len(chunks)):
            sort = partial(chunks.sorted, number)
            chunk = await in_thread_if_many(chunks.size(number), sort)
            begin = 0
            if series is not None:
                begin = bisect.bisect_right(range(len(chunk)), series, key=chunk.series)
            if begin < len(chunk):
                yield chunk.part(begin, len(chunk))


class _Chunks:
    """Series in chunks of consecutive metrics; the last chunk that was sorted is retained."""

    def __init__(self, selection: SeriesSelection) -> None:
        self._selection = selection
        # The indices of the metrics that occur, in order.
        self._metrics, ranks = _rank(selection.metrics, selection.metric)
        # The places of the series, in the order of their metrics.
        self._places: Int64s = np.argsort(ranks, kind="stable")
        counts = np.bincount(ranks, minlength=len(self._metrics))
        begins = np.cumsum(counts) - counts
        self._of_metric = np.unique(begins // _CHUNK_SERIES, return_inverse=True)[1]
        first = np.flatnonzero(np.diff(self._of_metric, prepend=-1))
        self._borders: list[int] = [*begins[first].tolist(), len(selection)]
        self._sorted: tuple[int, SeriesSelection] | None = None

    def __len__(self) -> int:
        return len(self._borders) - 1

    def number_of(self, series: Series | None) -> int:
        """Return the number of the first chunk that can have series after ``series``."""
        if series is None:
            return 0
        names = self._selection.metrics
        metric = bisect.bisect_left(self._metrics, series[0], key=lambda each: names[each] or "")
        return int(self._of_metric[metric]) if metric < len(self._metrics) else len(self)

    def size(self, number: int) -> int:
        """Return the number of series in a chunk."""
        return self._borders[number + 1] - self._borders[number]

    def sorted(self, number: int) -> SeriesSelection:
        """Return the series of a chunk, in order."""
        if self._sorted is None or self._sorted[0] != number:
            some = self._selection.at(self._places[slice(*self._borders[number : number + 2])])
            _, metric = _rank(some.metrics, some.metric)
            _, entity = _rank(some.entities, some.entity)
            self._sorted = (number, some.at(np.lexsort((entity, metric))))
        return self._sorted[1]


def _rank(texts: Sequence[str | None], indices: Int32s) -> tuple[Int64s, Int64s]:
    """Return the distinct indices in the order of their texts, and the rank of each index.

    Arrow sorts, since a sort by Python would not let other threads run.
    """
    distinct = used(indices, len(texts))
    parts = [
        pa.array([texts[index] for index in distinct[begin : begin + _MAX_TEXTS].tolist()])
        for begin in range(0, len(distinct), _MAX_TEXTS)
    ]
    # Arrow compares bytes of UTF-8, which have the same order as the texts of Python.
    ordered = distinct[pc.sort_indices(pa.chunked_array(parts, pa.string())).to_numpy()]
    ranks = np.zeros(len(texts), np.int64)
    ranks[ordered] = np.arange(len(ordered))
    found: Int64s = ranks[indices]
    return ordered, found
