"""``quality``: trades latency for a larger share of points whose quality is checked.

The problem and both heuristics are those of the specification, 4.2.4, after Michailidou, Gounaris,
Symeonides and Trihinas, "EQUALITY: Quality-aware intensive analytics on the edge", Information
Systems 2022: the objective is latency / (1 + beta * share of checked points). Small jobs are solved
exactly, as a ratio of linear functions (Dinkelbach, "On nonlinear fractional programming",
Management Science 1967). For other jobs, the better of two placements wins:

- each operator is placed optimally for the placement of its parents, and then improved;
- spring relaxation: streams are springs that pull operators towards their neighbours (Pietzuch et
  al., "Network-aware operator placement for stream-processing systems", ICDE 2006).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np

from analytics_enabler.scheduling.builtin.capacity import FreeCapacity
from analytics_enabler.scheduling.builtin.job_model import (
    NOWHERE,
    JobModel,
    Numbers,
    no_amounts,
)
from analytics_enabler.scheduling.builtin.migration import (
    DEFAULT_HORIZON_S,
    HorizonS,
    Method,
    place,
)
from analytics_enabler.scheduling.builtin.milp import JobProgram, Weights
from analytics_enabler.scheduling.builtin.nodes_table import (
    TOLERANCE,
    Floats,
    Indices,
)
from analytics_enabler.scheduling.builtin.settings import settings_of
from analytics_enabler.scheduling.interface import Decision
from analytics_enabler.scheduling.model.jobs import Job, Placement, Setting, Task
from analytics_enabler.scheduling.model.snapshot import Fog

LOCAL_MS = 1.0
"""The latency (ms) that is added to each critical path, so that no ratio is 0."""

_MAX_ITERATIONS = 20
_RELATIVE = 1e-6
_SPRING_ROUNDS = 10


class QualitySettings(msgspec.Struct, frozen=True):
    """The settings that a query may set for the scheduler ``quality``."""

    beta: Annotated[
        float,
        msgspec.Meta(
            ge=0,
            description="the weight of checks: with 1, a job whose points are all checked may have "
            "twice the latency",
        ),
    ] = 1.0
    horizon_s: HorizonS = DEFAULT_HORIZON_S


class Quality:
    """Minimizes latency divided by 1 + beta times the share of points that are checked."""

    Settings = QualitySettings

    def __init__(self) -> None:
        self._settings = QualitySettings()

    def prepare(self, settings: Mapping[str, Setting]) -> None:
        """Store the settings; raises ``InvalidRequestError`` if a setting is out of range."""
        self._settings = settings_of(QualitySettings, settings)

    def schedule(self, jobs: tuple[Job, ...], fog: Fog, current: Placement) -> Decision:
        """Place the jobs one by one; checks have the cores that remain after all tasks."""
        objective = CheckedPath(self._settings.beta)
        method = Method(
            lambda _: objective, no_amounts, self._settings.horizon_s, (spring_relaxation,)
        )
        decision = place(jobs, fog, current, method)
        placement = with_checks(jobs, fog, decision.placement)
        return msgspec.structs.replace(decision, placement=placement)


def weight(task: Task, fog: Fog) -> float:
    """Return the weight of a task's points: points of bad sites count up to twice."""
    source = fog.quality_by_site.get(task.pinned or "")
    if source is None:
        return task.points_per_s
    return task.points_per_s * (2.0 - source.goodness)


def with_checks(jobs: Sequence[Job], fog: Fog, placement: Placement) -> Placement:
    """Return a placement in which each node checks as many points as its free cores allow.

    The shares are the optimum of a linear program: it has one constraint for each node, so the
    points that need the fewest cores for their weight come first.
    """
    tasks = {(job.id, task.id): task for job in jobs for task in job.tasks}
    free = FreeCapacity(fog)
    free.allocate_jobs(jobs, placement)
    order = sorted(
        placement.assignments,
        key=lambda at: (-_worth(tasks[at.job, at.task], fog), at.job, at.task, at.node),
    )
    checked = {}
    for at in order:
        task = tasks[at.job, at.task]
        share = _checkable(task, free.cores(at.node))
        checked[at] = msgspec.structs.replace(at, checked=share)
        free.allocate_checks(task, at.node, share)
    return Placement(tuple(checked[at] for at in placement.assignments))


