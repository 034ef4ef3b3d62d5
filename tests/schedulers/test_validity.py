import pytest

from mistbow.fog.jobs import Assignment, Placement, Refusal
from mistbow.schedulers.interface import Decision
from mistbow.schedulers.validity import faults
from tests.schedulers import build

GOOD = {"q_data": "edge1", "q_merge": "cloud1"}
JOB = build.job(
    "q",
    build.task("data", "edge1", cores=2, clock_mhz=0),
    build.task("merge", labels={"site": "cloud"}, cores=5),
    streams="data>merge",
)


def shared(**shares: float) -> Placement:
    """Return the good placement but for the shares of the nodes that run the merge."""
    merge = [
        Assignment(job="q", task="merge", node=node.rstrip("_"), share=share)
        for node, share in shares.items()
    ]
    return Placement((Assignment(job="q", task="data", node="edge1"), *merge))


def refused(*tasks: str) -> tuple[Refusal, ...]:
    return tuple(Refusal(job="q", task=task, reason="so it is") for task in tasks)


@pytest.mark.parametrize(
    "decision",
    [
        Decision(build.placed(**GOOD)),
        Decision(shared(cloud1=0.3, cloud2=0.7)),
        Decision(build.placed(q_merge="cloud2"), refused("data")),
        Decision(Placement(), refused("data")),
    ],
)
def test_what_can_be_carried_out_has_no_faults(decision: Decision) -> None:
    assert faults(decision, [JOB], build.city()) == []


@pytest.mark.parametrize(
    ("decision", "fault"),
    [
        (Decision(build.placed(**GOOD, q_more="cloud1")), "q/more is no task"),
        (
            Decision(build.placed(q_data="edge1", q_merge="moon")),
            "q/merge on moon: there is no such node",
        ),
        (
            Decision(build.placed(q_data="edge2", q_merge="cloud1")),
            "q/data on edge2: its data is at edge1",
        ),
        (
            Decision(build.placed(q_data="edge1", q_merge="edge1")),
            "q/merge on edge1: it has not site=cloud",
        ),
        (
            Decision(shared(cloud1=0.5)),
            "q/merge: the nodes' shares do not add up to 1",
        ),
        (Decision(shared(cloud1=2, cloud2=-1)), "q/merge on cloud1: a share of 2"),
        (Decision(shared(cloud1=0.5, cloud1_=0.5)), "q/merge is twice on the same node"),
        (
            Decision(build.placed(q_data="edge1"), refused("merge")),
            "q/merge is not placed, but others of its job are",
        ),
        (
            Decision(build.placed(q_merge="cloud1")),
            "q/data is not placed, and no refusal says why",
        ),
        (Decision(Placement()), "q is not placed, and no refusal says why"),
        (Decision(build.placed(**GOOD), refused("other")), "q/other is refused, and is no task"),
    ],
)
def test_nonsense_is_named(decision: Decision, fault: str) -> None:
    assert fault in faults(decision, [JOB], build.city())


def test_no_node_has_more_than_it_has_free() -> None:
    jobs = [JOB, build.job("r", build.task("t", cores=4))]
    crowded = Decision(build.placed(**GOOD, r_t="cloud1"))
    assert faults(crowded, jobs, build.city()) == [
        "cloud1 has not the cores or memory for what is placed on it"
    ]
    # A node that has a share of the input has that share of the needs.
    eased = shared(cloud1=0.8, cloud2=0.2).assignments + build.placed(r_t="cloud1").assignments
    assert faults(Decision(Placement(eased)), jobs, build.city()) == []
