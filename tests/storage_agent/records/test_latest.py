"""The latest records, while threads build their indexes."""

import asyncio

import pyarrow as pa

from mistbow.streams.schemas import RECORDS
from storage_agent.records.field_index import parse_condition
from storage_agent.records.latest import LatestRecords


def rows(keys: list[str], value: int) -> pa.RecordBatch:
    columns = [keys, [value] * len(keys), [f'{{"n": {value}}}'] * len(keys), ["s"] * len(keys)]
    return pa.RecordBatch.from_arrays(
        [pa.array(each, field.type) for each, field in zip(columns, RECORDS, strict=True)],
        schema=RECORDS,
    )


def many() -> LatestRecords:
    latest = LatestRecords()
    latest.apply(rows([f"k{n}" for n in range(2000)], 1), 0, 0)
    return latest


def change(latest: LatestRecords) -> None:
    """Add a record, replace a record, and remove a record."""
    latest.apply(rows(["new", "k5"], 2), 1, 0)
    latest.replace(["k7"], LatestRecords())


async def test_index_contains_records_that_change_while_it_is_built() -> None:
    latest = many()
    building = asyncio.create_task(latest.indexes("s", ["n"]))
    await asyncio.sleep(0)
    change(latest)
    [index] = await building
    assert sorted(key for _, key in index.find(parse_condition("n", 2))) == ["k5", "new"]
    found = {key for _, key in index.find(parse_condition("n", 1))}
    assert found == {f"k{n}" for n in range(2000)} - {"k5", "k7"}


async def test_scan_yields_keys_that_change_while_they_are_sorted() -> None:
    latest = many()
    sorting = asyncio.create_task(latest.sort())
    await asyncio.sleep(0)
    change(latest)
    await sorting
    assert [key for key, _ in latest.scan()] == sorted(
        {f"k{n}" for n in range(2000)} - {"k7"} | {"new"}
    )
    assert [key for key, _ in latest.scan("n", 5)] == ["new"]


async def test_index_that_is_dropped_while_another_is_built_is_built_again() -> None:
    latest = many()
    await latest.indexes("s", ["n"])
    building = asyncio.create_task(latest.indexes("s", ["n", "m"]))
    await asyncio.sleep(0)
    latest.drop_indexes("s")
    change(latest)
    index, _ = await building
    assert sorted(key for _, key in index.find(parse_condition("n", 2))) == ["k5", "new"]