def checked_share(job: Job, placement: Placement, fog: Fog) -> float:
    """Return the share of the points of a job that are checked, by weight; 0 without points."""
    weights = {task.id: weight(task, fog) for task in job.tasks}
    total = sum(weights.values())

    def share(task: str) -> float:
        return sum(at.share * at.checked for at in placement.by_task.get((job.id, task), ()))

    return sum(weights[task] * share(task) for task in weights) / total if total else 0.0


def spring_relaxation(model: JobModel, start: Numbers) -> Numbers | None:
    """Return the placement by spring relaxation; None: no placement was found.

    The energy of a spring is the square of its latency. Data and sink are fixed ends.
    """
    nodes = [_first(model, position, start) for position in range(len(model.tasks))]
    if any(
        node == NOWHERE and task.pinned is None
        for task, node in zip(model.tasks, nodes, strict=True)
    ):
        return None
    model.allocate(nodes)
    for _ in range(_SPRING_ROUNDS):
        before = list(nodes)
        for position, task in enumerate(model.tasks):
            if nodes[position] == NOWHERE or len(model.candidates[position]) <= 1:
                continue
            model.table.release(task, nodes[position])
            options = model.candidates[position]
            options = options[model.table.fits(task, options, model.current[position])]
            if len(options):
                nodes[position] = int(options[np.argmin(_tension(model, nodes, position, options))])
            model.table.allocate(task, nodes[position])
        if nodes == before:
            break
    model.release(nodes)
    return nodes if _fits(model, nodes) else None


def _first(model: JobModel, position: int, start: Numbers) -> int:
    """Return the node at which the relaxation of an operator starts."""
    if start[position] != NOWHERE:
        return start[position]
    options = model.candidates[position]
    return int(options[np.argmin(model.to_sink[options])]) if len(options) else NOWHERE


def _tension(model: JobModel, nodes: Numbers, position: int, options: Indices) -> Floats:
    table, data = model.table, model.data[position]
    energy = np.zeros(len(options)) if data is None else data[options] ** 2
    for source, _ in model.inputs[position]:
        if nodes[source] != NOWHERE:
            energy = energy + table.latencies_ms(nodes[source], options) ** 2
    followers = [target for target, _ in model.outputs[position] if nodes[target] != NOWHERE]
    for target in followers:
        energy = energy + table.latencies_ms(options, nodes[target]) ** 2
    return energy if followers else energy + model.to_sink[options] ** 2


def _fits(model: JobModel, nodes: Numbers) -> bool:
    model.allocate(nodes)
    used = [node for node in set(nodes) if node != NOWHERE]
    table = model.table
    fits = all(min(table.cores_free[node], table.memory_free[node]) >= -TOLERANCE for node in used)
    model.release(nodes)
    return fits


def _worth(task: Task, fog: Fog) -> float:
    """Return the weight of the points that one core checks."""
    return weight(task, fog) / task.check_cores if task.check_cores else np.inf


def _checkable(task: Task, cores: float) -> float:
    """Return the share of a task's points that these cores can check."""
    if task.points_per_s == 0:
        return 0.0
    if task.check_cores == 0:
        return 1.0
    return min(max(cores / task.check_cores, 0.0), 1.0)


