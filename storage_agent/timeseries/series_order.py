"""Series in the order of metric and entity, in which pages of answers contain them."""

import asyncio
import bisect
from collections.abc import Sequence

import numpy as np

from storage_agent.http.points import GetBody
from storage_agent.series import Series
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.point_queries import select_series
from storage_agent.timeseries.selection import Int32s, Int64s, SeriesSelection, used

_MAX_LOOP_SERIES = 1000
"""The maximum number of series that are sorted in the event loop; a thread sorts more series."""


async def ordered_series(
    catalogue: Catalogue, body: GetBody, after: Series | None = None
) -> SeriesSelection:
    """Return the series in the catalogue that a body selects, in order.

    ``after``: only later series are returned; None: all series. Raises ``ForbiddenError`` for an
    entity to which the caller's token gives no access.
    """
    selection = await select_series(catalogue, body)
    if len(selection) <= _MAX_LOOP_SERIES:
        return _sort(selection, after)
    return await asyncio.to_thread(_sort, selection, after)


def _sort(selection: SeriesSelection, after: Series | None) -> SeriesSelection:
    metric = _ranks(selection.metrics, selection.metric)
    entity = _ranks(selection.entities, selection.entity)
    order = np.lexsort((entity, metric))
    ordered = selection.at(order)
    if after is None:
        return ordered
    begin = bisect.bisect_right(range(len(ordered)), after, key=ordered.series)
    return ordered.part(begin, len(ordered))


def _ranks(texts: Sequence[str | None], indices: Int32s) -> Int64s:
    """Return the rank of each text in the order of those texts that occur."""
    present = used(indices, len(texts))
    ordered = sorted(present.tolist(), key=lambda index: texts[index] or "")
    ranks = np.zeros(len(texts), np.int64)
    ranks[ordered] = np.arange(len(ordered))
    found: Int64s = ranks[indices]
    return found
