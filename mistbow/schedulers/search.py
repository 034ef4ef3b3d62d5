"""The search for the places of one job's tasks that make its critical path shortest."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mistbow.fog.jobs import Job, Task
from mistbow.fog.snapshot import Fog
from mistbow.schedulers.fair import Places, pointless
from mistbow.schedulers.room import Room

# More tasks than this are not searched to the end; recursion goes no deeper either.
_MOST_TASKS = 50
# Worse than any real way, so that one that was never measured is the last choice.
_UNKNOWN_MS = 1e9

Cost = tuple[int, float, int, float]
"""What is to be small, the first first: tasks left out, the critical path in ms, tasks moved from
where they run, and bytes a second times the ms that they travel."""

NOTHING: Cost = (0, 0.0, 0, 0.0)
IMPOSSIBLE: Cost = (2**31, math.inf, 0, 0.0)


@dataclass(frozen=True)
class Problem:
    """One job, the nodes that its tasks may have, and where they run now."""

    job: Job
    fog: Fog
    choices: Mapping[str, Sequence[str]]
    home: Places
    _hops: dict[tuple[str, str], float] = field(default_factory=dict)

    def hop(self, source: str, target: str) -> float:
        """Return the latency between two nodes or sites."""
        way = source, target
        # Asked at every step: a look-up is 20 times faster than the snapshot.
        if way not in self._hops:
            self._hops[way] = min(self.fog.latency_ms(source, target), _UNKNOWN_MS)
        return self._hops[way]


@dataclass
class _State:
    """A partial placement, and when the slowest row is at each of its tasks."""

    room: Room
    places: Places = field(default_factory=dict)
    ready: dict[str, float] = field(default_factory=dict)

    def put(self, task: Task, node: str, ready: float) -> None:
        self.room.take(task, node)
        self.places[task.id] = node
        self.ready[task.id] = ready

    def undo(self, task: Task) -> None:
        self.room.release(task, self.places.pop(task.id))
        del self.ready[task.id]


def cheapest(problem: Problem, room: Room, steps: int) -> tuple[Cost, Places]:
    """Return the cheapest places and their cost: exact if ``steps`` and the job's size allow.

    Otherwise they are good: chosen one after the other, then improved one at a time. A step is to
    look at one node for one task.
    """
    staying = cost_of(problem, problem.home, room), problem.home
    start = min(_greedy(problem, room), staying, key=lambda found: found[0])
    best = _improved(problem, room, start, steps)
    if len(problem.job.tasks) <= _MOST_TASKS:
        search = _Search(problem, _State(room), best, steps)
        search.go(0, NOTHING)
        best = search.best
    return best


class _Search:
    """Branch and bound: tasks in order, each on every node, cut where it can only be worse."""

    def __init__(
        self, problem: Problem, state: _State, best: tuple[Cost, Places], steps: int
    ) -> None:
        self.best = best
        self._problem = problem
        self._state = state
        self._steps = steps

    def go(self, number: int, cost: Cost) -> None:
        """Try every way to place the tasks from a number on."""
        tasks = self._problem.job.in_order
        if number == len(tasks):
            if cost < self.best[0] and not pointless(self._problem.job, self._state.places):
                self.best = cost, dict(self._state.places)
            return
        task = tasks[number]
        options = _options(self._problem, self._state, task, cost)
        self._steps -= len(self._problem.choices[task.id])
        for bound, node, ready in options:
            # Costs only grow, part by part, so a dearer beginning has no cheaper end.
            if bound >= self.best[0] or self._steps <= 0:
                return
            if node is None:
                self.go(number + 1, bound)
                continue
            self._state.put(task, node, ready)
            self.go(number + 1, bound)
            self._state.undo(task)


def _options(
    problem: Problem, state: _State, task: Task, cost: Cost
) -> list[tuple[Cost, str | None, float]]:
    """Return what a task's node (or none) raises the cost to, the cheapest first."""
    options: list[tuple[Cost, float, str | None, float]] = []
    for node in problem.choices[task.id]:
        if state.room.lack(task, node) is None:
            bound, ready = _cost_of(problem, state, task, node, cost)
            options.append((bound, state.room.load(node, task), node, ready))
    # Equally good nodes: the emptier one first, then by name, which is their order before.
    options.sort(key=lambda option: option[:2])
    if task.pinned is not None:
        options.append(((cost[0] + 1, *cost[1:]), 0.0, None, 0.0))
    return [(bound, node, ready) for bound, _, node, ready in options]


def _cost_of(
    problem: Problem, state: _State, task: Task, node: str, cost: Cost
) -> tuple[Cost, float]:
    left_out, path, moved, traffic = cost
    ready = 0.0 if task.pinned is None else problem.hop(task.pinned, node)
    for source, rate in problem.job.inputs[task.id].items():
        if source in state.places:
            hop = problem.hop(state.places[source], node)
            ready = max(ready, state.ready[source] + hop)
            traffic += rate * hop
    # No way through the tasks to come is shorter than the straight one: latencies are of best ways.
    path = max(path, ready + problem.hop(node, problem.job.sink))
    moved += problem.home.get(task.id, node) != node
    return (left_out, path, moved, traffic), ready


def cost_of(problem: Problem, places: Places, room: Room) -> Cost:
    """Return the cost of some places for all of a job's tasks."""
    if pointless(problem.job, places):
        return IMPOSSIBLE
    state = _State(room)
    cost = NOTHING
    for task in problem.job.in_order:
        if (node := places.get(task.id)) is None:
            if task.pinned is None:
                return IMPOSSIBLE
            cost = (cost[0] + 1, *cost[1:])
            continue
        cost, state.ready[task.id] = _cost_of(problem, state, task, node, cost)
        state.places[task.id] = node
    return cost


def _greedy(problem: Problem, room: Room) -> tuple[Cost, Places]:
    state = _State(room)
    cost = NOTHING
    for task in problem.job.in_order:
        options = _options(problem, state, task, cost)
        if not options:
            cost = IMPOSSIBLE
            break
        cost, node, ready = options[0]
        if node is not None:
            state.put(task, node, ready)
    places = dict(state.places)
    for task in problem.job.tasks:
        if task.id in places:
            state.undo(task)
    return (IMPOSSIBLE, {}) if pointless(problem.job, places) else (cost, places)


def _improved(
    problem: Problem, room: Room, start: tuple[Cost, Places], steps: int
) -> tuple[Cost, Places]:
    """Move one task at a time as long as that helps."""
    cost, places = start[0], dict(start[1])
    if cost == IMPOSSIBLE:
        return IMPOSSIBLE, {}
    tasks = [task for task in problem.job.in_order if task.id in places]
    for task in tasks:
        room.take(task, places[task.id])
    before = None
    while cost != before and steps > 0:
        before = cost
        for task in tasks:
            room.release(task, places[task.id])
            free = [n for n in problem.choices[task.id] if room.lack(task, n) is None]
            # To try a whole placement is a step for each of its tasks.
            steps -= len(free) * len(tasks)
            trials = [(cost_of(problem, {**places, task.id: n}, room), n) for n in free]
            cheapest_trial = min(trials, default=(cost, ""))
            if cheapest_trial[0] < cost:
                cost, places[task.id] = cheapest_trial
            room.take(task, places[task.id])
    for task in tasks:
        room.release(task, places[task.id])
    return cost, places
