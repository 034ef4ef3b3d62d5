"""A sender with a clock ten minutes ahead affects neither its own data nor that of others."""

from dataclasses import dataclass
from typing import Any

from ignite_server.server import IgniteServer
from mistbow.client import AgentClient, Point
from mistbow.clock import system_clock
from mistbow.streams.schemas import RAW
from storage_agent.settings import AgentSettings
from tests.storage_agent.conftest import ManualClock
from tests.support.agents import running_agent
from tests.support.conditions import eventually
from tests.support.ignite import empty

_AHEAD_MS = 600_000
_STEPS = 20
_STEP_MS = 500
_OTHERS = {"entity": ["right", "slow"]}
_FAST = {"entity": "fast"}
_BEGIN = system_clock()


@dataclass(frozen=True)
class Results:
    """The rows of the senders with correct clocks, as a subscriber reads them.

    ``rows``: all rows; ``late``: the late rows; ``frontiers``: the frontier after each step. The
    windows of an insight depend on these data only.
    """

    rows: list[dict[str, Any]]
    late: list[dict[str, Any]]
    frontiers: list[int]


def read_results(client: AgentClient, clock: ManualClock, ahead_ms: int) -> Results:
    """Run three senders, one of them with a fast clock; return the rows that a subscriber reads.

    ``ahead_ms``: the difference of the fast clock.
    """
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
    return Results(rows, late, frontiers)


def fast_points(client: AgentClient) -> list[tuple[int, float]]:
    start = _BEGIN + _AHEAD_MS
    [node] = client.get("m", "fast", start=start, end=start + _STEPS * _STEP_MS)
    return [(value.ts, value.value) for series in node.data for value in series.values]


def test_agent_with_a_fast_clock_loses_no_points(
    settings: AgentSettings, ignite: IgniteServer
) -> None:
    clock = ManualClock(_BEGIN)
    with running_agent(settings, clock) as url:
        client = AgentClient(url)
        usual = read_results(client, clock, 0)
        client.close()
    empty(ignite)
    clock = ManualClock(_BEGIN)
    home = settings.home / "again"
    with running_agent(settings.model_copy(update={"home": home}), clock) as url:
        client = AgentClient(url)
        seen = read_results(client, clock, _AHEAD_MS)
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
