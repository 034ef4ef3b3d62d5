"""The pace of subscriptions: which parts are sent, and how long they wait."""

import asyncio
import math

import pytest

from mistbow.streams.wire import Position
from storage_agent.streams import pace
from storage_agent.streams.pace import HEARTBEAT_S, Pace
from storage_agent.streams.writer import TICK_S

SENT = Position(5, 100)
MOVED = Position(5, 101)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("rows", "position", "idle", "is_sent"),
    [
        (1, MOVED, 0.0, True),
        (0, MOVED, TICK_S / 2, False),
        (0, MOVED, TICK_S, True),
        (0, SENT, TICK_S, False),
        (0, SENT, HEARTBEAT_S, True),
        (0, Position(8, 100), 0.0, True),  # the last part
    ],
)
def test_part_is_sent_for_rows_a_moved_position_and_the_end(
    rows: int, position: Position, idle: float, is_sent: bool
) -> None:
    clock = Clock()
    sender = Pace(3, 8, clock)
    assert sender.sends(0, SENT), "the first part is sent at once"
    clock.now += idle
    assert sender.sends(rows, position) is is_sent
    assert sender.sent == (position if is_sent else SENT)
    assert sender.is_ended is (position.next == 8)


def test_pace_without_end_does_not_end() -> None:
    sender = Pace(3)
    assert sender.sends(1, Position(2**62, 0))
    assert not sender.is_ended


@pytest.mark.parametrize(("position", "limit"), [(MOVED, "TICK_S"), (SENT, "HEARTBEAT_S")])
async def test_wait_ends_when_the_next_part_without_rows_is_due(
    position: Position, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = Pace(3)
    assert sender.sends(0, SENT)
    for name in ("TICK_S", "HEARTBEAT_S"):
        monkeypatch.setattr(pace, name, 0.0 if name == limit else math.inf)
    async with asyncio.timeout(10):
        await sender.wait(asyncio.Event(), position)


async def test_wait_ends_at_a_change() -> None:
    changed = asyncio.Event()
    changed.set()
    async with asyncio.timeout(10):
        await Pace(3).wait(changed, SENT)
