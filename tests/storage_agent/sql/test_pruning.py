"""Pruning of scans: the values and times that a filter can match."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow.dataset import Expression

from mistbow.streams.schemas import POINTS
from storage_agent.sql.pruning import matching_values, time_bounds

TS, METRIC, VALUE = pc.field("ts"), pc.field("metric"), pc.field("value")
KNOWN = sorted(f"m{number}" for number in range(1000))


def one_of(field: Expression, values: list[object]) -> Expression:
    """Return an ``IN`` expression in the form that DuckDB produces."""
    return pc.if_else(pc.is_valid(field), field.isin(values), pa.scalar(None, pa.bool_()))


@pytest.mark.parametrize(
    ("rows_filter", "bounds"),
    [
        ((TS >= 5) & (TS < 9), (5, 8)),
        ((METRIC == "x") & (TS == 7), (7, 7)),
        (one_of(TS, [30, 9, 12]), (9, 30)),
        ((TS == 5) | (TS > 7), (5, None)),
        ((TS > 7) | (VALUE > 1), (None, None)),
        (~(TS > 7), (None, 7)),
        (TS > -(2**63), (-(2**63) + 1, None)),
        (pc.is_valid(METRIC), (None, None)),
    ],
)
def test_time_bounds(rows_filter: Expression, bounds: tuple[int | None, int | None]) -> None:
    assert time_bounds(rows_filter, POINTS) == bounds


@pytest.mark.parametrize(
    ("rows_filter", "left"),
    [
        (METRIC == "m77", ["m77"]),
        (one_of(METRIC, ["m1", "m2", "none"]), ["m1", "m2"]),
        ((METRIC == "m5") & (TS > 3), ["m5"]),
        ((METRIC == "m5") | (TS > 3), None),
        (METRIC == "none", []),
        (METRIC != "m5", None),
        ((METRIC > "m998") | (METRIC == "m0"), ["m0", "m999"]),
    ],
)
def test_matching_values(rows_filter: Expression, left: list[str] | None) -> None:
    assert matching_values(rows_filter, POINTS, "metric", KNOWN) == left


def test_time_bounds_of_contradiction_are_empty() -> None:
    first, last = time_bounds((TS > 9) & (TS < 5), POINTS)
    assert first is not None
    assert last is not None
    assert first > last
