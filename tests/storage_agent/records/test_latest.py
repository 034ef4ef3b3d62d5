"""The latest records, while threads build their indexes."""

import asyncio

import numpy as np
import pyarrow as pa
import pytest

from mistbow.streams.schemas import RECORDS
from storage_agent.records import sorted_entries
from storage_agent.records.bodies import RecordQueryBody
from storage_agent.records.field_index import (
    Entry,
    FieldCondition,
    FieldIndex,
    parse_condition,
)
from storage_agent.records.latest import LatestRecords
from storage_agent.records.query import RecordQuery


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


async def test_many_changes_are_merged_and_lose_no_later_change() -> None:
    latest = many()
    await latest.sort()
    await latest.indexes("s", ["n"])
    # More than are taken into account without a merge.
    latest.apply(rows([f"new{n:03}" for n in range(500)], 2), 1, 0)
    latest.replace([f"k{n}" for n in range(300)], LatestRecords())
    merging = [
        asyncio.create_task(latest.sort()),
        asyncio.create_task(latest.indexes("s", ["n"])),
    ]
    await asyncio.sleep(0)
    latest.apply(rows(["new000", "later"], 3), 2, 0)
    latest.replace(["new001"], LatestRecords())
    latest.apply(rows(["k7"], 3), 2, 0)
    await asyncio.gather(*merging)
    keys = {f"k{n}" for n in range(300, 2000)} | {f"new{n:03}" for n in range(500)}
    keys = (keys | {"k7", "later"}) - {"new001"}
    assert [key for key, _ in latest.scan()] == sorted(keys)
    assert [key for key, _ in latest.scan("new", 3)] == ["new000", "new002", "new003"]
    [index] = await latest.indexes("s", ["n"])
    assert {key for _, key in index.find(parse_condition("n", 3))} == {"new000", "later", "k7"}
    twos = {key for _, key in index.find(parse_condition("n", 2))}
    assert twos == {f"new{n:03}" for n in range(2, 500)}
    ones = [key for _, key in index.find(parse_condition("n", {"lte": 1}))]
    assert sorted(ones) == sorted(f"k{n}" for n in range(300, 2000))


@pytest.mark.parametrize("seed", range(5))
async def test_scans_and_indexes_equal_those_of_new_objects(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorted_entries, "MAX_CHANGES", 3)
    random, latest = np.random.default_rng(seed), LatestRecords()
    for step in range(60):
        keys = [f"k{n}" for n in random.integers(0, 20, 3)]
        if step % 3:
            latest.apply(rows(keys, int(random.integers(0, 3))), step, 0)
        else:
            latest.replace(keys, LatestRecords())
        other = LatestRecords()
        other._records = dict(latest._records)
        for each in (latest, other):
            await each.sort()
        assert list(latest.scan("k1")) == list(other.scan("k1"))
        for value in range(3):
            condition = parse_condition("n", value)
            found = [
                (await each.indexes("s", ["n"]))[0].find(condition) for each in (latest, other)
            ]
            assert sorted(found[0]) == sorted(found[1])


async def test_put_of_many_keys_inserts_none_into_a_sorted_list() -> None:
    latest = many()
    await latest.sort()
    [index] = await latest.indexes("s", ["n"])
    assert latest._keys is not None
    sorted_keys, entries = latest._keys.entries, index._sorted.entries
    latest.apply(rows([f"new{n}" for n in range(5000)], 2), 1, 0)
    assert (len(sorted_keys), len(entries)) == (2000, 2000)
    await latest.sort()
    assert len(latest._keys.entries) == 7000
    assert not latest._keys.changes


async def test_query_looks_up_each_condition_once(monkeypatch: pytest.MonkeyPatch) -> None:
    latest, found = many(), []
    find = FieldIndex.find

    def counted(index: FieldIndex, condition: FieldCondition) -> list[Entry]:
        found.append(find(index, condition))
        return found[-1]

    monkeypatch.setattr(FieldIndex, "find", counted)
    for value, count in ((1, 2000), (2, 0)):
        query = RecordQuery.of(RecordQueryBody("s", {"n": value}), ("n",))
        assert len(await query.run(list, latest)) == count
        assert [len(each) for each in found] == [count]
        found.clear()
