"""Converts the values of all insights to one table, since many small Arrow calls cost more."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.plan.nodes import Insight
from analytics_worker.evaluate.finalize import FunctionValues
from mistbow.streams.schemas import RESULT_ROWS

_NUMBER, _TEXT = pa.float64(), pa.string()

INSIGHT_VALUES = pa.schema(
    [each for each in RESULT_ROWS if each.name not in ("revision", "computed_at", "missing")]
)
"""The schema of the values of insights: ``RESULT_ROWS`` without the revision, the time of
computation, and the missing sites. Rows with neither a value nor a text are omitted.
"""


@dataclass(frozen=True, slots=True, eq=False)
class InsightResult:
    """The values of an insight: one value for each row (tick, key) of ``rows``.

    ``chosen``: a mask of the values that are results; None: all values are results.
    """

    insight: Insight
    rows: pa.Table
    values: FunctionValues
    chosen: Any = None

    @property
    def is_text(self) -> bool:
        """Whether the values are texts, not numbers."""
        return bool(self.values.value.type == _TEXT)


def insight_values(results: Sequence[InsightResult]) -> pa.Table:
    """Return the results of all insights as one table (``INSIGHT_VALUES``).

    The table omits values that are missing, that ``chosen`` excludes, or that are not later than
    the insight's ``since`` (ms).
    """
    counts = [each.rows.num_rows for each in results]
    number = np.repeat(np.arange(len(results)), counts)
    uids = pa.array([each.insight.uid for each in results], pa.string())
    values = [each.values for each in results]
    columns = {
        "insight": uids.take(pa.array(number)),
        "key": _concat((each.rows["key"] for each in results), counts, _TEXT),
        "ts": _concat((each.rows["tick"] for each in results), counts, pa.int64()),
        "value": _concat(
            (None if each.is_text else each.values.value for each in results), counts, _NUMBER
        ),
        "text": _concat(
            (each.values.value if each.is_text else None for each in results), counts, _TEXT
        ),
        **{
            name: _concat(
                (getattr(each, name) for each in values), counts, INSIGHT_VALUES.field(name).type
            )
            for name in ("values", "low", "high", "confidence")
        },
    }
    table = pa.table([columns[name] for name in INSIGHT_VALUES.names], schema=INSIGHT_VALUES)
    since = np.array([each.insight.since for each in results], np.int64)
    is_result = pc.and_(
        pc.or_(pc.is_valid(table["value"]), pc.is_valid(table["text"])),
        pc.greater(table["ts"], pa.array(since[number])),
    )
    if any(each.chosen is not None for each in results):
        every = (
            pa.repeat(True, count) if each.chosen is None else each.chosen
            for each, count in zip(results, counts, strict=True)
        )
        is_result = pc.and_(is_result, _concat(every, counts, pa.bool_()))
    return table.filter(is_result)


def _concat(columns: Iterable[Any], counts: Sequence[int], kind: pa.DataType) -> pa.Array:
    """Concatenate columns to one array of type ``kind``; a column that is None becomes nulls.

    ``counts``: the number of rows of each column.
    """
    arrays = list(columns)
    if all(each is None for each in arrays):
        return pa.nulls(sum(counts), kind)
    chunks: list[pa.Array] = []
    for each, count in zip(arrays, counts, strict=True):
        if each is None:
            chunks.append(pa.nulls(count, kind))
        elif isinstance(each, pa.ChunkedArray):
            chunks += each.chunks
        else:
            chunks.append(each)
    return pa.chunked_array(chunks, kind).combine_chunks()
