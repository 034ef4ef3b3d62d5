"""The blocks of a run of points: the stored words of the run."""

import numpy as np
import pyarrow as pa
import pytest

from mistbow.streams.schemas import POINTS
from storage_agent.streams import runs
from storage_agent.streams.runs import POSITION

_SERIES = 4_000
_BLOCKS = 16


def run_of(values: list[float]) -> pa.Table:
    """Return the points of a run: one point of each of many series with long names."""
    chance = np.random.default_rng(0)
    entities = [chance.bytes(16).hex() for _ in values]
    columns = [
        pa.array(["cpu", "load"] * (len(values) // 2)).dictionary_encode(),
        pa.array(entities).dictionary_encode(),
        pa.array(entities).dictionary_encode(),
        pa.array(range(len(values)), pa.int64()),
        pa.array(values),
    ]
    rows = pa.RecordBatch.from_arrays(columns, schema=POINTS)
    return runs.append_positions(rows, np.arange(len(values)))


@pytest.mark.parametrize("non_finite", [[], [float("nan"), float("-inf")]])
def test_block_stores_only_its_own_words(non_finite: list[float]) -> None:
    values = [*non_finite, *(n / 10 for n in range(_SERIES - len(non_finite)))]
    rows = run_of(values)
    encoded = [runs.encode_points(block) for block in runs.split_into_blocks(rows, _BLOCKS)]
    decoded = [runs.decode_points(data) for data in encoded]
    for block in decoded:
        [entity] = block["entity"].chunks
        assert len(entity.dictionary) == len(set(entity.to_pylist())) < _SERIES / 2
    # A text compares NaN, too.
    found = pa.concat_tables(decoded).sort_by(POSITION)
    assert repr(found.to_pylist()) == repr(rows.to_pylist())
    assert sum(map(len, encoded)) < 2 * len(runs.encode_points(rows))


def test_block_without_points_is_read_back() -> None:
    empty = run_of([0.5, 1.5]).slice(0, 0)
    found = runs.decode_points(runs.encode_points(empty))
    assert found.num_rows == 0
    assert found.schema.names == [*POINTS.names, POSITION]
