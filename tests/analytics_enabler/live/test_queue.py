"""The queue of a client's events, and the changes of a view."""

import pytest

from analytics_enabler.live.events import (
    MAX_MISSED_BYTES,
    MAX_QUEUED_BYTES,
    MAX_QUEUED_EVENTS,
    Changes,
    CursorClock,
    EventQueue,
    encode_event,
)
from analytics_enabler.live.result_hub import MAX_BATCH, encode_results


async def test_queue_returns_missed_events_before_those_held_back() -> None:
    queue = EventQueue()
    queue.put(b"new;")
    queue.put_first(b"missed;")
    queue.release()
    queue.put(b"newer;")
    assert await queue.get(1) == b"missed;new;newer;"
    assert await queue.get(0) == b""


@pytest.mark.parametrize("event", [b"x", b"x" * (MAX_QUEUED_BYTES // 10)])
async def test_queue_of_slow_client_is_closed_at_its_limit(event: bytes) -> None:
    queue = EventQueue()
    queue.release()
    for _ in range(MAX_QUEUED_EVENTS + 1):
        queue.put(event)
    assert queue.is_closed
    received = await queue.get(1)
    assert received is not None
    assert len(received) <= MAX_QUEUED_BYTES
    assert await queue.get(1) is None


async def test_reading_client_never_reaches_the_limit() -> None:
    queue = EventQueue()
    queue.release()
    for _ in range(10 * MAX_QUEUED_EVENTS):
        queue.put(b"x" * 10_000)
        assert await queue.get(1)
    assert not queue.is_closed


@pytest.mark.parametrize("size", [MAX_QUEUED_BYTES + 1, 3 * MAX_QUEUED_BYTES])
async def test_empty_queue_accepts_an_event_above_the_limit(size: int) -> None:
    queue = EventQueue()
    queue.release()
    for _ in range(2):
        queue.put(b"x" * size)
        assert len(await queue.get(1) or b"") == size
    assert not queue.is_closed
    queue.put(b"x" * size)
    queue.put(b"x")
    assert queue.is_closed


async def test_missed_results_leave_room_for_other_events() -> None:
    queue = EventQueue()
    assert queue.has_room(MAX_MISSED_BYTES)
    queue.put_first(b"x")
    assert not queue.has_room(MAX_MISSED_BYTES)
    assert queue.has_room(MAX_MISSED_BYTES - 1)


async def test_queued_events_are_bounded_before_the_release() -> None:
    queue = EventQueue()
    for _ in range(MAX_QUEUED_EVENTS + 1):
        queue.put(b"x")
    assert queue.is_closed


def test_changes_are_new_changed_and_removed_entries() -> None:
    changes = Changes()
    assert changes.update({"a": b"1", "b": b"1"}) == (["a", "b"], [])
    assert changes.update({"a": b"1", "b": b"2", "c": b"1"}) == (["b", "c"], [])
    assert changes.update({"c": b"1"}) == ([], ["a", "b"])


def test_cursor_never_goes_back() -> None:
    times = iter([5, 3, 9])
    clock = CursorClock(lambda: next(times))
    assert [clock(), clock(), clock()] == [5, 5, 9]


def test_results_are_sent_alone_or_in_batches() -> None:
    assert encode_results([], 7) == []
    assert encode_results([b"{}"], 7) == [b"event: result\nid: 7\ndata: {}\n\n"]
    many = encode_results([b"{}"] * (MAX_BATCH + 1), 7)
    assert [each.count(b"event: results\nid: 7\n") for each in many] == [1, 1]
    assert encode_event("x", b"{}", 7).endswith(b"\n\n")
