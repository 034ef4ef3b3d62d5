"""The orphaned tasks, whose last worker is dead, and which no other worker runs yet."""

from collections.abc import Callable, Collection, Mapping

from analytics_enabler.fragments import Tasks
from analytics_enabler.groups import Group


class OrphanedTasks:
    """The tasks whose last worker is dead, until another worker writes their results or panes.

    The set is in memory only: after a restart of the enabler, these tasks start like moved tasks.
    """

    def __init__(self) -> None:
        self._tasks: set[tuple[str, str]] = set()
        self._has_new = False
        self.round = 0
        """How often orphaned tasks were placed again."""

    def observe(
        self,
        tasks: Mapping[Group, Tasks],
        nodes: Mapping[str, Mapping[str, str]],
        dead: Collection[str],
        is_written: Callable[[str], bool],
    ) -> bool:
        """Update the tasks; return whether a task has become orphaned.

        Call ``observe`` before the tasks of dead workers are placed again. ``tasks``: the planned
        tasks. ``nodes``: group id -> task -> node. ``dead``: the dead workers. ``is_written``:
        returns whether any worker writes a fragment (its id). A worker that dies before it has
        taken over leaves no orphan: the former worker still writes.
        """
        before = set(self._tasks)
        self._tasks |= {
            (group, task)
            for group, by_task in nodes.items()
            for task, node in by_task.items()
            if node in dead
        }
        self.forget_written(tasks, is_written)
        has_new = not self._tasks <= before
        self._has_new |= has_new
        return has_new

    def forget_written(
        self, tasks: Mapping[Group, Tasks], is_written: Callable[[str], bool]
    ) -> None:
        """Forget the tasks that a worker writes, or that are not planned; see ``observe``."""
        self._tasks = {
            (group.id, task)
            for group, by_task in tasks.items()
            for task, fragment in by_task.items()
            if (group.id, task) in self._tasks and not is_written(fragment.id)
        }

    def note_placed(self) -> None:
        """Begin a new ``round`` if tasks have become orphaned since the last placement."""
        self.round += self._has_new
        self._has_new = False

    def forget(self) -> None:
        """Forget all tasks, because another enabler may have placed them since."""
        self._tasks, self._has_new = set(), False

    def has(self, group: Group, task: str) -> bool:
        """Return whether a task is orphaned."""
        return (group.id, task) in self._tasks
