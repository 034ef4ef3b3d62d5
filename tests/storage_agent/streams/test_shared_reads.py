"""Many readers of one stream: each value is read from Ignite once, and encoded in turns."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from storage_agent.api import rows as rows_api
from storage_agent.streams import subscription
from storage_agent.streams.columns import Int64s
from storage_agent.streams.json_values import objects
from storage_agent.streams.shared_reads import SharedReads
from storage_agent.streams.small_parts import OpenSubscriptions
from storage_agent.streams.subscription import RowSelection, RowSelector
from tests.storage_agent.streams.opener import Opener, rows, times


async def test_read_in_flight_serves_all_callers_and_survives_a_cancelled_one() -> None:
    reads, begun = SharedReads[int](), []
    answer = asyncio.get_running_loop().create_future()

    async def begin() -> int:
        begun.append(1)
        return int(await answer)

    first, *others = [asyncio.ensure_future(reads.read("k", begin)) for _ in range(5)]
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    answer.set_result(7)
    assert await asyncio.gather(*others) == [7] * 4
    assert (len(begun), "k" in reads) == (1, False)


async def test_failed_read_fails_for_all_callers_and_is_repeated_for_later_ones() -> None:
    reads = SharedReads[int]()

    async def fail() -> int:
        raise ValueError("away")

    async def succeed() -> int:
        return 1

    failed = await asyncio.gather(
        reads.read("k", fail), reads.read("k", fail), return_exceptions=True
    )
    assert [str(each) for each in failed] == ["away", "away"]
    assert await reads.read("k", succeed) == 1


async def test_concurrent_readers_of_a_stream_read_each_segment_from_ignite_once(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = await opener.open()
    for number in range(5):
        await stream.writer.append(rows(number))
    store, requested = stream.log.store, Counter[str]()
    store._cache.clear()
    get_all = store.ignite.get_all

    def count(cache: str, keys: Sequence[str]) -> Awaitable[dict[str, bytes]]:
        requested.update(keys)
        return get_all(cache, keys)

    monkeypatch.setattr(store.ignite, "get_all", count)
    found = await asyncio.gather(*(times(stream.log) for _ in range(20)))
    assert found == [[0, 1, 2, 3, 4]] * 20
    assert set(requested.values()) == {1}


async def test_reader_finds_a_segment_that_was_stored_after_a_read_in_flight_began(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = await opener.open()
    store, first = stream.log.store, stream.log.head
    get_all, stored = store.ignite.get_all, asyncio.Event()

    async def answer_late(cache: str, keys: Sequence[str]) -> dict[str, bytes]:
        found = await get_all(cache, keys)
        await stored.wait()
        return found

    monkeypatch.setattr(store.ignite, "get_all", answer_late)
    earlier = asyncio.ensure_future(store.get(stream.log.key, first))
    await asyncio.sleep(0.05)
    await stream.writer.append(rows(1))
    store._cache.clear()
    later = asyncio.ensure_future(store.get(stream.log.key, first))
    await asyncio.sleep(0)
    stored.set()
    assert await earlier is None
    segment = await later
    assert segment is not None
    assert segment.header.first == first


async def test_rows_of_many_readers_are_selected_by_one_reader_an_iteration_of_the_loop(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = await opener.open()
    for number in range(6):
        await stream.writer.append(rows(number))
    monkeypatch.setattr(subscription, "_CHUNK_SEGMENTS", 2)
    select, iteration, selected = RowSelector.select, 0, Counter[int]()

    def count(selector: RowSelector, *arguments: Any) -> Any:
        selected[iteration] += 1
        return select(selector, *arguments)

    monkeypatch.setattr(RowSelector, "select", count)

    async def count_iterations() -> None:
        nonlocal iteration
        while True:
            iteration += 1
            await asyncio.sleep(0)

    async def read() -> list[int]:
        selector = RowSelector(stream, RowSelection())
        found = [each async for each in subscription.read(stream.log, selector, 0)]
        return [ts for each in found for ts in each.rows["ts"].to_pylist()]

    counting = asyncio.ensure_future(count_iterations())
    assert await asyncio.gather(*(read() for _ in range(8))) == [[0, 1, 2, 3, 4, 5]] * 8
    counting.cancel()
    # A chunk of one reader has two segments.
    assert (len(selected), set(selected.values())) == (24, {2})


async def test_events_of_many_readers_are_encoded_one_batch_an_iteration_of_the_loop(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = await opener.open()
    await stream.writer.append(rows(*range(50)))
    monkeypatch.setattr(rows_api, "_BATCH_ROWS", 10)
    encode, iteration, encoded = rows_api._row_events, 0, Counter[int]()

    def count(batch: pa.RecordBatch, positions: Int64s) -> bytes:
        encoded[iteration] += 1
        return encode(batch, positions)

    monkeypatch.setattr(rows_api, "_row_events", count)

    async def get(_: str) -> Any:
        return stream

    agent: Any = SimpleNamespace(
        streams=SimpleNamespace(get=get), subscriptions=OpenSubscriptions()
    )
    selector, encoder = RowSelector(stream, RowSelection()), rows_api.EventEncoder()

    async def read() -> int:
        text = b""
        async for part in rows_api._events(agent, stream, selector, 0, encoder):
            text += part
            if text.count(b"event: row") == 50:
                break
        return text.count(b"\r\n\r\n")

    async def count_iterations() -> None:
        nonlocal iteration
        while True:
            iteration += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count_iterations())
    assert await asyncio.gather(*(read() for _ in range(8))) == [50] * 8
    counting.cancel()
    assert (sum(encoded.values()), max(encoded.values())) == (40, 1)


def test_rows_with_a_dictionary_cost_about_as_much_as_rows_with_texts() -> None:
    texts = pa.array([f"entity-{number}" for number in range(5000)])

    def cost(column: pa.Array) -> float:
        batch = pa.record_batch({"entity": column})
        begun = time.process_time()
        assert len(objects(batch)) == 5000
        return time.process_time() - begun

    plain = min(cost(texts) for _ in range(5))
    # 25 times as much without the conversion as a whole.
    assert min(cost(texts.dictionary_encode()) for _ in range(5)) < 5 * plain
