"""The parts of a deletion: the keys of the selected series, the points to delete, the answer."""

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa

from mistbow.client.agent_model import Deleted, Missing, SeriesPoints
from mistbow.client.fields import MAX_TIMESTAMP_MS
from storage_agent.series import Series
from storage_agent.streams.columns import as_list
from storage_agent.streams.manifest import KeySet
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.history import History
from storage_agent.timeseries.selection import Int32s, SeriesSelection, used

_MAX_LISTED_SERIES = 1000
_MAX_PAIRS = 1000
"""The maximum number of series that a deletion names one by one."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """The outcome of a deletion.

    ``points``: series -> number of points. ``dry_run``: whether the points were only counted, and
    not deleted. ``missing``: the reasons why some points at other sites could not be counted.
    """

    points: Counter[Series]
    dry_run: bool
    missing: Sequence[str] = ()


class _DeletionAnswer(Deleted, frozen=True, kw_only=True, omit_defaults=True):
    result: str
    message: str
    dry_run: bool = False


async def count_points(
    history: History,
    series: Collection[Series],
    start: int | None,
    end: int | None,
    missing: list[str],
) -> Counter[Series]:
    """Return the number of points of each series from ``start`` to ``end`` (ms, inclusive).

    ``start``, ``end``: None if unbounded. If points could not be read, appends the reasons to
    ``missing``.
    """
    counts: Counter[Series] = Counter()
    first = 0 if start is None else start
    last = MAX_TIMESTAMP_MS if end is None else end
    columns = ("metric", "entity")
    batches = history.batches(
        series, first, last, columns=columns, missing=missing, with_replaced=True
    )
    async for batch in batches:
        await asyncio.to_thread(_count, batch, counts)
    return counts


def _count(batch: pa.RecordBatch, total: Counter[Series]) -> None:
    """Add the number of points of each series in a batch to ``total``."""
    metric, entity = batch["metric"], batch["entity"]
    width = max(1, len(entity.dictionary))
    codes = metric.indices.to_numpy().astype(np.int64) * width + entity.indices.to_numpy()
    distinct, counts = np.unique(codes, return_counts=True)
    metrics, entities = as_list(metric.dictionary), as_list(entity.dictionary)
    pairs = ((metrics[code // width], entities[code % width]) for code in distinct.tolist())
    total.update(dict(zip(pairs, counts.tolist(), strict=True)))


def cover_series(series: SeriesSelection, catalogue: Catalogue) -> list[KeySet]:
    """Return key sets that select the rows of ``series``, and of no other series in the catalogue.

    Up to ``_MAX_PAIRS`` series are selected by metric and entity. For a larger number, a metric
    alone selects its series if ``series`` contains all series of this metric in the catalogue, and
    so does an entity alone. This needs fewer keys.
    """
    pairs = ("metric", "entity")
    if len(series) <= _MAX_PAIRS:
        return [(pairs, list(series))] if len(series) else []
    count_metric, count_entity = catalogue.count_of_metric, catalogue.count_of_entity
    metrics = _whole(series.metrics, series.metric, series.metric, count_metric)
    left = series.where(~series.has_metric(metrics))
    entities = _whole(series.entities, series.entity, left.entity, count_entity)
    rest = list(left.where(~left.has_entity(entities)))
    key_sets: list[KeySet] = [
        (("metric",), [(each,) for each in sorted(metrics)]),
        (("entity",), [(each,) for each in sorted(entities)]),
        (pairs, rest),
    ]
    return [(columns, keys) for columns, keys in key_sets if keys]


def _whole(
    texts: Sequence[str | None], column: Int32s, candidates: Int32s, count_all: Callable[[str], int]
) -> set[str]:
    """Return the texts among ``candidates`` all of whose series are selected.

    ``texts``: the texts to which the indices in ``column`` and in ``candidates`` refer. ``column``:
    has an index for each selected series. ``count_all``: returns the number of all series with a
    text.
    """
    counts = np.bincount(column, minlength=len(texts))
    found = ((texts[index] or "", counts[index]) for index in used(candidates, len(texts)).tolist())
    return {text for text, count in found if count == count_all(text)}


def encode_deletion(deletion: Deletion, node: str) -> bytes:
    """Return the JSON answer to a deletion; the answer lists at most 1,000 series."""
    # Not sorted as a whole: a sort of many series would not let other threads run.
    counts = heapq.nsmallest(_MAX_LISTED_SERIES, deletion.points.items())
    total = deletion.points.total()
    verb = "would be deleted" if deletion.dry_run else "deleted"
    answer = _DeletionAnswer(
        result="OK",
        message=f"{total} points of {len(deletion.points)} series {verb}",
        points=total,
        series_count=len(deletion.points),
        series=[SeriesPoints(*each, count) for each, count in counts],
        dry_run=deletion.dry_run,
        missing=[Missing(node, reason) for reason in deletion.missing],
    )
    return msgspec.json.encode(answer)
