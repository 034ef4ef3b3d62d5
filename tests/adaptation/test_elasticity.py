"""Four times the load for five minutes, and back: insights spread over more workers, then fewer.

Real workers run the insights. The cores that both loads take are measured first. Then the workers
declare how many of their cores are free for fragments, so that one worker has enough for all
insights at the usual load only. So no worker really lacks CPU time, and the lag that is checked is
that of the handovers. ``MISTBOW_LOADED_S`` sets another time (s) of the load.
"""

import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from analytics.insight_models import Decision
from analytics_enabler.scheduling.driver import elasticity
from mistbow.clock import system_clock
from mistbow.errors import UnavailableError
from tests.adaptation.deployment import FOLLOW_MS, Deploy, Deployment
from tests.adaptation.fog import HUB, WORKERS, AdaptiveFog
from tests.oracle.stored_points import compact_key, expected_values, stored_points
from tests.oracle.trials import FORECAST_RELATIVE
from tests.support.conditions import eventually
from tests.support.sender import Sender
from tests.support.traffic import Traffic

pytestmark = [pytest.mark.soak, pytest.mark.alone, pytest.mark.timeout(1500)]

METRIC = "pulse"
STEP_MS = 5000
TEXT = f"soon = COMPUTE FORECAST[5]({METRIC}, 30 SECONDS) BY entityID EVERY 5 SECONDS"
"""A forecast takes about 15 ms of CPU time for each sensor."""

MIN_GAIN_MS = 100
SCHEDULERS = tuple(f"latency(margin={margin}, min_gain_ms={MIN_GAIN_MS})" for margin in (0.1, 0.2))
"""The schedulers of the insights, so that each is a group of its own.

On a busy machine, the latencies of both links vary by less than the least gain of a move.
"""

SENSORS, FACTOR = 24, 4
"""The number of sensors, with a point per second each, and by what it grows.

They are few, so that one worker has enough CPU time at the high load on a slow machine too.
"""

LOADED_S = int(os.environ.get("MISTBOW_LOADED_S", "300"))
READ_S = 5.0
"""The interval (s) at which the cores that the insights take are read."""

WINDOW_S = 60.0
"""The time (s) over which cores are measured."""

MIN_RATIO = 1.6
"""The minimum ratio of the cores at the high load to those at the usual load.

The cores for a point vary with what else the machine does.
"""

ROOM = 1.15
"""The room for one insight at the high load, relative to the cores that were measured."""

STEADY = 0.15
"""The maximum relative difference of the cores of two successive minutes that are steady."""

DELAY_S = 0.2
HOT_MS, COOL_MS = elasticity.HOT_MS, elasticity.COOL_MS
"""The times (ms) in operation; other tests shorten them."""

MAX_LAG_MS = 2 * STEP_MS
MAX_RETURN_MS = COOL_MS + FOLLOW_MS
AROUND_MS = 20_000
"""The time (ms) before and after a move for which the results are compared with the oracle's."""


@dataclass(frozen=True)
class Observation:
    """The greatest lag (ms) of all insights, and the workers that run them, at a time (ms)."""

    at: int
    lag_ms: int
    workers: frozenset[str]


