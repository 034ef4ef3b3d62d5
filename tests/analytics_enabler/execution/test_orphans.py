"""The tasks whose last worker is dead."""

from analytics_enabler.execution.orphans import OrphanedTasks
from analytics_enabler.fragments import WHOLE, whole
from analytics_enabler.groups import Group
from tests.analytics_enabler.support import plan_of

GROUP = Group(scope="s", scheduler="fair")
TASKS = {GROUP: whole(GROUP, plan_of("a = COMPUTE AVG(x) EVERY 1 s"), "s")}


def on(node: str) -> dict[str, dict[str, str]]:
    return {GROUP.id: {WHOLE: node}}


def test_task_of_a_dead_worker_is_orphaned_until_a_worker_writes_it() -> None:
    orphans, written = OrphanedTasks(), set[str]()
    orphans.observe(TASKS, on("w1"), {"w2"}, written.__contains__)
    assert not orphans.has(GROUP, WHOLE)
    orphans.observe(TASKS, on("w1"), {"w1"}, written.__contains__)
    assert orphans.has(GROUP, WHOLE)
    orphans.observe(TASKS, on("w2"), {"w1"}, written.__contains__)
    assert orphans.has(GROUP, WHOLE), "no worker runs it yet"
    written.add(TASKS[GROUP][WHOLE].id)
    orphans.observe(TASKS, on("w2"), {"w1"}, written.__contains__)
    assert not orphans.has(GROUP, WHOLE)
    written.clear()
    orphans.observe(TASKS, on("w2"), {"w1"}, written.__contains__)
    assert not orphans.has(GROUP, WHOLE)


def test_task_that_its_former_worker_still_writes_is_not_orphaned() -> None:
    orphans = OrphanedTasks()
    orphans.observe(TASKS, on("w2"), {"w2"}, lambda _: True)
    assert not orphans.has(GROUP, WHOLE)


def test_task_that_is_not_planned_any_more_is_forgotten() -> None:
    orphans = OrphanedTasks()
    orphans.observe(TASKS, on("w1"), {"w1"}, lambda _: False)
    orphans.observe({}, {}, {"w1"}, lambda _: False)
    orphans.observe(TASKS, on("w2"), {"w1"}, lambda _: False)
    assert not orphans.has(GROUP, WHOLE)


def test_round_begins_once_new_orphans_are_placed() -> None:
    orphans = OrphanedTasks()
    assert not orphans.observe(TASKS, on("w1"), {"w2"}, lambda _: False)
    orphans.note_placed()
    assert orphans.round == 0
    assert orphans.observe(TASKS, on("w1"), {"w1"}, lambda _: False)
    # The placement has failed.
    assert not orphans.observe(TASKS, on("w1"), {"w1"}, lambda _: False)
    assert orphans.round == 0
    for _ in range(2):
        orphans.note_placed()
        assert orphans.round == 1
        assert not orphans.observe(TASKS, on("w2"), {"w1"}, lambda _: False)


def test_orphans_are_forgotten_with_the_role_of_their_enabler() -> None:
    orphans = OrphanedTasks()
    orphans.observe(TASKS, on("w1"), {"w1"}, lambda _: False)
    orphans.forget()
    orphans.observe(TASKS, on("w2"), {"w1"}, lambda _: False)
    assert not orphans.has(GROUP, WHOLE)
