"""The metrics of a simulation, compared with figures computed by hand."""

import msgspec
import pytest

from analytics_enabler.scheduling.interface import Decision
from analytics_enabler.scheduling.model.jobs import Assignment, Placement
from analytics_enabler.scheduling.model.snapshot import Fog
from analytics_enabler.scheduling.sandbox.guard import Outcome
from analytics_enabler.simulation.metrics import Metrics, used_cores
from mistbow.fabric import Power
from tests.analytics_enabler.scheduling.build import fog, job, node, task

POWER = Power(idle_w=2.0, full_w=6.0)


def two_sites() -> Fog:
    return fog(
        node("a", cores=4, power=POWER), node("b", cores=4, power=POWER), links={("a", "b"): 10}
    )


def outcome(merge: str) -> Outcome:
    placement = Placement(
        (
            Assignment(job="q", task="at-a", node="a", checked=0.5),
            Assignment(job="q", task="merge", node=merge),
        )
    )
    return Outcome(Decision(placement), {}, {"q": 3.0})


JOB = job(
    "q",
    task("at-a", "a", cores=1.0, points_per_s=100.0, check_core_s=0.01),
    task("merge", cores=1.0),
    streams="at-a>merge",
    sink="a",
)


def test_totals_of_two_samples() -> None:
    metrics = Metrics([JOB])
    first, second = outcome("b"), outcome("a")
    metrics.add(0.0, 3600.0, two_sites(), first, Placement())
    metrics.add(3600.0, 1800.0, two_sites(), second, first.decision.placement)
    away, here = metrics.samples
    # At b, the panes travel to b and the results back: 10 + 10 ms, and 1000 B/s between the sites.
    assert (away.latency_p50_ms, away.bytes_per_s) == (20.0, 1000.0)
    assert (here.latency_p50_ms, here.bytes_per_s, here.migrations) == (0.0, 0.0, 1)
    # 1 core and half of the checks (half of 1 core) at a, 1 core at b: 2.5 cores of 1 W each.
    assert away.power_w == here.power_w == 2.5
    totals = metrics.totals()
    assert (totals.latency_p50_ms, totals.latency_p90_ms) == (20.0, 20.0)  # 20 ms for two thirds
    assert totals.energy_wh == pytest.approx(2.5 * 1.5)
    assert totals.cost == pytest.approx(3.0 * 1.5)
    assert totals.gigabytes == pytest.approx(1000 * 3600 / 1e9)
    assert totals.quality == pytest.approx(0.5)
    assert (totals.migrations, totals.displaced, totals.decisions) == (1, 0, 2)


def test_refused_and_displaced_fragments() -> None:
    metrics = Metrics([JOB])
    alone = fog(node("a", cores=4))
    metrics.add(0.0, 7200.0, alone, Outcome(Decision(Placement()), {"x": "y"}), Placement())
    assert metrics.totals().refused_fragment_hours == 4.0
    assert metrics.totals().failures == 1
    metrics.add(7200.0, 1.0, alone, outcome("a"), outcome("b").decision.placement)
    assert (metrics.samples[1].displaced, metrics.samples[1].migrations) == (1, 0)


def test_bytes_include_points_that_are_read_at_another_site() -> None:
    metrics = Metrics([JOB])
    remote = msgspec.structs.replace(
        outcome("b").decision,
        placement=Placement((Assignment(job="q", task="at-a", node="b"),)),
    )
    metrics.add(0.0, 1.0, two_sites(), Outcome(remote, {}), Placement())
    assert metrics.samples[0].bytes_per_s == 100 * 36


def test_used_cores_include_checks() -> None:
    assert used_cores([JOB], outcome("b").decision.placement) == {"a": 1.5, "b": 1.0}
