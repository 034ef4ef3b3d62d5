"""Elasticity: fragments leave hot spots for nodes with free capacity, and may return later.

A node is a *hot spot* while its fragments demand more cores than it has free, by the cost model.
Hysteresis separates the two limits, in load and in time. The schedulers decide where the fragments
that leave a hot spot run: ``Task.avoided`` excludes the hot spot. If no other node has the
capacity, the fragments stay, and the worker sheds those of the lowest salience.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from analytics_enabler.scheduling.builtin.capacity import FreeCapacity
from analytics_enabler.scheduling.builtin.eligibility import candidate_nodes, eligible_nodes
from analytics_enabler.scheduling.driver.driver import NodesByJob
from analytics_enabler.scheduling.model.jobs import Job, Placement, Task
from analytics_enabler.scheduling.model.snapshot import Fog, Node
from mistbow.clock import Clock

HOT_LOAD = 0.95
"""The demanded share of a node's free cores above which the node becomes a hot spot."""

TARGET_LOAD = 0.8
"""The load to which fragments leave a hot spot, and the maximum load to which they are added."""

COOL_LOAD = 0.7
"""The load, with all fragments that have left, below which a node is no longer a hot spot."""

HOT_MS = 10_000
"""The time (ms) above ``HOT_LOAD`` after which a node is a hot spot."""

COOL_MS = 60_000
"""The time (ms) below ``COOL_LOAD`` after which a node is no longer a hot spot."""

BLOCK_MS = 300_000
"""The time (ms) for which a fragment stays if no scheduler has placed it elsewhere."""

REASON_MS = 180_000
"""The time (ms) for which a reason explains the moves of a task."""

TaskKey = tuple[str, str]
"""(job, task)"""

CoresByTask = Mapping[TaskKey, float]
"""Task -> the cores that it demands."""

_NO_CORES: CoresByTask = {}


@dataclass(frozen=True, slots=True)
class HotSpot:
    """A node whose fragments demand ``demanded`` cores of the ``free`` ones; ``since`` (ms)."""

    node: str
    demanded: float
    free: float
    since: int

    def __str__(self) -> str:
        return (
            f"the worker {self.node} is a hot spot: its fragments need {self.demanded:.2f} cores, "
            f"and {self.free:.2f} are free"
        )


