import time

import pytest

from mistbow.errors import InvalidRequestError
from mistbow.fog.jobs import Job, Placement, critical_path_ms
from mistbow.fog.snapshot import Fog
from mistbow.schedulers.fair import Fair
from mistbow.schedulers.guard import LIMIT_S
from mistbow.schedulers.interface import Decision
from mistbow.schedulers.latency import Latency
from mistbow.schedulers.validity import faults
from tests.schedulers import build


def decide(
    fog: Fog, *jobs: Job, current: Placement | None = None, margin: str | None = None
) -> Decision:
    scheduler = Latency()
    scheduler.prepare({} if margin is None else {"margin": margin})
    return scheduler.schedule(jobs, fog, current or Placement())


def nodes(decision: Decision) -> dict[str, str]:
    return {at.task: at.node for at in decision.placement.assignments}


def test_the_merge_is_where_the_slowest_path_is_short() -> None:
    # At edge1 the way from edge2 is 10 ms, and the result is wanted there.
    job = build.over_sites(sink="edge1")
    assert nodes(decide(build.city(), job))["merge"] == "edge1"


def test_what_does_not_fit_there_goes_to_the_next_best() -> None:
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
    """Return a fog with data at "edge" and two nodes beside it that could work on it."""
    small = build.node("edge", cores=1)
    links = {("edge", "a"): to_a, ("edge", "b"): to_b}
    return build.fog(small, build.node("a"), build.node("b"), links=links)


BESIDE = build.job(
    "q", build.task("data", "edge"), build.task("merge"), streams="data>merge", sink="edge"
)


@pytest.mark.parametrize(
    ("to_b", "margin", "merge"),
    [
        (19, None, "a"),
        (17, None, "b"),
        (19, "0", "b"),
        (17, "0.5", "a"),
        (20, "0", "a"),
    ],
)
def test_only_a_clear_gain_moves_what_runs(to_b: float, margin: str | None, merge: str) -> None:
    current = build.placed(q_data="edge", q_merge="a")
    decision = decide(star(20, to_b), BESIDE, current=current, margin=margin)
    assert nodes(decision)["merge"] == merge


def test_a_lost_node_moves_only_what_it_ran() -> None:
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


def test_a_site_that_returns_is_taken_in_without_moving_the_rest() -> None:
    job = build.over_sites()
    current = build.placed(**{"q_at-edge1": "edge1", "q_merge": "cloud2"})
    after = nodes(decide(build.city(), job, current=current))
    assert after == {"at-edge1": "edge1", "at-edge2": "edge2", "merge": "cloud2"}


def test_links_that_are_not_known_are_the_last_choice() -> None:
    fog = build.fog(
        build.node("edge", cores=1),
        build.node("a-mystery"),
        build.node("far"),
        links={("edge", "far"): 5000},
    )
    assert nodes(decide(fog, BESIDE))["merge"] == "far"
    nothing_known = Fog(fog.nodes, ())
    assert set(nodes(decide(nothing_known, BESIDE))) == {"data", "merge"}


def test_among_equally_fast_places_the_emptier_is_taken() -> None:
    jobs = [build.over_sites(f"q{number}", "edge1") for number in range(2)]
    merges = [
        at.node for at in decide(build.city(), *jobs).placement.assignments if at.task == "merge"
    ]
    assert sorted(merges) == ["cloud1", "cloud2"]


def test_a_job_that_takes_anothers_only_place_makes_room() -> None:
    # Placed first, "a" would take edge1, the only node that "b" may have.
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
def test_a_margin_that_is_none_is_refused(margin: str) -> None:
    with pytest.raises(InvalidRequestError, match="margin"):
        Latency().prepare({"margin": margin})


def large(sites: int) -> tuple[Fog, Job]:
    """Return a ring of sites, and a job over all with a tree of merges."""
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
def test_a_job_too_large_for_an_exact_answer_gets_a_good_one_in_time(sites: int) -> None:
    fog, job = large(sites)
    begin = time.process_time()
    decision = decide(fog, job)
    assert time.process_time() - begin < LIMIT_S
    assert faults(decision, [job], fog) == []
    fair = Fair().schedule((job,), fog, Placement())
    # The farthest site is that far away whatever one does.
    farthest = sites // 2 * 10
    assert critical_path_ms(job, decision.placement, fog) == farthest
    assert critical_path_ms(job, fair.placement, fog) > farthest
