import pytest

from mistbow.fog.jobs import Assignment, Placement, critical_path_ms
from tests.schedulers import build


def test_tasks_come_after_what_they_read() -> None:
    job = build.job("q", *map(build.task, "abcd"), streams="d>c c>b a>b")
    assert [task.id for task in job.in_order] in (["a", "d", "c", "b"], ["d", "c", "a", "b"])
    assert job.inputs["b"] == {"a": 1000, "c": 1000}


@pytest.mark.parametrize(
    ("streams", "why"),
    [("a>b b>a", "cycle"), ("a>a", "cycle"), ("a>z", "unknown task z")],
)
def test_streams_lead_somewhere_and_not_back(streams: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        build.job("q", build.task("a"), build.task("b"), streams=streams)


def test_the_critical_path_is_the_slowest_way_to_the_sink() -> None:
    job = build.over_sites()
    at = {"q_at-edge1": "edge1", "q_at-edge2": "edge2"}
    assert critical_path_ms(job, build.placed(**at, q_merge="cloud1"), build.city()) == 30
    # edge2 → edge1 → cloud is the best way from edge2 anyhow.
    assert critical_path_ms(job, build.placed(**at, q_merge="edge1"), build.city()) == 30
    assert critical_path_ms(job, build.placed(**at, q_merge="edge2"), build.city()) == 40


def test_the_slowest_of_a_tasks_nodes_counts() -> None:
    job = build.job("q", build.task("t", "edge1"), sink="edge1")
    placement = Placement(
        tuple(Assignment(job="q", task="t", node=node, share=0.5) for node in ("edge1", "edge2"))
    )
    assert critical_path_ms(job, placement, build.city()) == 20
