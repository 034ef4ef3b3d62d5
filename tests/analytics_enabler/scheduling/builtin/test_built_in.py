"""Properties of the decisions of all built-in schedulers."""

import itertools
import math
from collections.abc import Callable

import pytest
from hypothesis import given

from analytics_enabler.scheduling.builtin.cost import Cost
from analytics_enabler.scheduling.builtin.energy import Energy
from analytics_enabler.scheduling.builtin.fair import Fair
from analytics_enabler.scheduling.builtin.latency import Latency
from analytics_enabler.scheduling.builtin.quality import Quality
from analytics_enabler.scheduling.interface import Decision, Scheduler
from analytics_enabler.scheduling.model.jobs import Assignment, Job, Placement, critical_path_ms
from analytics_enabler.scheduling.model.snapshot import Fog
from analytics_enabler.scheduling.sandbox.validation import violations
from tests.analytics_enabler.scheduling import build

NOWHERE = Placement()


SCHEDULERS: dict[str, Callable[[], Scheduler]] = {
    "fair": Fair,
    "latency": Latency,
    "energy": Energy,
    "cost": Cost,
    "quality": Quality,
}


def decide(name: str, jobs: tuple[Job, ...], fog: Fog, current: Placement = NOWHERE) -> Decision:
    scheduler = SCHEDULERS[name]()
    scheduler.prepare({})
    return scheduler.schedule(jobs, fog, current)


def cost(jobs: tuple[Job, ...], fog: Fog, placement: Placement) -> tuple[int, float]:
    """Return the cost of a placement: (unplaced tasks, sum of the critical paths in ms)."""
    missing = sum(len(job.tasks) for job in jobs) - len(placement.by_task)
    return missing, sum(critical_path_ms(job, placement, fog) for job in jobs)


def brute_force(job: Job, fog: Fog) -> tuple[int, float]:
    """Return the minimum ``cost`` of all valid placements of a job."""
    choices = [[None, *fog.by_name] for _ in job.tasks]
    costs = [(len(job.tasks), 0.0)]
    refused = decide("fair", (job,), Fog(())).refusals
    pinned = [task for task in job.tasks if task.pinned]
    for nodes in itertools.product(*choices):
        at = {
            f"{job.id}_{task.id}": node for task, node in zip(job.tasks, nodes, strict=True) if node
        }
        placement = build.placed(**at)
        useful = not pinned or any((job.id, task.id) in placement.by_task for task in pinned)
        if at and useful and not violations(Decision(placement, refused), (job,), fog):
            costs.append(cost((job,), fog, placement))
    return min(costs)


def shuffled(fog: Fog, jobs: tuple[Job, ...]) -> tuple[Fog, tuple[Job, ...]]:
    other = [
        Job(
            id=job.id,
            tasks=job.tasks[::-1],
            streams=job.streams[::-1],
            scheduler=job.scheduler,
            sink=job.sink,
        )
        for job in jobs[::-1]
    ]
    return Fog(fog.nodes[::-1], fog.links[::-1]), tuple(other)


@pytest.mark.parametrize("name", SCHEDULERS)
@given(fog=build.fogs(), later=build.fogs(), jobs=build.several_jobs())
def test_decision_is_valid_and_deterministic(
    name: str, fog: Fog, later: Fog, jobs: tuple[Job, ...]
) -> None:
    first = decide(name, jobs, fog)
    assert violations(first, jobs, fog) == []
    # Later, other nodes are alive or have other free capacity.
    second = decide(name, jobs, later, first.placement)
    assert violations(second, jobs, later) == []
    other_fog, other_jobs = shuffled(later, jobs)
    other = decide(name, other_jobs, other_fog, Placement(first.placement.assignments[::-1]))
    assert other.placement == second.placement
    assert set(other.refusals) == set(second.refusals)


@pytest.mark.parametrize("name", SCHEDULERS)
@given(fog=build.fogs(), jobs=build.several_jobs())
def test_running_tasks_stay(name: str, fog: Fog, jobs: tuple[Job, ...]) -> None:
    current = decide(name, jobs, fog).placement
    again = decide(name, jobs, fog, current).placement
    if len(current.by_task) == sum(len(job.tasks) for job in jobs):
        assert again == current
    for job in jobs:
        assert len(again.of([job]).by_task) >= len(current.of([job]).by_task)


@given(fog=build.fogs(), jobs=build.several_jobs())
def test_latency_is_never_worse_than_fair(fog: Fog, jobs: tuple[Job, ...]) -> None:
    ours = cost(jobs, fog, decide("latency", jobs, fog).placement)
    fair = cost(jobs, fog, decide("fair", jobs, fog).placement)
    assert ours[0] <= fair[0]
    assert ours[0] < fair[0] or ours[1] <= fair[1] + 1e-6


