"""The rows that remain after few or many deletions."""

import random
import time

import pyarrow as pa

from mistbow.streams.schemas import POINTS
from storage_agent.streams.manifest import Tombstone
from storage_agent.streams.tombstones import Tombstones

COLUMNS = ("metric", "entity")


def batch(series: list[tuple[str, str]], times: list[int]) -> pa.RecordBatch:
    metrics, entities = zip(*series, strict=True)
    words = [pa.array(column).dictionary_encode() for column in (metrics, entities, entities)]
    columns = [*words, pa.array(times, pa.int64()), pa.array([1.0] * len(times))]
    return pa.RecordBatch.from_arrays(columns, schema=POINTS)


def is_deleted(row: dict[str, object], first: int, purged: int, deletion: Tombstone) -> bool:
    return (
        deletion.id > purged
        and first < deletion.before
        and (not deletion.keys or tuple(row[name] for name in deletion.columns) in deletion.keys)
        and (deletion.min_ts is None or row["ts"] >= deletion.min_ts)  # type: ignore[operator]
        and (deletion.max_ts is None or row["ts"] <= deletion.max_ts)  # type: ignore[operator]
    )


def test_mask_selects_rows_that_no_tombstone_deletes() -> None:
    chance = random.Random(5)  # noqa: S311 - the same each time, by design
    every = [(metric, entity) for metric in "mn" for entity in "abcdef"]

    def deletion(number: int) -> Tombstone:
        columns, keys = chance.choice([COLUMNS, ("entity",)]), []
        if chance.random() < 0.9:
            keys = [key[-len(columns) :] for key in chance.sample(every, 3)]
        return Tombstone(
            id=number,
            before=chance.randrange(20),
            created=0,
            columns=columns if keys else (),
            keys=tuple(keys),
            min_ts=chance.choice([None, chance.randrange(60)]),
            max_ts=chance.choice([None, chance.randrange(60)]),
        )

    left = []
    for _ in range(200):
        deletions = [deletion(number) for number in range(1, chance.randrange(2, 12))]
        count = chance.randrange(1, 20)
        rows = batch(chance.choices(every, k=count), chance.choices(range(60), k=count))
        first, purged = chance.randrange(20), chance.randrange(6)
        expected = [
            not any(is_deleted(row, first, purged, each) for each in deletions)
            for row in rows.to_pylist()
        ]
        visible = Tombstones(deletions).mask(rows, first, purged)
        assert (expected if visible is None else visible.to_pylist()) == expected
        left.append(sum(expected) / count)
    assert 0.2 < sum(left) / len(left) < 0.8


def test_many_tombstones_are_cheap_for_other_rows() -> None:
    many = Tombstones(
        [
            Tombstone(id=n, before=10**6, created=0, columns=COLUMNS, keys=(("m", f"e{n}"),))
            for n in range(1, 5001)
        ]
    )
    others = batch([("m", f"x{number}") for number in range(100)], list(range(100)))
    begin = time.perf_counter()
    for first in range(20):
        assert many.mask(others, first, 0) is None
    # One after the other they took two seconds for each batch.
    assert time.perf_counter() - begin < 2
    some = batch([("m", "e7"), ("n", "e7"), ("m", "x")], [1, 2, 3])
    visible = many.mask(some, 0, 0)
    assert visible is not None
    assert visible.to_pylist() == [False, True, True]
    assert many.needed_by([others, some], 0) == {7}
    assert many.needed_by([some], 10**6) == set()
