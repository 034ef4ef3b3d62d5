"""Points that later points replace."""

from collections.abc import AsyncIterator, Sequence

import pyarrow as pa
import pytest

from storage_agent.timeseries import duplicates
from storage_agent.timeseries.duplicates import read_distinct
from tests.support.points import Row, points

MINUTE = 60_000


def reader(rows: Sequence[Row]) -> duplicates.ReadRange:
    """Return a function that reads ``rows`` in batches of three."""

    async def read(start: int, end: int, columns: Sequence[str]) -> AsyncIterator[pa.RecordBatch]:
        found = [row for row in rows if start <= row.ts <= end]
        for begin in range(0, len(found), 3):
            yield points(found[begin : begin + 3]).select(list(columns))

    return read


async def values(rows: Sequence[Row], start: int = 0, end: int = 10**12) -> list[float]:
    batches = [batch async for batch in read_distinct(reader(rows), start, end, ("value",))]
    assert all(batch.schema.names == ["value"] for batch in batches)
    return [value for batch in batches for value in batch["value"].to_pylist()]


async def test_last_of_equal_points_is_left_at_its_place() -> None:
    rows = [Row(ts=1, value=n) for n in range(4)] + [Row(ts=2, value=9), Row(ts=1, value=5)]
    assert await values(rows) == [9, 5]
    assert await values([]) == []


@pytest.mark.parametrize(
    "other",
    [Row(entity="b"), Row(metric="m"), Row(ts=1), Row(attributes={"cpu": "1"})],
    ids=["entity", "metric", "time", "label"],
)
async def test_point_that_differs_is_kept(other: Row) -> None:
    assert len(await values([Row(), other])) == 2


async def test_many_points_are_read_in_parts_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [Row(entity=f"e{n % 3}", ts=(n % 40) * MINUTE // 4, value=float(n)) for n in range(240)]
    whole = await values(rows)
    monkeypatch.setattr(duplicates, "_MAX_ROWS", 20)
    assert len(whole) == 120
    assert sorted(await values(rows)) == sorted(whole)
    assert await values(rows, 3 * MINUTE, 3 * MINUTE) == await values(
        [row for row in rows if row.ts == 3 * MINUTE]
    )
