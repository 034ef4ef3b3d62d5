"""Nodes that may use their own site only get no tasks of other sites."""

from analytics_enabler.scheduling.builtin.capacity import refusals
from analytics_enabler.scheduling.builtin.eligibility import eligible_nodes, ineligibility
from analytics_enabler.scheduling.model.jobs import Job, Placement, Task
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


def test_refusal_names_the_sites_that_no_node_may_use() -> None:
    merge = Task(id="merge", cores=0, memory_mb=0, sites=("cloud", "edge"))
    job = Job(id="q", tasks=(merge,), scheduler="fair", sink="cloud")
    [refusal] = refusals([job], FOG.with_nodes([FOG.by_name["edge"]]), Placement())
    assert refusal.node is None
    assert refusal.reason == "there is no node that may use the sites cloud, edge"


def test_refusal_for_another_reason_does_not_name_sites() -> None:
    task = Task(id="merge", cores=0, memory_mb=0, labels={"gpu": "yes"}, sites=("cloud", "edge"))
    job = Job(id="q", tasks=(task,), scheduler="fair", sink="cloud")
    [refusal] = refusals([job], FOG, Placement())
    assert refusal.reason == "no node with gpu=yes"
