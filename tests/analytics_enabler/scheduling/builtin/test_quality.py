"""``quality``: latency against the share of points that are checked."""

import pytest

from analytics_enabler.scheduling.builtin.job_model import NOWHERE, JobModel, no_amounts
from analytics_enabler.scheduling.builtin.nodes_table import NodesTable
from analytics_enabler.scheduling.builtin.quality import (
    Quality,
    checked_share,
    spring_relaxation,
)
from analytics_enabler.scheduling.interface import Decision
from analytics_enabler.scheduling.model.jobs import Job, Placement
from analytics_enabler.scheduling.model.snapshot import Fog, SourceQuality
from analytics_enabler.scheduling.sandbox.validation import violations
from tests.analytics_enabler.scheduling import build

# All points of a task need one core for their checks.
CHECKS = {"points_per_s": 1000.0, "check_core_s": 0.001}


def decide(fog: Fog, *jobs: Job, current: Placement | None = None, **settings: str) -> Decision:
    scheduler = Quality()
    scheduler.prepare(settings)
    decision = scheduler.schedule(jobs, fog, current or Placement())
    assert violations(decision, jobs, fog) == []
    return decision


def checked(decision: Decision) -> dict[str, float]:
    return {at.task: round(at.checked, 6) for at in decision.placement.assignments}


def beside(edge_cores: float, to_cloud: float = 2.0) -> Fog:
    return build.fog(
        build.node("edge", cores=edge_cores),
        build.node("cloud"),
        links={("edge", "cloud"): to_cloud},
    )


JOB = build.job(
    "q",
    build.task("data", "edge", **CHECKS),
    build.task("merge"),
    streams="data>merge",
    sink="edge",
)


def test_operator_makes_room_for_checks_if_the_latency_allows() -> None:
    near = decide(beside(2.0, to_cloud=0.4), JOB)
    assert near.placement.by_task["q", "merge"][0].node == "cloud"
    assert checked(near) == {"data": 1.0, "merge": 0.0}
    far = decide(beside(2.0, to_cloud=20), JOB)
    assert far.placement.by_task["q", "merge"][0].node == "edge"
    assert checked(far) == {"data": 0.0, "merge": 0.0}
    # A greater weight of checks is worth a greater latency.
    weighted = decide(beside(2.0, to_cloud=20), JOB, beta="100")
    assert checked(weighted) == {"data": 1.0, "merge": 0.0}


def test_checks_take_only_the_cores_that_remain() -> None:
    decision = decide(beside(2.25, to_cloud=20), JOB)
    assert checked(decision) == {"data": 0.25, "merge": 0.0}
    assert checked_share(JOB, decision.placement, beside(2.25)) == pytest.approx(0.25)


def test_points_of_sites_with_bad_data_are_checked_first() -> None:
    tasks = [
        build.task(f"at-{site}", site, remotely_readable=True, **CHECKS) for site in ("a", "b")
    ]
    job = build.job("q", *tasks, sink="cloud")
    nodes = (build.node("cloud", cores=3),)
    links = build.fog(links={("a", "cloud"): 1, ("b", "cloud"): 1}).links
    for bad, good in (("a", "b"), ("b", "a")):
        sources = (
            SourceQuality(site=bad, completeness=0.6),
            SourceQuality(site=good, completeness=1.0, timeliness=0.9),
        )
        shares = checked(decide(Fog(nodes, links, sources), job))
        assert shares == {f"at-{bad}": 1.0, f"at-{good}": 0.0}


def test_job_without_known_points_is_placed_by_latency() -> None:
    plain = build.over_sites("q")
    decision = decide(build.city(), plain)
    assert len(decision.placement.by_task) == 3
    assert set(checked(decision).values()) == {0.0}


def test_spring_relaxation_places_operators_between_their_neighbours() -> None:
    fog = build.fog(
        *(build.node(name) for name in ("a", "b", "middle")),
        links={("a", "middle"): 10, ("middle", "b"): 10},
    )
    job = build.job(
        "q", build.task("data", "a"), build.task("merge"), streams="data>merge", sink="b"
    )
    table = NodesTable(fog, [job])
    model = JobModel(job, table, no_amounts(table), {})
    nodes = spring_relaxation(model, [NOWHERE, NOWHERE])
    assert nodes is not None
    assert [table.names[node] for node in nodes] == ["a", "middle"]
