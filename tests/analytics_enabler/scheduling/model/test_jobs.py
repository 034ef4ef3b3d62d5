import pytest

from analytics_enabler.scheduling.model.jobs import Assignment, Placement, critical_path_ms
from tests.analytics_enabler.scheduling import build


def test_tasks_are_in_topological_order() -> None:
    job = build.job("q", *map(build.task, "abcd"), streams="d>c c>b a>b")
    assert [task.id for task in job.in_order] in (["a", "d", "c", "b"], ["d", "c", "a", "b"])
    assert job.inputs["b"] == {"a": 1000, "c": 1000}


@pytest.mark.parametrize(
    ("streams", "why"),
    [("a>b b>a", "cycle"), ("a>a", "cycle"), ("a>z", "unknown task z")],
)
def test_job_rejects_cycle_and_unknown_task(streams: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        build.job("q", build.task("a"), build.task("b"), streams=streams)


def test_critical_path_is_slowest_path_to_sink() -> None:
    job = build.over_sites()
    at = {"q_at-edge1": "edge1", "q_at-edge2": "edge2"}
    assert critical_path_ms(job, build.placed(**at, q_merge="cloud1"), build.city()) == 30
    # edge2 → edge1 → cloud is the best way from edge2 anyhow.
    assert critical_path_ms(job, build.placed(**at, q_merge="edge1"), build.city()) == 30
    assert critical_path_ms(job, build.placed(**at, q_merge="edge2"), build.city()) == 40


def test_critical_path_includes_slowest_node_of_task() -> None:
    job = build.job("q", build.task("t", "edge1"), sink="edge1")
    placement = Placement(
        tuple(Assignment(job="q", task="t", node=node, share=0.5) for node in ("edge1", "edge2"))
    )
    assert critical_path_ms(job, placement, build.city()) == 20
