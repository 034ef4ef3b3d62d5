"""Clocks that are wrong for a time: the clock of a sender, and the clock of the agent."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from ignite_server.server import IgniteServer
from mistbow.client import AgentClient, Point
from mistbow.clock import system_clock
from mistbow.streams.schemas import RAW
from storage_agent.agent.clock_steps import ExpiryClock
from storage_agent.agent.config import ConfigCell, ConfiguredPolicies
from storage_agent.ignite.client import IgniteClient
from storage_agent.main import create_app
from storage_agent.settings import AgentSettings
from storage_agent.streams.policy import StorageUsage
from storage_agent.streams.state import State
from tests.storage_agent.conftest import ManualClock
from tests.support.agents import running_agent
from tests.support.conditions import eventually
from tests.support.http_server import served
from tests.support.ignite import empty

_AHEAD_MS = 600_000
DAY_MS = 86_400_000
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


@dataclass
class SteppedClock:
    """A clock and a monotonic time that a test moves; ``pass_s`` moves both, as time does."""

    now: int = _BEGIN
    monotonic: float = 0.0

    def pass_s(self, seconds: float) -> None:
        self.now += int(seconds * 1000)
        self.monotonic += seconds


def test_step_forward_expires_rows_only_after_a_day() -> None:
    stepped = SteppedClock()
    expiry = ExpiryClock(lambda: stepped.now, lambda: stepped.monotonic)
    stepped.pass_s(3600)
    assert expiry() == stepped.now
    stepped.now += 366 * DAY_MS
    stepped.pass_s(3600)
    assert expiry() == _BEGIN + 7_200_000
    stepped.now -= 366 * DAY_MS
    assert expiry() == stepped.now
    stepped.now += 366 * DAY_MS
    for _ in range(24):
        assert expiry() < stepped.now
        stepped.pass_s(3600)
    assert expiry() == stepped.now
    # A node that has no clock at its start, and gets the time of a server.
    stepped.now -= 20_000 * DAY_MS
    assert expiry() == stepped.now


@pytest.mark.parametrize("between_days", [None, 1], ids=["two steps", "a partial correction"])
def test_further_step_forward_expires_rows_only_after_a_day_of_its_own(
    between_days: int | None,
) -> None:
    stepped = SteppedClock()
    expiry = ExpiryClock(lambda: stepped.now, lambda: stepped.monotonic)
    stepped.now += 2 * DAY_MS
    assert expiry() == _BEGIN
    if between_days is not None:
        stepped.now -= between_days * DAY_MS
        assert expiry() == _BEGIN
    stepped.pass_s(23 * 3600)
    assert expiry() == _BEGIN + 23 * 3_600_000
    stepped.now += 366 * DAY_MS
    for _ in range(24):
        assert expiry() < _BEGIN + 3 * DAY_MS
        stepped.pass_s(3600)
    assert expiry() == stepped.now


def test_expiry_clock_that_is_read_often_keeps_its_pace() -> None:
    stepped = SteppedClock()
    expiry = ExpiryClock(lambda: stepped.now, lambda: stepped.monotonic)
    stepped.now += DAY_MS
    for _ in range(2000):
        stepped.pass_s(0.0005)
        expiry()
    assert expiry() == pytest.approx(_BEGIN + 1000, abs=1)


def test_rows_stored_while_the_clock_was_far_behind_have_their_full_retention(
    tmp_path: Path,
) -> None:
    settings = AgentSettings(home=tmp_path, node="n1", retention_s=30 * 86_400)
    config = ConfigCell(settings, IgniteClient([]))
    stepped = SteppedClock(_BEGIN - 60 * DAY_MS)
    expiry = ExpiryClock(lambda: stepped.now, lambda: stepped.monotonic)
    policy = ConfiguredPolicies(config, expiry.ago, StorageUsage()).policy_of(RAW)
    created = stepped.now
    stepped.now += 60 * DAY_MS
    for _ in range(29 * 24):
        assert policy.expired_before(State()) <= created
        stepped.pass_s(3600)
        stepped.now -= 1  # a clock that is slewed
    # Later, rows expire as usual.
    stepped.pass_s(3 * 86_400)
    assert policy.expired_before(State()) == stepped.now - 30 * DAY_MS


@pytest.mark.parametrize("hours", [1, 25], ids=["pending step", "confirmed step"])
def test_restarted_agent_retains_rows_that_were_stored_before_a_step(
    tmp_path: Path, hours: int
) -> None:
    stepped = SteppedClock(_BEGIN - 60 * DAY_MS)
    file = tmp_path / "steps.json"
    expiry = ExpiryClock(lambda: stepped.now, lambda: stepped.monotonic, file)
    created = stepped.now
    stepped.now += 60 * DAY_MS
    for _ in range(hours):
        expiry()
        stepped.pass_s(3600)
    expiry()
    restarted = ExpiryClock(lambda: stepped.now, lambda: stepped.monotonic, file)
    assert restarted() == stepped.now
    assert restarted.ago(30 * DAY_MS) <= created
    # A step of a clock that was wrong for a moment is forgotten.
    expiry = ExpiryClock(lambda: stepped.now, lambda: stepped.monotonic, file)
    stepped.now += 366 * DAY_MS
    expiry()
    stepped.now -= 366 * DAY_MS
    expiry()
    assert len(msgspec.json.decode(file.read_bytes())) == 1


@pytest.mark.parametrize("content", ["", "[[1]]"])
def test_damaged_file_of_steps_is_ignored(tmp_path: Path, content: str) -> None:
    file = tmp_path / "steps.json"
    file.write_text(content)
    assert ExpiryClock(lambda: _BEGIN, lambda: 0.0, file).ago(1000) == _BEGIN - 1000


def test_rows_expire_as_usual_once_a_confirmed_step_forward_was_wrong() -> None:
    stepped = SteppedClock()
    expiry = ExpiryClock(lambda: stepped.now, lambda: stepped.monotonic)
    stepped.now += 366 * DAY_MS
    for _ in range(26):
        expiry()
        stepped.pass_s(3600)
    assert expiry() == stepped.now
    stepped.now -= 366 * DAY_MS
    assert expiry.ago(DAY_MS) == stepped.now - DAY_MS


def test_agent_whose_clock_was_a_year_ahead_has_all_points_and_accepts_more(
    settings: AgentSettings,
) -> None:
    clock = ManualClock(_BEGIN)
    app = create_app(settings, clock, expiry_clock=ExpiryClock(clock))

    def values() -> list[float]:
        found = client.get("m", "e", start=_BEGIN - 1000, end=_BEGIN + 1000)
        return [value.value for node in found for series in node.data for value in series.values]

    with served(app) as url:
        client = AgentClient(url)
        eventually(lambda: httpx.get(f"{url}/readyz").is_success, what="the agent is ready")
        for number in range(5):
            client.put([Point("m", "e", _BEGIN + number, float(number))])
        clock.now += 366 * DAY_MS
        # Two rows, so that the maintenance may drop those before them.
        for number in range(5, 7):
            client.put([Point("m", "e", _BEGIN + number, float(number))])
        assert values() == [float(number) for number in range(7)]
        clock.now = _BEGIN
        client.put([Point("m", "e", _BEGIN + 7, 7.0)])
        assert values() == [float(number) for number in range(8)]
        [warning] = httpx.get(f"{url}/readyz").json()["warnings"]
        assert "the clock was set back" in warning
        client.close()