@given(fog=build.fogs(), job=build.jobs("j"))
def test_latency_finds_the_shortest_critical_path(fog: Fog, job: Job) -> None:
    missing, path = cost((job,), fog, decide("latency", (job,), fog).placement)
    best_missing, best_path = brute_force(job, fog)
    assert missing == best_missing
    assert path == pytest.approx(best_path) or math.isinf(best_path)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_suspected_node_keeps_its_tasks_and_gets_no_others(name: str) -> None:
    fog = build.fog(
        build.node("a", suspected=True), build.node("b", cores=1), links={("a", "b"): 10}
    )
    running, new = build.job("running", build.task("t")), build.job("new", build.task("t"))
    current = build.placed(running_t="a")
    decision = decide(name, (running, new), fog, current)
    assert {at.job: at.node for at in decision.placement.assignments} == {
        "running": "a",
        "new": "b",
    }
    reasons = {refusal.reason for refusal in decision.refusals if refusal.job == "new"}
    assert any("may have failed" in reason for reason in reasons)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_of_two_equal_nodes_the_one_with_fewer_failures_is_preferred(name: str) -> None:
    fog = build.fog(
        build.node("a", "s", reliability=0.5), build.node("b", "s"), links={("s", "cloud"): 10}
    )
    job = build.job("q", build.task("t"))
    chosen = decide(name, (job,), fog).placement
    assert [at.node for at in chosen.assignments] == ["b"]
    # A task that runs does not move for this alone.
    before = build.placed(q_t="a")
    assert decide(name, (job,), fog, before).placement == before


def crowded() -> Fog:
    """Return a fog where a new job must not take the near node ``x``, which another one needs."""
    return build.fog(
        build.node("a"),
        build.node("b"),
        build.node("x", cores=2),
        links={("a", "cloud"): 10, ("b", "cloud"): 13, ("x", "cloud"): 1, ("z", "cloud"): 50},
    )


@pytest.mark.parametrize("name", [name for name in SCHEDULERS if name != "fair"])
@pytest.mark.parametrize("stays", [False, True])
def test_running_task_stays_when_new_jobs_are_placed_again(name: str, stays: bool) -> None:
    """The first new job would take the capacity of the second one, so both are placed again."""
    fog = crowded()
    if stays:
        # A gain that would pay for the move of a job that was not moved recently.
        far = [each for each in fog.links if "b" not in (each.source, each.target)]
        fog = Fog(fog.nodes, (*far, *build.link("b", "cloud", 60)))
    running = build.job("r", build.task("t"), stays=stays)
    first, second = build.job("n1", build.task("t")), build.job("n2", build.task("t", "x", cores=2))
    current = build.placed(r_t="b")
    placement = decide(name, (running, first, second), fog, current).placement
    found = {at.job: at.node for at in placement.assignments}
    assert (found["r"], found["n2"]) == ("b", "x")
    assert found["n1"] != "x"


def remote(sink: str = "edge2", cores: float = 0.1, readable: bool = True) -> Job:
    """Return a job whose partial reads the points of the site ``far``, which has no node."""
    partial = build.task("at-far", "far", remotely_readable=readable, cores=cores)
    merge = build.task("merge", cores=0.1)
    return build.job("q", partial, merge, streams="at-far>merge", sink=sink)


def far_from_city(near: str = "edge2") -> Fog:
    """Return the fog of ``build.city``, with links from the site ``far`` to all other sites."""
    city = build.city()
    latencies = {site: 5.0 if site == near else 60.0 for site in ("edge1", "edge2", "cloud")}
    links = [link for site, ms in latencies.items() for link in build.link("far", site, ms)]
    return Fog(city.nodes, (*city.links, *links))


def at_far(decision: Decision) -> str | None:
    assignments = decision.placement.by_task.get(("q", "at-far"), ())
    return next((at.node for at in assignments), None)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_nearest_node_reads_the_points_of_a_site_without_a_node(name: str) -> None:
    for near in ("edge1", "edge2"):
        fog, job = far_from_city(near), remote(sink=near)
        decision = decide(name, (job,), fog)
        assert violations(decision, (job,), fog) == []
        assert at_far(decision) == near


