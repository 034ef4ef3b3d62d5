"""What all insights say, made at once: a call of Arrow costs the same for ten rows as for many."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics_worker.finishing import Finished
from mistbow.plan.nodes import Insight
from mistbow.streams.schemas import RESULT_ROWS

_NUMBER, _TEXT = pa.float64(), pa.string()

COMPOSED = pa.schema(
    [each for each in RESULT_ROWS if each.name not in ("revision", "computed_at", "missing")]
)
"""The results of insights; rows with neither a value nor a text are left out."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What an insight says at each (tick, key) of ``rows``; where ``chosen``, or everywhere."""

    insight: Insight
    rows: pa.Table
    said: Finished
    chosen: Any = None

    @property
    def is_text(self) -> bool:
        """Whether it says texts, not numbers."""
        return bool(self.said.value.type == _TEXT)


def composed_of(parts: Sequence[Part]) -> pa.Table:
    """Return what is said, later than each insight's beginning (``COMPOSED``)."""
    counts = [part.rows.num_rows for part in parts]
    place = np.repeat(np.arange(len(parts)), counts)
    uids = pa.array([part.insight.uid for part in parts], pa.string())
    columns = {
        "insight": uids.take(pa.array(place)),
        "key": _joined((part.rows["key"] for part in parts), counts, _TEXT),
        "ts": _joined((part.rows["tick"] for part in parts), counts, pa.int64()),
        "value": _joined((None if p.is_text else p.said.value for p in parts), counts, _NUMBER),
        "text": _joined((p.said.value if p.is_text else None for p in parts), counts, _TEXT),
        **{
            name: _joined((getattr(p.said, name) for p in parts), counts, COMPOSED.field(name).type)
            for name in ("values", "low", "high", "confidence")
        },
    }
    table = pa.table([columns[name] for name in COMPOSED.names], schema=COMPOSED)
    since = np.array([part.insight.since for part in parts], np.int64)
    shown = pc.and_(
        pc.or_(pc.is_valid(table["value"]), pc.is_valid(table["text"])),
        pc.greater(table["ts"], pa.array(since[place])),
    )
    if any(part.chosen is not None for part in parts):
        every = (
            pa.repeat(True, count) if part.chosen is None else part.chosen
            for part, count in zip(parts, counts, strict=True)
        )
        shown = pc.and_(shown, _joined(every, counts, pa.bool_()))
    return table.filter(shown)


def _joined(columns: Iterable[Any], counts: Sequence[int], kind: pa.DataType) -> pa.Array:
    """Return the columns as one; nulls for those that are not there."""
    held = list(columns)
    if all(each is None for each in held):
        return pa.nulls(sum(counts), kind)
    chunks: list[pa.Array] = []
    for each, count in zip(held, counts, strict=True):
        if each is None:
            chunks.append(pa.nulls(count, kind))
        elif isinstance(each, pa.ChunkedArray):
            chunks += each.chunks
        else:
            chunks.append(each)
    return pa.chunked_array(chunks, kind).combine_chunks()
