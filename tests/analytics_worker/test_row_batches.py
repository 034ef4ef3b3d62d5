"""Splitting of rows into batches by size, and of long panes into several rows."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from analytics_worker.row_batches import batches, row_sizes
from analytics_worker.spark.long_panes import MAX_PANE_ROW_BYTES, split_long_panes
from mistbow.streams.schemas import PANES, RESULT_ROWS
from mistbow.streams.wire import encode_rows

WORDS = st.text(max_size=30)
NUMBERS = st.floats(allow_nan=False)
POINTS = st.fixed_dictionaries({"ts": st.integers(0, 99), "value": NUMBERS, "entity": WORDS})
DRAWN = st.fixed_dictionaries({"ts": st.integers(0, 99), "value": st.none(), "stratum": WORDS})
PANE = st.fixed_dictionaries(
    {
        **dict.fromkeys(("pane", "key"), WORDS),
        **dict.fromkeys(("ts", "due", "count"), st.integers(0, 2**40)),
        **dict.fromkeys(("sum", "min", "max"), NUMBERS),
        "moments": st.none() | NUMBERS,
        "latest": st.none() | POINTS,
        "points": st.none() | st.lists(POINTS),
        "sample": st.none() | st.lists(DRAWN),
    }
)
RESULT = st.fixed_dictionaries(
    {
        **dict.fromkeys(("insight", "key"), WORDS),
        **dict.fromkeys(("ts", "revision", "computed_at"), st.integers(0, 2**40)),
        "values": st.none() | st.lists(NUMBERS),
        "text": st.none() | WORDS,
    }
)
TABLES = st.lists(PANE, max_size=20).map(lambda rows: pa.Table.from_pylist(rows, PANES)) | st.lists(
    RESULT, max_size=20
).map(lambda rows: pa.Table.from_pylist(rows, RESULT_ROWS))


@given(TABLES)
def test_row_sizes_bound_the_size_of_a_body(rows: pa.Table) -> None:
    described = len(encode_rows(rows.slice(0, 0)))
    # Each buffer is filled up to whole words, and of dictionaries each is a message.
    assert len(encode_rows(rows)) <= row_sizes(rows).sum() + described + 8192


@given(TABLES, st.integers(0, 20))
def test_row_size_does_not_depend_on_other_rows(rows: pa.Table, at: int) -> None:
    sizes = row_sizes(rows)
    assert row_sizes(rows.slice(at)).tolist() == sizes[at:].tolist()
    assert row_sizes(rows.slice(0, at)).tolist() == sizes[:at].tolist()


@given(st.lists(st.integers(0, 20)), st.integers(1, 30), st.integers(1, 5))
def test_batches_cover_all_rows_in_order_within_the_limits(
    sizes: list[int], most: int, rows: int
) -> None:
    cut = list(batches(np.array(sizes, np.int64), most, rows))
    assert [row for start, end in cut for row in range(start, end)] == list(range(len(sizes)))
    for start, end in cut:
        assert end - start <= rows
        assert end - start == 1 or sum(sizes[start:end]) <= most


def pane(key: str, points: list[dict[str, Any]]) -> dict[str, Any]:
    values = [point["value"] for point in points]
    return {
        "pane": "p", "key": key, "ts": 1000, "due": 2000, "count": len(values),
        "sum": math.fsum(values), "min": min(values), "max": max(values),
        "latest": points[-1], "points": points,
    }  # fmt: skip


def test_split_long_panes_ignores_the_order_of_points() -> None:
    points = [{"ts": at, "value": at / 7, "entity": f"sensor {at % 100}"} for at in range(50_000)]
    short = pane("short", points[:10])
    once = split_long_panes(pa.Table.from_pylist([pane("long", points), short], PANES))
    other = [pane("long", points) | {"points": points[::-1]}, short]
    assert once.equals(split_long_panes(pa.Table.from_pylist(other, PANES)))
    assert once.num_rows > 4
    assert row_sizes(once).max() <= MAX_PANE_ROW_BYTES
    assert [row for row in once.to_pylist() if row["key"] == "short"] == (
        pa.Table.from_pylist([short], PANES).to_pylist()
    )
    long = [row for row in once.to_pylist() if row["key"] == "long"]
    assert [one for row in long for one in row["points"] or ()] == points
    assert sum(row["count"] for row in long) == len(points)
