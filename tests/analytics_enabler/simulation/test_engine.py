"""Whole simulations: equal results of equal scenarios, and the effect of failures."""

import msgspec
import numpy as np
import pytest

from analytics_enabler.scheduling.model.jobs import Job
from analytics_enabler.scheduling.sandbox.validation import violations
from analytics_enabler.simulation.baselines import BASELINES
from analytics_enabler.simulation.engine import Scenario, run_events, simulate
from analytics_enabler.simulation.events import Event, timeline
from analytics_enabler.simulation.topology import Topology
from tests.analytics_enabler.scheduling.build import city, over_sites, placed

SMALL = Scenario(topology="tiers", scheduler="latency", nodes=40, insights=12, hours=2.0)


def city_topology() -> Topology:
    fog = city()
    sites = tuple(sorted({node.site for node in fog.nodes}))
    return Topology(fog.nodes, fog.links, {"all": sites}, {"all": "cloud"})


def city_job(scheduler: str) -> Job:
    return over_sites("q", scheduler=scheduler)


def test_equal_scenarios_give_equal_results() -> None:
    first, second = (msgspec.json.encode(simulate(SMALL).result) for _ in range(2))
    assert first == second
    other = simulate(msgspec.structs.replace(SMALL, seed=2)).result
    assert msgspec.json.encode(other) != first


@pytest.mark.parametrize("scheduler", ["fair", "latency", "random", "greedy"])
def test_every_scheduler_places_all_jobs_without_failures(scheduler: str) -> None:
    simulation = simulate(msgspec.structs.replace(SMALL, scheduler=scheduler, hours=0.5))
    totals = simulation.result.totals
    assert (totals.refused_fragment_hours, totals.failures) == (0.0, 0)
    assert totals.latency_p50_ms > 0
    assert len(simulation.seconds) == totals.decisions == 1


def test_lost_node_displaces_its_fragments_once() -> None:
    events = [Event(0.0, "step"), Event(60.0, "failure", "edge1"), Event(120.0, "repair", "edge1")]
    job = msgspec.structs.replace(
        city_job("greedy"),
        tasks=tuple(
            msgspec.structs.replace(task, remotely_readable=task.pinned is not None)
            for task in city_job("greedy").tasks
        ),
    )
    metrics, _ = run_events(city_topology(), [job], events, 180.0, np.random.default_rng(1))
    first, lost, back = metrics.samples
    assert (first.displaced, first.migrations, first.refused) == (0, 0, 0)
    assert (lost.displaced, lost.migrations, lost.nodes) == (2, 0, 3)  # a partial and the merge
    assert (back.displaced, back.nodes) == (0, 4)


@pytest.mark.parametrize("name", sorted(BASELINES))
def test_baseline_decides_validly_and_lets_running_tasks_stay(name: str) -> None:
    jobs = (city_job(name),)
    current = placed(**{"q_at-edge1": "edge1", "q_merge": "cloud2"})
    decision = BASELINES[name]().schedule(jobs, city(), current)
    assert violations(decision, jobs, city()) == []
    assert decision.placement.by_task["q", "merge"][0].node == "cloud2"


def test_timeline_is_ordered_and_ends_in_time() -> None:
    nodes = [f"n{number}" for number in range(2000)]
    events = timeline(nodes, 7200.0, np.random.default_rng(1))
    assert events == sorted(events)
    assert events[0] == Event(0.0, "step")
    assert all(event.at_s < 7200 for event in events)
    assert {event.kind for event in events} == {"failure", "repair", "step"}
