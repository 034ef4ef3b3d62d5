import time

import msgspec
import numpy as np
import pytest

from analytics_enabler.scheduling.builtin.fair import Fair
from analytics_enabler.scheduling.builtin.latency import Latency
from analytics_enabler.scheduling.interface import Decision
from analytics_enabler.scheduling.model.jobs import Job, Placement, critical_path_ms
from analytics_enabler.scheduling.model.snapshot import Fog
from analytics_enabler.scheduling.sandbox.guard import LIMIT_S
from analytics_enabler.scheduling.sandbox.validation import violations
from analytics_enabler.simulation.topology import generated_tiers
from analytics_enabler.simulation.workload import simulated_jobs
from mistbow.errors import InvalidRequestError
from tests.analytics_enabler.scheduling import build


def decide(fog: Fog, *jobs: Job, current: Placement | None = None, **settings: str) -> Decision:
    scheduler = Latency()
    scheduler.prepare(settings)
    return scheduler.schedule(jobs, fog, current or Placement())


def nodes(decision: Decision) -> dict[str, str]:
    return {at.task: at.node for at in decision.placement.assignments}


def test_merge_minimizes_critical_path() -> None:
    # edge1 is 10 ms from edge2, and is the sink.
    job = build.over_sites(sink="edge1")
    assert nodes(decide(build.city(), job))["merge"] == "edge1"


def test_task_without_capacity_goes_to_next_best_node() -> None:
    job = build.job(
        "q",
        build.task("data", "edge2"),
        build.task("merge", memory_mb=1800),
        streams="data>merge",
        sink="edge2",
    )
    decision = decide(build.city(), job)
    assert nodes(decision) == {"data": "edge2", "merge": "edge1"}
    (refusal,) = decision.refusals
    assert (refusal.node, refusal.reason) == ("edge2", "1800 MB of memory needed, 1536 free")


def star(to_a: float, to_b: float) -> Fog:
    """Return a fog of a small node ``edge``, and two nodes a and b that are linked to ``edge``.

    ``to_a``, ``to_b``: the latency (ms) from ``edge`` to a, and to b.
    """
    small = build.node("edge", cores=1)
    links = {("edge", "a"): to_a, ("edge", "b"): to_b}
    return build.fog(small, build.node("a"), build.node("b"), links=links)


BESIDE = build.job(
    "q", build.task("data", "edge"), build.task("merge"), streams="data>merge", sink="edge"
)


@pytest.mark.parametrize(
    ("to_b", "settings", "merge"),
    [
        (19, {}, "a"),
        (17, {}, "b"),
        (17, {"min_gain_ms": "7"}, "a"),
        (19, {"margin": "0"}, "a"),
        (19, {"margin": "0", "min_gain_ms": "2"}, "b"),
        (17, {"margin": "0.5"}, "a"),
        (20, {"margin": "0", "min_gain_ms": "0"}, "a"),
    ],
)
def test_running_task_moves_only_for_gain_above_both_bounds(
    to_b: float, settings: dict[str, str], merge: str
) -> None:
    current = build.placed(q_data="edge", q_merge="a")
    decision = decide(star(20, to_b), BESIDE, current=current, **settings)
    assert nodes(decision)["merge"] == merge


def test_running_task_leaves_a_lossy_link() -> None:
    fog = star(20, 30)
    lossy = [
        msgspec.structs.replace(link, loss=0.1) if "a" in (link.source, link.target) else link
        for link in fog.links
    ]
    fog = msgspec.structs.replace(fog, links=tuple(lossy))
    decision = decide(fog, BESIDE, current=build.placed(q_data="edge", q_merge="a"))
    assert nodes(decision)["merge"] == "b"


def test_job_that_stays_moves_only_if_it_must() -> None:
    job = msgspec.structs.replace(BESIDE, stays=True)
    current = build.placed(q_data="edge", q_merge="a")
    assert nodes(decide(star(90, 1), job, current=current))["merge"] == "a"
    lost = build.placed(q_data="edge", q_merge="lost")
    assert nodes(decide(star(90, 1), job, current=lost))["merge"] == "b"


