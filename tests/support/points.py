"""Builders of batches of points for tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa

from mistbow.streams.schemas import POINTS, ROW_FRONTIER


@dataclass(frozen=True)
class Row:
    """A point as a subscriber receives it."""

    metric: str = "cpu"
    entity: str = "a"
    ts: int = 0
    value: float = 1.0
    frontier_before: int = -1
    attributes: Mapping[str, str | float | bool] = field(default_factory=dict)


def points(rows: Sequence[Row]) -> pa.RecordBatch:
    """Return rows as the record batch that a storage agent sends."""

    def words(values: list[str]) -> pa.Array:
        return pa.array(values, pa.string()).dictionary_encode()

    attributes = [
        msgspec.json.encode({"entityID": row.entity, **row.attributes}, order="sorted").decode()
        for row in rows
    ]
    return pa.record_batch(
        [
            words([row.metric for row in rows]),
            words([row.entity for row in rows]),
            words(attributes),
            pa.array([row.ts for row in rows], pa.int64()),
            pa.array([row.value for row in rows], pa.float64()),
            pa.array([row.frontier_before for row in rows], pa.int64()),
        ],
        schema=POINTS.append(ROW_FRONTIER),
    )
