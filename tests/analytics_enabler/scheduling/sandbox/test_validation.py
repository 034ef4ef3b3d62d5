import pytest

from analytics_enabler.scheduling.interface import Decision
from analytics_enabler.scheduling.model.jobs import Assignment, Placement, Refusal
from analytics_enabler.scheduling.sandbox.validation import violations
from tests.analytics_enabler.scheduling import build

GOOD = {"q_data": "edge1", "q_merge": "cloud1"}
JOB = build.job(
    "q",
    build.task("data", "edge1", cores=2, clock_mhz=0),
    build.task("merge", labels={"site": "cloud"}, cores=5),
    streams="data>merge",
)


def shared(**shares: float) -> Placement:
    """Return the placement ``GOOD``, but with the merge divided among nodes.

    ``shares``: node -> share of the merge. A final ``_`` is not part of the name, so a node can
    occur twice.
    """
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
def test_valid_decision_has_no_violations(decision: Decision) -> None:
    assert violations(decision, [JOB], build.city()) == []


@pytest.mark.parametrize(
    ("decision", "fault"),
    [
        (Decision(build.placed(**GOOD, q_more="cloud1")), "q/more is not a task"),
        (
            Decision(build.placed(q_data="edge1", q_merge="moon")),
            "q/merge on moon: there is no such node",
        ),
        (
            Decision(build.placed(q_data="edge2", q_merge="cloud1")),
            "q/data on edge2: the task's data is at edge1",
        ),
        (
            Decision(build.placed(q_data="edge1", q_merge="edge1")),
            "q/merge on edge1: the node is not labelled site=cloud",
        ),
        (
            Decision(shared(cloud1=0.5)),
            "q/merge: the nodes' shares do not add up to 1",
        ),
        (
            Decision(shared(cloud1=2, cloud2=-1)),
            "q/merge on cloud1: the node's share must be above 0 and at most 1 (got 2)",
        ),
        (Decision(shared(cloud1=0.5, cloud1_=0.5)), "q/merge is twice on the same node"),
        (
            Decision(build.placed(q_data="edge1"), refused("merge")),
            "q/merge is not placed, but other tasks of its job are",
        ),
        (
            Decision(build.placed(q_merge="cloud1")),
            "q/data is not placed, and has no refusal",
        ),
        (Decision(Placement()), "q is not placed, and has no refusal"),
        (Decision(build.placed(**GOOD), refused("other")), "q/other is refused, but is not a task"),
    ],
)
def test_invalid_decision_has_violation(decision: Decision, fault: str) -> None:
    assert fault in violations(decision, [JOB], build.city())


def test_overcommitted_node_is_violation() -> None:
    jobs = [JOB, build.job("r", build.task("t", cores=4))]
    crowded = Decision(build.placed(**GOOD, r_t="cloud1"))
    assert violations(crowded, jobs, build.city()) == [
        "cloud1 has not enough cores or memory free for the tasks placed on it"
    ]
    # A node with a share of the input allocates that share of the demand.
    eased = shared(cloud1=0.8, cloud2=0.2).assignments + build.placed(r_t="cloud1").assignments
    assert violations(Decision(Placement(eased)), jobs, build.city()) == []


def checking(checked: float) -> Decision:
    """Return a decision that checks a share of the points that ``data`` reads on edge1."""
    data = Assignment(job="q", task="data", node="edge1", checked=checked)
    return Decision(Placement((data,)))


def test_checks_of_points_need_cores() -> None:
    # All checks need one of the two cores of edge1, and the task itself 1.5.
    task = build.task("data", "edge1", cores=1.5, points_per_s=1000, check_core_s=0.001)
    job = build.job("q", task)
    assert violations(checking(0.5), [job], build.city()) == []
    assert violations(checking(0.6), [job], build.city()) == [
        "edge1 has not enough cores or memory free for the tasks placed on it"
    ]
    assert violations(checking(1.1), [job], build.city()) == [
        "q/data on edge1: the share of checked points must be from 0 to 1 (got 1.1)"
    ]