def test_lost_node_moves_only_its_tasks() -> None:
    job = build.job(
        "q",
        build.task("data", "edge"),
        build.task("one"),
        build.task("two"),
        streams="data>one one>two",
        sink="edge",
    )
    current = build.placed(q_data="edge", q_one="lost", q_two="b")
    after = nodes(decide(star(20, 20), job, current=current))
    assert after == {"data": "edge", "one": "b", "two": "b"}


def test_returning_site_is_placed_without_moving_others() -> None:
    job = build.over_sites()
    current = build.placed(**{"q_at-edge1": "edge1", "q_merge": "cloud2"})
    after = nodes(decide(build.city(), job, current=current))
    assert after == {"at-edge1": "edge1", "at-edge2": "edge2", "merge": "cloud2"}


def test_unmeasured_links_are_last_choice() -> None:
    fog = build.fog(
        build.node("edge", cores=1),
        build.node("a-mystery"),
        build.node("far"),
        links={("edge", "far"): 5000},
    )
    assert nodes(decide(fog, BESIDE))["merge"] == "far"
    nothing_known = Fog(fog.nodes, ())
    assert set(nodes(decide(nothing_known, BESIDE))) == {"data", "merge"}


def test_equally_fast_nodes_are_ranked_by_load() -> None:
    jobs = [build.over_sites(f"q{number}", "edge1") for number in range(2)]
    merges = [
        at.node for at in decide(build.city(), *jobs).placement.assignments if at.task == "merge"
    ]
    assert sorted(merges) == ["cloud1", "cloud2"]


def test_job_yields_only_node_of_another_job() -> None:
    # Placed first, "a" would use edge1, the only candidate of "b".
    fog = build.fog(
        build.node("edge1", cores=1), build.node("cloud"), links={("edge1", "cloud"): 20}
    )
    jobs = [
        build.job("a", build.task("t"), sink="edge1"),
        build.job("b", build.task("t", labels={"node": "edge1"}), sink="edge1"),
    ]
    evenly = Fair().schedule(tuple(jobs), fog, Placement())
    placed = decide(fog, *jobs).placement
    assert len(placed.assignments) == len(evenly.placement.assignments) == 2


@pytest.mark.parametrize("margin", ["-0.1", "1", "nan", "much"])
def test_margin_out_of_range_is_rejected(margin: str) -> None:
    with pytest.raises(InvalidRequestError, match="margin"):
        Latency().prepare({"margin": margin})


def large(sites: int) -> tuple[Fog, Job]:
    """Return a ring of sites, and a job with a partial at each site and a tree of merges."""
    names = [f"s{number}" for number in range(sites)]
    machines = [build.node(f"{site}-{n}", site) for site in names for n in range(2)]
    links = dict.fromkeys(zip(names, names[1:] + names[:1], strict=True), 10.0)
    partials = [build.task(f"at-{site}", site) for site in names]
    groups = [build.task(f"group{number}") for number in range(sites // 5)]
    streams = [f"at-s{number}>group{number // 5}" for number in range(sites)]
    streams += [f"{group.id}>merge" for group in groups]
    tasks = [*partials, *groups, build.task("merge")]
    return build.fog(*machines, links=links), build.job(
        "q", *tasks, streams=" ".join(streams), sink="s0"
    )


@pytest.mark.parametrize("sites", [20, 50])
def test_large_job_gets_good_placement_in_time(sites: int) -> None:
    fog, job = large(sites)
    begin = time.process_time()
    decision = decide(fog, job)
    assert time.process_time() - begin < LIMIT_S
    assert violations(decision, [job], fog) == []
    fair = Fair().schedule((job,), fog, Placement())
    # No placement shortens the distance of the farthest site.
    farthest = sites // 2 * 10
    assert critical_path_ms(job, decision.placement, fog) == farthest
    assert critical_path_ms(job, fair.placement, fog) > farthest


def test_many_jobs_on_many_nodes_are_placed_in_time() -> None:
    places, work = (np.random.default_rng([1, part]) for part in range(2))
    topology = generated_tiers(1000, places)
    fog = Fog(topology.nodes, topology.links)
    fog.latency_ms("cloud", "cloud")  # the paths between all sites are not part of the measurement
    jobs = simulated_jobs(topology, 530, "latency", work)
    assert sum(len(job.tasks) for job in jobs) > 780
    begin = time.process_time()
    decision = decide(fog, *jobs)
    assert time.process_time() - begin < 2
    assert violations(decision, jobs, fog) == []
