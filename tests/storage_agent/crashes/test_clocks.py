"""A sender whose clock is ten minutes ahead harms nobody else's data, nor its own."""

from dataclasses import dataclass
from typing import Any

from mistbow.client.agent import AgentClient, Point
from mistbow.clock import system_clock
from mistbow.ignite.server import IgniteServer
from mistbow.settings import AgentSettings
from mistbow.streams.schemas import RAW
from tests.storage_agent.conftest import HeldClock
from tests.support.agents import running_agent
from tests.support.ignite import empty
from tests.support.waiting import eventually

_AHEAD_MS = 600_000
_STEPS = 20
_STEP_MS = 500
_OTHERS = {"entity": ["right", "slow"]}
_FAST = {"entity": "fast"}
_BEGIN = system_clock()


@dataclass(frozen=True)
class Seen:
    """What a subscriber sees of the others: their rows, each with its horizon, and the frontiers.

    Windows are made of nothing else.
    """

    rows: list[dict[str, Any]]
    late: list[dict[str, Any]]
    frontiers: list[int]


def told(client: AgentClient, clock: HeldClock, ahead_ms: int) -> Seen:
    """Have three senders send, one by a clock that is ahead."""
    frontiers = []
    for step in range(_STEPS):
        clock.now += _STEP_MS
        client.put([Point("m", "fast", clock.now + ahead_ms, float(step))])
        lag = 3000 if step % 5 == 4 else 200
        others = [("right", clock.now), ("slow", clock.now - lag)]
        client.put([Point("m", entity, ts, float(step)) for entity, ts in others])
        frontiers.append(client.info(RAW).frontier)
    rows = client.read(RAW, match=_OTHERS).table.to_pylist()
    late = client.read(RAW, match=_OTHERS, late=True).table.to_pylist()
    return Seen(rows, late, frontiers)


def fast_points(client: AgentClient) -> list[tuple[int, float]]:
    start = _BEGIN + _AHEAD_MS
    [node] = client.get("m", "fast", start=start, end=start + _STEPS * _STEP_MS)
    return [(value.ts, value.value) for series in node.data for value in series.values]


def test_a_clock_that_is_ahead_harms_nobody(settings: AgentSettings, ignite: IgniteServer) -> None:
    clock = HeldClock(_BEGIN)
    with running_agent(settings, clock) as url:
        client = AgentClient(url)
        usual = told(client, clock, 0)
        client.close()
    empty(ignite)
    clock = HeldClock(_BEGIN)
    home = settings.home / "again"
    with running_agent(settings.model_copy(update={"home": home}), clock) as url:
        client = AgentClient(url)
        seen = told(client, clock, _AHEAD_MS)
        sent = [(_BEGIN + (i + 1) * _STEP_MS + _AHEAD_MS, float(i)) for i in range(_STEPS)]
        assert fast_points(client) == sent
        assert client.read(RAW, match=_FAST).table.num_rows == 0
        # Its points are rows when their time has come, once, and none is late.
        clock.now += _AHEAD_MS
        eventually(lambda: client.read(RAW, match=_FAST).table.num_rows == _STEPS)
        assert client.read(RAW, match=_FAST, late=True).table.num_rows == 0
        assert fast_points(client) == sent
        client.close()
    assert seen == usual
    assert len(usual.rows) == 2 * _STEPS
    assert len(usual.late) == _STEPS // 5
