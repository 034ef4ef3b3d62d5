"""The desired fragments of each worker; the node of a merge learns of its orphaned partials."""

from dataclasses import dataclass, field

from analytics_enabler.execution.desired_fragments import desired_fragments
from analytics_enabler.execution.orphans import OrphanedTasks
from analytics_enabler.execution.worker_reconcilers import DesiredFragments
from analytics_enabler.fragments import MERGE, over_sites, partial_task, required_version
from analytics_enabler.groups import Group
from analytics_enabler.optimizer import optimize
from tests.analytics_enabler.support import plan_of

GROUP = Group(scope=None, scheduler="fair")
PLAN = optimize(plan_of("a = COMPUTE AVG(x) EVERY 1 s")).plan
TASKS = over_sites(
    GROUP, PLAN, required_version(PLAN, 0, ()), ("cloud", "edge"), "cloud", patience_ms=5000
)
AT_CLOUD, AT_EDGE = (partial_task(site) for site in ("cloud", "edge"))
PLACED = {MERGE: "w-merge", AT_CLOUD: "w-cloud", AT_EDGE: "w-edge"}


@dataclass
class Placed:
    """The status of placed tasks: task -> node; the tasks in ``inactive`` do not run there."""

    nodes: dict[str, str] = field(default_factory=lambda: dict(PLACED))
    inactive: frozenset[str] = frozenset()

    def node(self, group: Group, task: str) -> str | None:
        del group
        return self.nodes.get(task)

    def is_active(self, group: Group, task: str) -> bool:
        del group
        return task not in self.inactive


def desired(status: Placed, *orphaned: str) -> dict[str, DesiredFragments]:
    orphans = OrphanedTasks()
    lost = {GROUP.id: dict.fromkeys(orphaned, "dead")}
    orphans.observe({GROUP: TASKS}, lost, {"dead"}, lambda _: False)
    workers = ("w-merge", "w-cloud", "w-edge", "w-other")
    return desired_fragments(
        {GROUP: TASKS}, status, lambda _: {AT_EDGE: 0.5}, orphans, workers, ("cloud", "edge")
    )


def test_node_of_the_merge_and_the_next_node_of_a_partial_learn_that_the_partial_is_orphaned() -> (
    None
):
    found = desired(Placed(), AT_EDGE)
    edge = frozenset({TASKS[AT_EDGE].id})
    assert {name: each.orphaned for name, each in found.items()} == {
        "w-merge": edge, "w-cloud": frozenset(), "w-edge": edge, "w-other": frozenset(),
    }  # fmt: skip


def test_node_of_the_merge_learns_of_an_orphaned_partial_that_is_not_placed() -> None:
    nodes = {MERGE: "w-merge", AT_CLOUD: "w-cloud"}
    found = desired(Placed(nodes), AT_EDGE)
    assert found["w-merge"].orphaned == {TASKS[AT_EDGE].id}
    assert not found["w-edge"].fragments
    assert not desired(Placed({AT_EDGE: "w-edge"}), MERGE)["w-edge"].orphaned


def test_orphaned_merge_is_noted_by_its_next_node_alone() -> None:
    found = desired(Placed(inactive=frozenset({MERGE})), MERGE)
    assert [name for name, each in found.items() if each.orphaned] == ["w-merge"]


def test_worker_has_the_fragments_that_are_placed_on_it() -> None:
    found = desired(Placed(inactive=frozenset({MERGE})))
    assert {name: list(each.fragments) for name, each in found.items()} == {
        "w-merge": [TASKS[MERGE].id],
        "w-cloud": [TASKS[AT_CLOUD].id],
        "w-edge": [TASKS[AT_EDGE].id],
        "w-other": [],
    }
    assert found["w-edge"].checked == {TASKS[AT_EDGE].id: 0.5}
    # A former merge reads former versions of its partials.
    assert found["w-other"].retained == {(GROUP.id, "cloud"), (GROUP.id, "edge")}
    moving = {name: each.moving for name, each in found.items()}
    assert moving == {name: {TASKS[MERGE].id} - {*found[name].fragments} for name in found}
    assert not any(each.retained for each in desired(Placed()).values())