class Elasticity:
    """Finds hot spots, and the tasks that leave them; ``adapt`` is called periodically."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._over_since: dict[str, int] = {}
        self._under_since: dict[str, int] = {}
        self._blocked_until: dict[TaskKey, int] = {}
        self._left: dict[TaskKey, tuple[str, ...]] = {}
        """Task -> the hot spots that it has left, or leaves."""
        self._current: NodesByJob = {}
        self.hot_spots: dict[str, HotSpot] = {}
        """Node -> the hot spot that it is."""
        self._reasons: dict[TaskKey, tuple[str, int]] = {}
        """Task -> (reason, the time (ms) until which it explains moves)."""

    @property
    def reasons(self) -> dict[TaskKey, str]:
        """Task -> why it leaves a hot spot, or why it may return."""
        return {key: why for key, (why, _) in self._reasons.items()}

    def adapt(
        self,
        jobs: Sequence[Job],
        fog: Fog,
        current: NodesByJob,
        present_cores: CoresByTask = _NO_CORES,
    ) -> list[Job]:
        """Return the jobs; the tasks that leave a hot spot avoid it, and other hot spots.

        ``current``: job -> task -> the node that runs it. ``present_cores``: the present demands,
        where they differ from the demands of the tasks. The demands of the tasks follow in steps of
        a quarter, so that noise causes no new decision, and would hide a load of up to a quarter
        above the limit.
        """
        now, self._current = self._clock(), current
        tasks = {(job.id, task.id): task for job in jobs for task in job.tasks}
        self._forget(lambda key, node: key not in tasks or node not in fog.by_name)
        self._reasons = {
            key: each for key, each in self._reasons.items() if key in tasks and each[1] > now
        }
        self._blocked_until = {
            key: until for key, until in self._blocked_until.items() if key in tasks and until > now
        }
        cores = {key: present_cores.get(key, task.cores) for key, task in tasks.items()}
        used = _used(cores, current)
        for node in fog.nodes:
            self._observe(node, used, cores, now)
        gone = self.hot_spots.keys() - fog.by_name.keys()
        self.hot_spots = {name: each for name, each in self.hot_spots.items() if name not in gone}
        present = _with_cores(jobs, cores) if self.hot_spots else ()
        for name in sorted(self.hot_spots):
            self._relieve(fog.by_name[name], present, fog, current)
        return self.apply(jobs)

    def apply(self, jobs: Sequence[Job]) -> list[Job]:
        """Return the jobs with the nodes that their tasks avoid; do not check the nodes again."""
        return [
            msgspec.structs.replace(
                job,
                tasks=tuple(
                    msgspec.structs.replace(task, avoided=self._avoided((job.id, task.id)))
                    if (job.id, task.id) in self._left
                    else task
                    for task in job.tasks
                ),
            )
            if any((job.id, task.id) in self._left for task in job.tasks)
            else job
            for job in jobs
        ]

    def _avoided(self, key: TaskKey) -> tuple[str, ...]:
        """Return the nodes that a task avoids: those that it has left, and other hot spots.

        It may stay on a hot spot that it need not leave.
        """
        others = self.hot_spots.keys() - {self._node(key)}
        return tuple(sorted({*self._left[key], *others}))

    def _node(self, key: TaskKey) -> str | None:
        """Return the node that runs a task."""
        return self._current.get(key[0], {}).get(key[1])

    def _forget(self, is_over: Callable[[TaskKey, str], bool]) -> None:
        """Remove (task, node) from the nodes that tasks have left, where ``is_over``."""
        left = {
            key: tuple(node for node in nodes if not is_over(key, node))
            for key, nodes in self._left.items()
        }
        self._left = {key: nodes for key, nodes in left.items() if nodes}

    def return_unplaced(self, placed: NodesByJob) -> bool:
        """Let tasks stay that no scheduler has placed elsewhere; return whether there are any."""
        unplaced = [key for key in self._left if key[1] not in placed.get(key[0], {})]
        for key in unplaced:
            del self._left[key]
            self._blocked_until[key] = self._clock() + BLOCK_MS
        return bool(unplaced)

    def _observe(self, node: Node, used: Mapping[str, float], cores: CoresByTask, now: int) -> None:
        name, free = node.name, max(node.cores_free, 1e-6)
        demanded = used.get(name, 0.0)
        away = sum(cores[key] for key in self._away(name))
        is_over = demanded > HOT_LOAD * free and demanded > 0
        is_under = demanded + away < COOL_LOAD * free
        _note(self._over_since, name, now, is_true=is_over)
        _note(self._under_since, name, now, is_true=is_under)
        if name in self.hot_spots:
            if is_under and now - self._under_since[name] >= COOL_MS:
                self._end(name, now)
        elif is_over and now - self._over_since[name] >= HOT_MS:
            self.hot_spots[name] = HotSpot(name, demanded, node.cores_free, now)

    def _end(self, node: str, now: int) -> None:
        del self.hot_spots[node]
        seconds = (now - self._under_since[node]) // 1000
        for key in self._away(node):
            why = f"the worker {node} has had free capacity for {seconds} s"
            self._reasons[key] = why, now + REASON_MS
        self._forget(lambda _, left: left == node)

    def _away(self, node: str) -> list[TaskKey]:
        """Return the tasks that have left a node, and run elsewhere.

        A task whose move is not decided yet still counts among the tasks of the node.
        """
        return [
            key for key, nodes in self._left.items() if node in nodes and self._node(key) != node
        ]

    def _relieve(self, hot: Node, jobs: Sequence[Job], fog: Fog, current: NodesByJob) -> None:
        """Select the smallest set of tasks that leave a hot spot, if other nodes have capacity."""
        now, placement = self._clock(), Placement()
        free = FreeCapacity(fog)
        for job in jobs:
            for task in job.tasks:
                node = current.get(job.id, {}).get(task.id)
                if node in fog.by_name:
                    free.allocate(task, node)
        excess = hot.cores_free - free.cores(hot.name) - TARGET_LOAD * hot.cores_free
        # The chosen tasks still run here, until the schedulers have moved them.
        moving = {
            key
            for key, nodes in self._left.items()
            if hot.name in nodes and self._node(key) == hot.name
        }
        allowed = candidate_nodes(jobs, fog, placement)
        here = [
            (job, task)
            for job in jobs
            for task in job.tasks
            if current.get(job.id, {}).get(task.id) == hot.name
        ]
        excess -= sum(task.cores for job, task in here if (job.id, task.id) in moving)
        if self._over_since.get(hot.name) is None or excess <= 0:
            return
        for job, task in sorted(here, key=lambda each: _order(each, hot, fog)):
            key = (job.id, task.id)
            is_blocked = self._blocked_until.get(key, 0) > now
            if excess <= 0 or key in moving or is_blocked or job.cap is not None:
                continue
            target = self._target(task, hot, fog, allowed[job.id], free)
            if target is None:
                continue
            free.allocate(task, target)
            self._left[key] = (*self._left.get(key, ()), hot.name)
            self._reasons[key] = str(self.hot_spots[hot.name]), now + REASON_MS
            excess -= task.cores

    def _target(
        self, task: Task, hot: Node, fog: Fog, allowed: Collection[str], free: FreeCapacity
    ) -> str | None:
        """Return a node that can run a task of a hot spot; None: no node has free capacity.

        ``allowed``: the nodes that the job of the task may use.
        """
        leaving = msgspec.structs.replace(task, avoided=(hot.name,))
        for name in eligible_nodes(leaving, fog):
            if name not in allowed or name in self.hot_spots:
                continue
            if _has_room(task, fog.by_name[name], free):
                return name
        return None


def _used(cores: CoresByTask, current: NodesByJob) -> dict[str, float]:
    """Return node -> the cores that its tasks demand."""
    used: dict[str, float] = defaultdict(float)
    for (job, task), demanded in cores.items():
        node = current.get(job, {}).get(task)
        if node is not None:
            used[node] += demanded
    return used


def _with_cores(jobs: Sequence[Job], cores: CoresByTask) -> list[Job]:
    """Return the jobs, whose tasks demand these cores."""
    return [
        msgspec.structs.replace(
            job,
            tasks=tuple(
                msgspec.structs.replace(task, cores=cores[job.id, task.id]) for task in job.tasks
            ),
        )
        for job in jobs
    ]


def _note(since: dict[str, int], name: str, now: int, *, is_true: bool) -> None:
    if is_true:
        since.setdefault(name, now)
    else:
        since.pop(name, None)


def _order(each: tuple[Job, Task], hot: Node, fog: Fog) -> tuple[int, float, str, str]:
    """Return the order in which tasks leave: first tasks that then read no points of other sites.

    Among these, the greatest demands come first, so that few fragments leave.
    """
    job, task = each
    others = [node for node in fog.by_site.get(task.pinned or "", ()) if node.name != hot.name]
    remote = task.pinned is not None and not others
    return int(remote), -task.cores, job.id, task.id


def _has_room(task: Task, node: Node, free: FreeCapacity) -> bool:
    spare = free.cores(node.name) - (1 - TARGET_LOAD) * node.cores_free
    return task.cores <= spare and free.shortage(task, node.name) is None
