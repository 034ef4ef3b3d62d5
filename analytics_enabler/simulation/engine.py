"""The engine of the simulator: places jobs again at each event, as the enabler does."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

import msgspec
import numpy as np

from analytics_enabler.scheduling.interface import Decision
from analytics_enabler.scheduling.model.jobs import Job, Placement
from analytics_enabler.scheduling.registry import load_scheduler
from analytics_enabler.scheduling.sandbox.child import SchedulingRequest
from analytics_enabler.scheduling.sandbox.guard import decide
from analytics_enabler.simulation.baselines import BASELINES
from analytics_enabler.simulation.environment import Environment
from analytics_enabler.simulation.events import Event, timeline
from analytics_enabler.simulation.metrics import Metrics, Sample, Totals, used_cores
from analytics_enabler.simulation.topology import Topology, load_topology
from analytics_enabler.simulation.workload import simulated_jobs

_HOUR_S = 3600.0


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a simulation; equal scenarios give equal results.

    ``topology``: ``tiers``, ``matrix:PATH``, or a file (see ``load_topology``).
    """

    topology: str
    scheduler: str
    nodes: int = 1000
    insights: int = 200
    hours: float = 24.0
    seed: int = 1


class SimulationResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a simulation, which depends on the scenario alone."""

    scenario: Scenario
    sites: int
    jobs: int
    fragments: int
    totals: Totals
    samples: tuple[Sample, ...]


@dataclass
class InProcess:
    """Calls schedulers in this process, and measures the CPU time (s) of each call.

    A sandbox would receive half a million links as JSON at each call, and its time would depend on
    the other processes of the machine. An exception of a scheduler ends the simulation.
    """

    seconds: list[float] = field(default_factory=list)

    def __call__(self, name: str, request: SchedulingRequest, limit_s: float) -> Decision:
        """Return the decision of a scheduler or baseline; see ``CallScheduler``."""
        del limit_s
        scheduler = BASELINES[name]() if name in BASELINES else load_scheduler(name)
        start = time.process_time()
        scheduler.prepare(request.settings)
        decision = scheduler.schedule(request.jobs, request.fog, request.current)
        self.seconds.append(time.process_time() - start)
        return decision


@dataclass(frozen=True)
class Simulation:
    """The result of a simulation, and the CPU time (s) of each call of the scheduler."""

    result: SimulationResult
    seconds: Sequence[float]


def simulate(scenario: Scenario) -> Simulation:
    """Return the simulation of a scenario; each part draws from a generator of its own."""
    places, work, faults, changes = (
        np.random.default_rng([scenario.seed, part]) for part in range(4)
    )
    topology = load_topology(scenario.topology, scenario.nodes, places)
    jobs = simulated_jobs(topology, scenario.insights, scenario.scheduler, work)
    duration_s = scenario.hours * _HOUR_S
    events = timeline([node.name for node in topology.nodes], duration_s, faults)
    metrics, seconds = run_events(topology, jobs, events, duration_s, changes)
    result = SimulationResult(
        scenario=scenario,
        sites=len({node.site for node in topology.nodes}),
        jobs=len(jobs),
        fragments=sum(len(job.tasks) for job in jobs),
        totals=metrics.totals(),
        samples=tuple(metrics.samples),
    )
    return Simulation(result, seconds)


def run_events(
    topology: Topology,
    jobs: Sequence[Job],
    events: Sequence[Event],
    duration_s: float,
    rng: np.random.Generator,
) -> tuple[Metrics, list[float]]:
    """Place the jobs after each event; return the metrics, and the CPU times (s) of the scheduler.

    ``events``: in the order of time; the first event is at 0 s.
    """
    environment, metrics, call = Environment(topology, rng), Metrics(jobs), InProcess()
    placement = Placement()
    times = sorted({event.at_s for event in events})
    ends = dict(zip(times, [*times[1:], duration_s], strict=True))
    for at_s, simultaneous in groupby(events, key=lambda event: event.at_s):
        for event in simultaneous:
            environment.apply(event)
        fog = environment.fog(at_s)
        outcome = decide(jobs, fog, placement, call=call)
        metrics.add(at_s, ends[at_s] - at_s, fog, outcome, placement)
        placement = outcome.decision.placement
        environment.advance(at_s, ends[at_s] - at_s, used_cores(jobs, placement))
    return metrics, call.seconds