@pytest.mark.parametrize("name", SCHEDULERS)
def test_next_nearest_node_reads_if_the_nearest_is_full(name: str) -> None:
    fog = far_from_city("edge2")
    full = [
        build.node("edge2", cores=2, cores_free=0) if node.name == "edge2" else node
        for node in fog.nodes
    ]
    decision = decide(name, (remote(cores=1),), Fog(tuple(full), fog.links))
    assert at_far(decision) not in (None, "edge2")
    assert ("at-far", "edge2") in {(each.task, each.node) for each in decision.refusals}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_node_at_the_site_takes_over(name: str) -> None:
    city, job = far_from_city(), remote()
    running = decide(name, (job,), city).placement
    fog = Fog((*city.nodes, build.node("own", "far", cores=1)), city.links)
    decision = decide(name, (job,), fog, running)
    assert violations(decision, (job,), fog) == []
    assert at_far(decision) == "own"
    (found,) = [
        each
        for each in violations(Decision(running), (job,), fog)
        if "the task's data is at far, where own can run it" in each
    ]
    assert found.startswith("q/at-far on ")


@pytest.mark.parametrize("name", SCHEDULERS)
def test_points_that_nobody_can_read_are_refused_with_the_reason(name: str) -> None:
    fog = far_from_city()
    other = build.task("at-cloud", "cloud", remotely_readable=True)
    merge = build.task("merge")

    def decided(**more: object) -> Decision:
        job = build.job("q", build.task("at-far", "far", **more), other, merge)
        found = decide(name, (job,), fog)
        assert violations(found, (job,), fog) == []
        assert at_far(found) is None
        assert found.placement.by_task["q", "at-cloud"]
        return found

    cut, confined = decided(), decided(remotely_readable=True, labels={"rack": "9"})
    for decision, reason in ((cut, "no node with site=far"), (confined, "no node with rack=9")):
        reasons = {each.reason for each in decision.refusals if each.task == "at-far"}
        assert reasons == {reason}


def test_assignment_away_from_the_data_is_valid_only_if_they_can_be_read_there() -> None:
    fog = far_from_city()
    placement = Placement(
        tuple(
            Assignment(job="q", task=task, node=node)
            for task, node in (("at-far", "cloud1"), ("merge", "edge1"))
        )
    )
    assert violations(Decision(placement), (remote(),), fog) == []
    strict = violations(Decision(placement), (remote(readable=False),), fog)
    assert strict == ["q/at-far on cloud1: the task's data is at far"]


@pytest.mark.parametrize("name", SCHEDULERS)
def test_after_a_loss_only_the_lost_tasks_move(name: str) -> None:
    job = build.job(
        "q",
        build.task("data", "edge", cores=0.5),
        build.task("one", cores=0.1),
        build.task("two", cores=0.1),
        streams="data>one one>two",
        sink="edge",
    )
    # The task "two" would have a much shorter path on the node "near".
    fog = build.fog(
        *(build.node(node) for node in ("edge", "far", "near")),
        links={("edge", "far"): 500, ("edge", "near"): 1},
    )
    before = build.placed(q_data="edge", q_one="lost", q_two="far")
    after = decide(name, (job,), fog, before).placement
    assert violations(Decision(after), (job,), fog) == []
    assert after.by_task["q", "two"][0].node == "far"
    if name != "fair":
        later = decide(name, (job,), fog, after).placement
        assert later.by_task["q", "two"][0].node != "far"


@pytest.mark.parametrize("name", ["latency", "energy", "cost", "quality"])
@pytest.mark.parametrize(("to_b", "node"), [(1.0, "a"), (0.4, "b")])
def test_running_task_moves_only_for_a_gain_of_several_ms(
    name: str, to_b: float, node: str
) -> None:
    """The path to the sink and back takes 6 ms over a, and 2 ms or 0.8 ms over b."""
    job = build.job("q", build.task("t", "hub", remotely_readable=True), sink="hub", scheduler=name)
    fog = build.fog(build.node("a"), build.node("b"), links={("hub", "a"): 3.0, ("hub", "b"): to_b})
    placement = decide(name, (job,), fog, build.placed(q_t="a")).placement
    assert placement.by_task["q", "t"][0].node == node


@pytest.mark.parametrize("name", ["latency", "energy", "cost", "quality"])
def test_new_job_does_not_move_a_running_task_for_a_gain_of_few_ms(name: str) -> None:
    """The new job makes the scheduler place all jobs again, in several rounds."""
    task = build.task("t", "hub", remotely_readable=True)
    running, new = (build.job(each, task, sink="hub", scheduler=name) for each in ("q", "new"))
    fog = build.fog(build.node("a"), build.node("b"), links={("hub", "a"): 3.0, ("hub", "b"): 2.5})
    placement = decide(name, (running, new), fog, build.placed(q_t="a")).placement
    assert placement.by_task["q", "t"][0].node == "a"
    assert placement.by_task["new", "t"][0].node == "b"