@dataclass(frozen=True)
class CheckedPath:
    """Latency (ms) divided by 1 + beta * the share of checked points."""

    beta: float

    def values(
        self, model: JobModel, nodes: Numbers, position: int, options: Indices
    ) -> tuple[Floats, Floats, Floats]:
        """Return (0, ratio, path) for each option."""
        path = model.paths_ms(position, nodes, options) + LOCAL_MS
        checked = self._checked(model, nodes, position, options)
        return np.zeros(len(options)), path / (1 + self.beta * checked), path

    def value(self, model: JobModel, nodes: Numbers) -> tuple[float, float, float]:
        """Return (0, ratio, path)."""
        model.allocate(nodes)
        weights = self.points(model)
        checked = sum(
            self._on_node(model, [(weights[other], model.tasks[other]) for other in there], node)
            for node, there in _by_node(nodes).items()
        )
        model.release(nodes)
        path = model.path_ms(nodes) + LOCAL_MS
        return 0.0, path / (1 + self.beta * checked), path

    def points(self, model: JobModel) -> Sequence[float]:
        """Return the weights of the tasks' points, whose sum is 1."""
        weights = [weight(task, model.table.fog) for task in model.tasks]
        total = sum(weights)
        return [each / total if total else 0.0 for each in weights]

    def least(self, model: JobModel) -> float:
        """Return the least path with all points checked."""
        return (model.least_path_ms + LOCAL_MS) / (1 + self.beta)

    def at_path(self, objective: float, path_ms: float, other_ms: float) -> float:
        """Return the objective with another path, to which it is proportional."""
        return objective * (other_ms + LOCAL_MS) / (path_ms + LOCAL_MS)

    def solve(self, program: JobProgram) -> Numbers | None:
        """Return the placement with the least ratio, by Dinkelbach's algorithm."""
        ratio, nodes = 0.0, None
        for _ in range(_MAX_ITERATIONS):
            found = program.solve(Weights(path=1.0, checked=ratio * self.beta + _RELATIVE))
            if found is None:
                return None
            better = (found.path + LOCAL_MS) / (1 + self.beta * found.checked)
            if nodes is not None and better >= ratio * (1 - _RELATIVE):
                break
            ratio, nodes = better, found.nodes
        return nodes

    def _checked(self, model: JobModel, nodes: Numbers, position: int, options: Indices) -> Floats:
        """Return the share of checked points for each option; the task itself is not allocated."""
        weights, task = self.points(model), model.tasks[position]
        others = [*nodes[:position], NOWHERE, *nodes[position + 1 :]]
        by_node = _by_node(others)
        shares = {
            node: self._on_node(model, [(weights[t], model.tasks[t]) for t in there], node)
            for node, there in by_node.items()
        }
        alone = np.zeros(len(options))
        if weights[position]:
            cores = model.table.cores_free[options] - task.cores
            full = task.check_cores
            alone = np.clip(cores / full, 0.0, 1.0) if full else np.ones(len(options))
        checked = sum(shares.values()) + weights[position] * alone
        for number, node in enumerate(options.tolist()):
            if node in by_node:
                tasks = [(weights[t], model.tasks[t]) for t in (*by_node[node], position)]
                model.table.allocate(task, node)
                together = self._on_node(model, tasks, node)
                model.table.release(task, node)
                checked[number] = sum(shares.values()) - shares[node] + together
        return np.asarray(checked)

    def _on_node(self, model: JobModel, tasks: Sequence[tuple[float, Task]], node: int) -> float:
        """Return the weight of the points of these tasks that a node can check."""
        cores, checked = float(model.table.cores_free[node]), 0.0
        for worth, task in sorted(
            tasks, key=lambda each: -each[0] / max(each[1].check_cores, _RELATIVE)
        ):
            share = _checkable(task, cores)
            cores -= share * task.check_cores
            checked += worth * share
        return checked


def _by_node(nodes: Numbers) -> dict[int, list[int]]:
    by_node: dict[int, list[int]] = {}
    for position, node in enumerate(nodes):
        if node != NOWHERE:
            by_node.setdefault(node, []).append(position)
    return by_node