@pytest.fixture
def far_west(fog: AdaptiveFog, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Delay the link of one worker, so that all insights prefer the other one."""
    monkeypatch.setattr(elasticity, "HOT_MS", HOT_MS)
    monkeypatch.setattr(elasticity, "COOL_MS", COOL_MS)
    fog.links["west"].delay_s = DELAY_S
    eventually(lambda: is_far(fog, "west"), timeout=120, what="the delay is in the snapshot")
    yield
    fog.links["west"].delay_s = 0.0
    for name in WORKERS:
        fog.declare(name, node_cores_free=-1)


def test_insights_spread_under_load_and_return(
    fog: AdaptiveFog, deploy: Deploy, far_west: None
) -> None:
    more = sensors(SENSORS, FACTOR * SENSORS)
    with Sender(fog.sites[HUB].url, sensors(0, SENSORS)):
        running = [deploy(scheduler, TEXT, METRIC) for scheduler in SCHEDULERS]
        assert [each.node for each in running] == ["east", "east"]
        with Sender(fog.sites[HUB].url, more):
            high = steady_cores_of(fog)
        usual = steady_cores_of(fog)
        free = declare_free(fog, free_between(usual, high))
        with Sender(fog.sites[HUB].url, more):
            changed_at = system_clock()
            loaded = observe(fog, lambda: system_clock() - changed_at > 1000 * LOADED_S)
        eased_at = system_clock()
        eased = observe(
            fog,
            lambda: nodes_of(running) == {"east"} or system_clock() - eased_at > MAX_RETURN_MS,
        )
        [away], [back] = moves(running, "is a hot spot"), moves(running, "has had free capacity")
        for move in (away, back):
            check_results(fog, running, move)
    lag_ms = max(each.lag_ms for each in (*loaded, *eased))
    print(
        f"cores: {usual} and {high}; free: {free}; spread after {away.at - changed_at} ms, "
        f"returned after {back.at - eased_at} ms; lag: {lag_ms} ms\n{away.why}\n{back.why}"
    )
    assert away.at - changed_at <= FOLLOW_MS
    assert loaded[0].workers == {"east"}
    assert loaded[-1].workers == set(WORKERS)
    assert eased[-1].workers == {"east"}
    assert lag_ms <= MAX_LAG_MS
    assert sum(len(each.moves) for each in running) == 2
    decisions = [each for each in fog.enabler.decisions() if each.at >= changed_at]
    hot_spots = [each for each in decisions if each.kind.startswith("hotspot")]
    assert [(each.kind, each.subject) for each in hot_spots] == [
        ("hotspot_found", "east"),
        ("hotspot_ended", "east"),
    ]
    assert all(each.what and each.why and each.by for each in decisions)


def sensors(first: int, end: int) -> Traffic:
    """Return the traffic of the sensors from ``first`` up to ``end`` (exclusive)."""
    entities = tuple(f"sensor-{number}" for number in range(first, end))
    return Traffic(metrics=(METRIC,), entities=entities, rate=len(entities))


def nodes_of(running: list[Deployment]) -> set[str | None]:
    return {each.fog.node_of(each.id) for each in running}


def is_far(fog: AdaptiveFog, site: str) -> bool:
    links = fog.enabler.fog().links
    found = [each.latency_ms for each in links if (each.source, each.target) == (HUB, site)]
    return bool(found) and found[0] > 2 * MIN_GAIN_MS


def steady_cores_of(fog: AdaptiveFog) -> float:
    """Wait until the cores that all insights take are steady; return them.

    They are not steady while the insights lag behind, because work of the past counts then.
    """
    found: dict[float, float] = {}

    def steady() -> float | None:
        now, cores, observed = time.monotonic(), cores_of(fog), look(fog)
        if observed is not None and observed.lag_ms > MAX_LAG_MS:
            found.clear()
            return None
        if cores is None or observed is None:
            return None
        found[now] = cores
        print(f"cores: {cores:.3f}, lag: {observed.lag_ms} ms")
        former = [each for at, each in found.items() if now - at >= WINDOW_S]
        is_steady = bool(former) and abs(cores - former[-1]) <= STEADY * cores
        return (cores + former[-1]) / 2 if is_steady else None

    return eventually(steady, timeout=500, pause=READ_S, what="the cores are steady") or 0.0


def cores_of(fog: AdaptiveFog) -> float | None:
    """Return the cores that all insights take, as measured; None: not all are measured."""
    cores = []
    for scheduler in SCHEDULERS:
        chosen = TEXT.replace(" EVERY", f" WHEN site == '{HUB}' EVERY")
        found = fog.enabler.explain(f"{chosen} WITH SCHEDULER={scheduler}").groups
        measured = found[0].fragments[0].measured
        if measured is None or not measured.cores:
            return None
        cores.append(measured.cores)
    return sum(cores)


def free_between(usual: float, high: float) -> float:
    """Return the free cores that are as far from both limits of a hot spot, as a factor.

    They suffice for one of two insights at the high load.
    """
    assert high >= MIN_RATIO * usual, f"cores: {usual} at the usual load, {high} at the high load"
    middle = math.sqrt(usual * high / (elasticity.HOT_LOAD * elasticity.COOL_LOAD))
    return max(middle, ROOM * high / 2 / elasticity.TARGET_LOAD)


def declare_free(fog: AdaptiveFog, cores: float) -> float:
    """Declare the free cores of all workers, and wait until the snapshot has them."""
    free = round(cores, 4)
    for name in WORKERS:
        fog.declare(name, node_cores_free=free)
    eventually(
        lambda: all(each.cores_free == free for each in fog.enabler.fog().nodes),
        timeout=60,
        what="the declared cores are in the snapshot",
    )
    return free


def observe(fog: AdaptiveFog, is_over: Callable[[], bool]) -> list[Observation]:
    """Observe the insights once a second, and once more at the end."""
    found: list[Observation] = []
    ended = False
    while not ended:
        ended = is_over()
        if (now := look(fog)) is not None:
            found.append(now)
            print(now)
        time.sleep(1)
    return found


def look(fog: AdaptiveFog) -> Observation | None:
    """Observe the insights; None: a worker does not answer now, or none runs an insight.

    During a handover, two workers run an insight, and the better one counts: the other one is still
    catching up.
    """
    lags: dict[str, int] = {}
    workers = set()
    try:
        for name, worker in fog.workers.items():
            for each in worker.list():
                lags[each.id] = min(each.lag_ms, lags.get(each.id, each.lag_ms))
                workers.add(name)
    except UnavailableError:
        return None
    return Observation(system_clock(), max(lags.values()), frozenset(workers)) if lags else None


def moves(running: list[Deployment], reason: str) -> list[Decision]:
    """Return the moves of the insights for a reason."""
    return [move for each in running for move in each.moves if reason in move.why]


def check_results(fog: AdaptiveFog, running: list[Deployment], move: Decision) -> None:
    """Wait until the results around a move of all insights equal the oracle's."""
    since, until = (at // STEP_MS * STEP_MS for at in (move.at - AROUND_MS, move.at + AROUND_MS))
    eventually(
        lambda: system_clock() > until + 2 * STEP_MS, timeout=60, what="also late points are stored"
    )
    points = stored_points(fog.sites[HUB], METRIC)
    right = expected_values(TEXT, points, since, until)
    assert len({tick for _, _, tick in right}) == (until - since) // STEP_MS

    def equal() -> bool:
        for each in running:
            found = fog.enabler.results(each.id, limit=100_000, start=since + 1, end=until).results
            values = {
                (r.insight, compact_key(r.key), r.ts): r.value for r in found if r.value is not None
            }
            assert values.keys() == right.keys()
            assert values == pytest.approx(right, rel=FORECAST_RELATIVE, abs=1e-6)
        return True

    eventually(equal, timeout=150, pause=1.0, what="the results equal the oracle's")
