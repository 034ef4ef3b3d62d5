"""The whole loop of elasticity by an injected clock: load, measurements, demands and moves.

The cost model estimates a third of the real need, and a moved fragment is measured late.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from analytics.plan.status import FragmentStatus
from analytics_enabler.execution.demand_estimates import MIN_SPAN_S, PERIOD_S
from analytics_enabler.execution.rate_meter import START_S as NOT_MEASURED_S
from analytics_enabler.execution.rate_meter import FragmentMeter
from analytics_enabler.scheduling.builtin.latency import Latency
from analytics_enabler.scheduling.cost_model.hysteresis import stable_cost
from analytics_enabler.scheduling.cost_model.last_demands import LastDemands
from analytics_enabler.scheduling.driver.capacity import fit_running
from analytics_enabler.scheduling.driver.driver import nodes_by_job, placement_of
from analytics_enabler.scheduling.driver.elasticity import COOL_MS, HOT_LOAD, Elasticity
from analytics_enabler.scheduling.driver.reasons import reasons_of_moves
from analytics_enabler.scheduling.model.demands import FragmentCost
from analytics_enabler.scheduling.model.jobs import Job
from analytics_enabler.scheduling.model.snapshot import Fog
from analytics_enabler.scheduling.sandbox.validation import violations
from tests.analytics_enabler.scheduling import build

USUAL, FACTOR = 0.1, 4
"""The cores that a fragment needs at the usual load, and by what the load grows."""

UNDERESTIMATE = 0.3
HANDOVER_S = 15
GRAIN_MS = 5000
START_S, LOADED_S, END_S = 120, 300, 900
NOISE = 0.08

Load = Callable[[int], float]
"""The cores that a fragment needs at a time (s)."""


def loaded_once(now: int) -> float:
    return USUAL * (FACTOR if START_S <= now < START_S + LOADED_S else 1)


def noisy(now: int) -> float:
    return loaded_once(now) * (1 + NOISE * math.sin(now))


def loaded_every_other_minute(now: int) -> float:
    return USUAL * (FACTOR if now > START_S and now // 60 % 2 else 1)


@dataclass
class Fragment:
    """A fragment: the CPU time that it has used, and its measurement by its present node."""

    node: str = ""
    cpu_s: float = 0.0
    meter: FragmentMeter = field(default_factory=lambda: FragmentMeter(NOT_MEASURED_S))
    measured_from: int = 0
    present: float = USUAL
    demand: FragmentCost = field(default_factory=lambda: FragmentCost(cores=USUAL))


@dataclass(frozen=True)
class Move:
    at: int
    fragment: str
    source: str
    target: str
    why: str


class Loop:
    """Insights over the points of a site without a worker, under a load, second by second."""

    def __init__(self, fog: Fog, insights: int, load: Load, handover_s: int = HANDOVER_S) -> None:
        self.fog, self.load, self.handover_s = fog, load, handover_s
        self.now = 0
        self.fragments = {f"q{number}": Fragment() for number in range(insights)}
        self.last_demands = LastDemands(lambda: self.now)
        self.elasticity = Elasticity(lambda: 1000 * self.now)
        self.moves: list[Move] = []
        self.nodes_used: list[int] = []

    def run(self) -> None:
        for self.now in range(END_S):
            need = self.load(self.now)
            for name, each in self.fragments.items():
                each.cpu_s += need
                self._measure(name, each, UNDERESTIMATE * need)
            self._decide()
            self.nodes_used.append(len({each.node for each in self.fragments.values()}))

    def _measure(self, name: str, fragment: Fragment, estimated: float) -> None:
        """Measure a fragment, and set its demand, as ``DemandEstimates`` does."""
        if self.now >= fragment.measured_from:
            fragment.meter.read(self.now, self._status(fragment))
        if self.now % PERIOD_S:
            return
        rates = fragment.meter.rates(MIN_SPAN_S)
        if rates is not None and rates.is_on_time(GRAIN_MS):
            self.last_demands.observe_measurement(name, estimated, rates.cores)
            cores = rates.cores
        else:
            cores = self.last_demands.expected(name, estimated)
        fragment.present = cores
        fragment.demand = stable_cost(FragmentCost(cores=cores), fragment.demand)

    def _status(self, fragment: Fragment) -> FragmentStatus:
        return FragmentStatus(
            id="f",
            fingerprint="1",
            state="running",
            active="1",
            queries=1,
            frontier=1000 * self.now,
            batches=1000 * (self.now - fragment.measured_from) // GRAIN_MS,
            cpu_s=fragment.cpu_s,
        )

    def _decide(self) -> None:
        current = {name: {"whole": each.node} for name, each in self.fragments.items() if each.node}
        present = {(name, "whole"): each.present for name, each in self.fragments.items()}
        adapted = fit_running(
            self.elasticity.adapt(self._jobs(), self.fog, current, present), self.fog, current
        )
        scheduler = Latency()
        scheduler.prepare({})
        decision = scheduler.schedule(tuple(adapted), self.fog, placement_of(current))
        assert violations(decision, adapted, self.fog) == []
        nodes = nodes_by_job(decision.placement)
        assert not self.elasticity.return_unplaced(nodes)
        gains = reasons_of_moves(adapted, self.fog, placement_of(current), decision.placement)
        reasons = {**gains, **self.elasticity.reasons}
        for name, each in self.fragments.items():
            node = nodes[name]["whole"]
            if each.node and node != each.node:
                why = reasons[name, "whole"]
                self.moves.append(Move(self.now, name, each.node, node, why))
                # The former query is measured until the handover has ended.
                each.meter = FragmentMeter(NOT_MEASURED_S)
                each.measured_from = self.now + self.handover_s
            each.node = node

    def _jobs(self) -> list[Job]:
        return [
            build.job(
                name,
                build.task(
                    "whole",
                    "hub",
                    cores=each.demand.cores,
                    memory_mb=100.0,
                    remotely_readable=True,
                ),
                sink="hub",
            )
            for name, each in self.fragments.items()
        ]


def fog(*cores: float) -> Fog:
    """Return nodes in the order of their distance from the hub."""
    names = ("a", "b", "c")[: len(cores)]
    nodes = [build.node(name, cores=each) for name, each in zip(names, cores, strict=True)]
    links = {("hub", name): 10.0 + 20 * number for number, name in enumerate(names)}
    return build.fog(*nodes, links=links)


@pytest.mark.parametrize("load", [loaded_once, noisy])
@pytest.mark.parametrize("handover_s", [1, HANDOVER_S, 60])
def test_one_of_two_insights_leaves_under_load_and_returns(load: Load, handover_s: int) -> None:
    loop = Loop(fog(0.8, 0.8), 2, load, handover_s)
    loop.run()
    away, back = loop.moves
    assert (away.source, away.target, back.source, back.target) == ("a", "b", "b", "a")
    assert away.fragment == back.fragment
    assert 0 < away.at - START_S <= 75
    assert "the worker a is a hot spot: its fragments need 0." in away.why
    assert COOL_MS / 1000 <= back.at - START_S - LOADED_S <= 150
    assert back.why == "the worker a has had free capacity for 60 s"


def test_insights_spread_over_more_nodes_and_then_fewer() -> None:
    loop = Loop(fog(1.0, 1.0, 1.0), 6, loaded_once)
    loop.run()
    used = loop.nodes_used
    assert (used[START_S - 1], used[START_S + LOADED_S - 1], used[-1]) == (1, 3, 1)
    # The number of nodes only rises, then only falls.
    assert used == sorted(used[: START_S + LOADED_S]) + sorted(
        used[START_S + LOADED_S :], reverse=True
    )
    for move in loop.moves:
        if move.at < START_S + LOADED_S:
            assert "is a hot spot" in move.why
        else:
            assert "has had free capacity" in move.why or "critical path falls" in move.why
    assert len(loop.moves) <= 12


@pytest.mark.parametrize("factor", [1.5, 2.5])
def test_load_just_above_the_limit_makes_a_hot_spot(factor: float) -> None:
    """A demand that follows in steps would hide it."""
    limit = 2 * USUAL * factor / 1.05 / HOT_LOAD
    loop = Loop(fog(limit, limit), 2, lambda now: USUAL * (factor if now >= START_S else 1))
    loop.run()
    assert [(move.source, move.target) for move in loop.moves] == [("a", "b")]


def test_load_of_every_other_minute_does_not_move_insights_to_and_fro() -> None:
    loop = Loop(fog(0.6, 0.6), 2, loaded_every_other_minute)
    loop.run()
    assert len(loop.moves) <= 1


def test_estimates_alone_return_insights_too_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last demands are needed: without them, an insight is moved to and fro."""
    loop = Loop(fog(0.8, 0.8), 2, loaded_once, 60)
    monkeypatch.setattr(loop.last_demands, "expected", lambda _, estimated: estimated)
    loop.run()
    assert len(loop.moves) > 2
