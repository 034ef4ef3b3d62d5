from analytics_enabler.scheduling.builtin.fair import Fair
from analytics_enabler.scheduling.interface import Decision
from analytics_enabler.scheduling.model.jobs import Job, Placement
from analytics_enabler.scheduling.model.snapshot import Fog
from tests.analytics_enabler.scheduling import build

FOUR = [build.task(f"t{number}") for number in range(4)]


def decide(fog: Fog, *jobs: Job, current: Placement | None = None) -> Decision:
    scheduler = Fair()
    scheduler.prepare({})
    return scheduler.schedule(jobs, fog, current or Placement())


def nodes(decision: Decision) -> dict[str, str]:
    return {at.task: at.node for at in decision.placement.assignments}


def reasons(decision: Decision) -> set[tuple[str, str | None, str]]:
    return {(refusal.task, refusal.node, refusal.reason) for refusal in decision.refusals}


def test_load_is_relative_to_capacity_of_node() -> None:
    fog = build.fog(build.node("large", cores=6, memory_mb=1e5), build.node("small", cores=2))
    assert sorted(nodes(decide(fog, build.job("q", *FOUR))).values()) == [
        "large",
        "large",
        "large",
        "small",
    ]


def test_load_includes_other_processes() -> None:
    fog = build.fog(build.node("busy", cores=8, cores_free=3), build.node("idle", cores=8))
    assert set(nodes(decide(fog, build.job("q", *FOUR))).values()) == {"idle"}


def test_lost_node_moves_only_its_tasks() -> None:
    job = build.job("q", *FOUR)
    before = build.placed(q_t0="a", q_t1="b", q_t2="c", q_t3="a")
    fog = build.fog(build.node("a"), build.node("b"))
    assert nodes(decide(fog, job, current=before)) == {"t0": "a", "t1": "b", "t2": "b", "t3": "a"}


def test_tasks_of_a_lost_node_start_on_several_nodes() -> None:
    job = build.job("q", *(build.task(f"t{number}", cores=0.1) for number in range(4)))
    before = build.placed(q_t0="lost", q_t1="lost", q_t2="a", q_t3="a")
    # Both nodes have room, and a is slightly fuller than b.
    fog = build.fog(build.node("a", memory_mb=1e5), build.node("b", memory_mb=1e5))
    after = nodes(decide(fog, job, current=before))
    assert after == {"t0": "b", "t1": "a", "t2": "a", "t3": "a"}


def test_no_other_task_moves_while_the_tasks_of_a_lost_node_start() -> None:
    jobs = [
        build.job("q", build.task("l1", cores=0.6), build.task("l2", cores=0.6)),
        build.job("r", build.task("x", cores=0.2)),
        build.job("s", build.task("y", cores=1.32)),
        build.job("u", build.task("z", cores=0.6)),
    ]
    before = build.placed(q_l1="lost", q_l2="lost", r_x="b", s_y="b", u_z="a")
    fog = build.fog(
        build.node("a", cores=4, memory_mb=1e5), build.node("b", cores=4, memory_mb=1e5)
    )
    after = nodes(decide(fog, *jobs, current=before))
    assert after == {"l1": "a", "l2": "b", "x": "b", "y": "b", "z": "a"}


def test_new_node_receives_tasks_but_small_gain_moves_none() -> None:
    job = build.job("q", *FOUR)
    all_on_a = build.placed(q_t0="a", q_t1="a", q_t2="a", q_t3="a")
    fog = build.fog(build.node("a"), build.node("b"))
    after = decide(fog, job, current=all_on_a)
    assert sorted(nodes(after).values()) == ["a", "a", "b", "b"]
    slightly_uneven = build.placed(q_t0="a", q_t1="a", q_t2="a", q_t3="b")
    large = build.fog(*(build.node(name, cores=40, memory_mb=1e5) for name in "ab"))
    uneven = decide(large, job, current=slightly_uneven)
    assert nodes(uneven) == {"t0": "a", "t1": "a", "t2": "a", "t3": "b"}


def test_tasks_run_at_their_site_and_label() -> None:
    job = build.job(
        "q",
        build.task("local", "edge2"),
        build.task("racked", labels={"rack": "7"}),
        build.task("northern", labels={"region": "north"}),
    )
    assert nodes(decide(build.city(), job)) == {
        "local": "edge2",
        "racked": "edge1",
        "northern": "edge1",
    }


def test_lost_site_does_not_prevent_other_tasks() -> None:
    decision = decide(build.city(), build.over_sites("q", "edge1", "edge3"))
    assert set(nodes(decision)) == {"at-edge1", "merge"}
    assert reasons(decision) == {("at-edge3", None, "no node with site=edge3")}


def test_job_without_capacity_is_refused_with_reasons() -> None:
    job = build.job(
        "q",
        build.task("small", "edge1"),
        build.task("wide", labels={"site": "cloud"}, cores=9),
        build.task("large", labels={"node": "edge1"}, memory_mb=3000),
        build.task("racked", labels={"rack": "8"}, clock_mhz=2000),
        streams="small>wide",
    )
    decision = decide(build.city(), job)
    assert decision.placement == Placement()
    assert reasons(decision) == {
        ("small", None, "not enough capacity for the whole job"),
        ("wide", "cloud1", "9 cores needed, 8 free"),
        ("wide", "cloud2", "9 cores needed, 8 free"),
        ("large", "edge1", "3000 MB of memory needed, 2048 free"),
        ("racked", None, "no node with rack=8, 2000 MHz"),
    }


def test_job_without_data_is_not_placed() -> None:
    decision = decide(build.city(), build.over_sites("q", "edge3", "edge4"))
    assert decision.placement == Placement()


def test_running_jobs_precede_new_ones() -> None:
    one = build.fog(build.node("n", cores=1))
    jobs = [build.job(name, build.task("t")) for name in ("first", "second")]
    decision = decide(one, *jobs, current=build.placed(second_t="n"))
    assert [at.job for at in decision.placement.assignments] == ["second"]
