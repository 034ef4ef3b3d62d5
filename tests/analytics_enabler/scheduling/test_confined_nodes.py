"""Nodes that may use their own site only get no tasks of other sites."""

from analytics_enabler.scheduling.builtin.eligibility import eligible_nodes, ineligibility
from analytics_enabler.scheduling.model.jobs import Task
from analytics_enabler.scheduling.model.snapshot import Fog, Node


def node(name: str, site: str, *, own_site_only: bool) -> Node:
    return Node(
        name=name, site=site, cores=1, cores_free=1, memory_mb=9, memory_free_mb=9,
        own_site_only=own_site_only,
    )  # fmt: skip


FOG = Fog(
    nodes=(node("cloud", "cloud", own_site_only=False), node("edge", "edge", own_site_only=True))
)


def test_confined_node_is_eligible_for_tasks_of_its_site_only() -> None:
    merge = Task(id="merge", cores=0, memory_mb=0, sites=("cloud", "edge"))
    partial = Task(id="at-edge", cores=0, memory_mb=0, pinned="edge", sites=("edge",))
    assert eligible_nodes(merge, FOG) == ["cloud"]
    assert eligible_nodes(partial, FOG) == ["edge"]
    reason = ineligibility(merge, FOG.by_name["edge"], FOG)
    assert reason == "the node may not use other sites than edge"
