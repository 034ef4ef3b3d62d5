"""The changes since a decision: which parts differ, and which changes cannot wait."""

from msgspec.structs import replace

from analytics_enabler.scheduling.driver.changes import (
    FIGURES,
    changed_parts,
    has_unplaced,
    lacks_memory,
)
from analytics_enabler.scheduling.model.snapshot import Battery, Fog, Link, Node, SourceQuality
from tests.analytics_enabler.scheduling import build

JOB, CITY = build.over_sites("q"), build.city()


def test_measured_and_estimated_parts_are_figures() -> None:
    node, link = CITY.nodes[0], CITY.links[0]
    busy = replace(node, cores_free=1.0, memory_free_mb=10.0)
    charged = replace(node, battery=Battery(capacity_wh=2, charge_wh=1))
    slow = replace(link, latency_ms=99.0, loss=0.5, bandwidth_mbps=1.0)
    heavy = replace(JOB, tasks=(replace(JOB.tasks[0], cores=0.2), *JOB.tasks[1:]), stays=True)
    found = {
        part
        for jobs, fog in (
            ([JOB], _with_node(busy)),
            ([JOB], _with_node(charged)),
            ([JOB], _with_link(slow)),
            ([JOB], replace(CITY, sources=(SourceQuality(site="edge1", timeliness=0.5),))),
            ([heavy], CITY),
        )
        for part in changed_parts(([JOB], CITY), (jobs, fog))
    }
    assert found == FIGURES - {"positions"}


def test_set_of_nodes_their_limits_and_the_tasks_are_no_figures() -> None:
    node = CITY.nodes[0]
    scaled = replace(node, cores=node.cores + 1, cores_free=node.cores_free + 1)
    avoiding = replace(JOB, tasks=(replace(JOB.tasks[0], avoided=("edge1",)), *JOB.tasks[1:]))
    before = [JOB], CITY
    assert changed_parts(before, before) == set()
    assert changed_parts(before, ([JOB], _with_node(scaled))) == {"nodes", "cores"}
    suspected = _with_node(replace(node, suspected=True))
    assert changed_parts(before, ([JOB], suspected)) == {"nodes"}
    assert "links" in changed_parts(before, ([JOB], replace(CITY, links=CITY.links[1:])))
    assert changed_parts(before, ([avoiding], CITY)) == {"jobs"}


def test_task_is_unplaced_if_it_runs_nowhere_not_if_its_node_is_unreachable() -> None:
    placement = build.placed(q_merge="cloud1")
    on_edge1 = {"q": {"at-edge1": "edge1", "merge": "cloud1"}}
    assert has_unplaced([JOB], placement, on_edge1)
    on_edges = {"q": {**on_edge1["q"], "at-edge2": "edge2"}}
    assert not has_unplaced([JOB], placement, on_edges)


def test_task_that_is_not_placed_is_unplaced_on_a_drained_node() -> None:
    on_edges = {"q": {"at-edge1": "edge1", "at-edge2": "edge2", "merge": "cloud1"}}
    assert has_unplaced([JOB], build.placed(q_merge="cloud1"), on_edges, {"edge2"})
    moved = build.placed(**{"q_at-edge1": "edge1", "q_at-edge2": "edge1", "q_merge": "cloud1"})
    assert not has_unplaced([JOB], moved, on_edges, {"edge2"})


def test_node_lacks_memory_if_its_tasks_need_more() -> None:
    jobs = [JOB, build.over_sites("r")]
    placement = build.placed(q_merge="cloud1", r_merge="cloud1")
    for free_mb, lacks in ((1024, False), (1023, True)):
        fog = _with_node(replace(CITY.nodes[0], memory_free_mb=float(free_mb)))
        assert lacks_memory(jobs, fog, placement) is lacks


def _with_node(node: Node) -> Fog:
    return replace(CITY, nodes=(node, *CITY.nodes[1:]))


def _with_link(link: Link) -> Fog:
    return replace(CITY, links=(link, *CITY.links[1:]))
