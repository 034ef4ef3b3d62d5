"""The objective of a scheduler for one job, and the heuristic search for jobs of any size."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from analytics_enabler.scheduling.builtin.job_model import NOWHERE, JobModel, Numbers
from analytics_enabler.scheduling.builtin.milp import MAX_VARIABLES, JobProgram, variables_of
from analytics_enabler.scheduling.builtin.nodes_table import Floats, Indices

_MAX_ROUNDS = 20
"""The maximum number of rounds in which each task is moved once."""


@dataclass(frozen=True, order=True)
class Value:
    """The value of a placement; lower is better, and earlier fields count first.

    ``missing``: the tasks that are not placed. ``excess``: the amount above the maximum.
    ``objective``: the value to minimize. ``tie``: the second value to minimize.
    """

    missing: int
    excess: float
    objective: float
    tie: float


INVALID = Value(2**31, math.inf, math.inf, math.inf)


@dataclass(frozen=True)
class ValuedPlacement:
    """A placement of a job, its value, and its gap: 0 for an optimum; None: unknown."""

    nodes: Numbers
    value: Value
    gap: float | None = None


class Objective(Protocol):
    """The objective of a scheduler for one job."""

    def values(
        self, model: JobModel, nodes: Numbers, position: int, options: Indices
    ) -> tuple[Floats, Floats, Floats]:
        """Return excess, objective and tie if a task runs on each of the nodes ``options``.

        The free capacity does not include the tasks in ``nodes``, except this task.
        """

    def value(self, model: JobModel, nodes: Numbers) -> tuple[float, float, float]:
        """Return excess, objective and tie of a placement, whose tasks are not allocated."""

    def solve(self, program: JobProgram) -> Numbers | None:
        """Return the optimal placement by linear programs; None: no placement is valid."""

    def points(self, model: JobModel) -> Sequence[float]:
        """Return the weight of each task in the checked share."""

    def least(self, model: JobModel) -> float:
        """Return a lower bound of the objective of all placements."""

    def at_path(self, objective: float, path_ms: float, other_ms: float) -> float:
        """Return the objective of a placement if its path were ``other_ms`` instead of ``path_ms``.

        ``objective``: the objective with the actual path.
        """


def value_of(objective: Objective, model: JobModel, nodes: Numbers) -> Value:
    """Return the value of a placement, whose tasks are not allocated."""
    tasks = zip(model.tasks, nodes, strict=True)
    if any(node == NOWHERE and task.pinned is None for task, node in tasks):
        return INVALID
    if not model.reads_data(nodes):
        return INVALID
    return Value(nodes.count(NOWHERE), *objective.value(model, nodes))


def find(
    objective: Objective,
    model: JobModel,
    fixed: Numbers | None = None,
    heuristics: Sequence[Callable[[JobModel, Numbers], Numbers | None]] = (),
) -> ValuedPlacement | None:
    """Return the best placement that was found for a job; None: the job cannot be placed.

    ``fixed``: tasks that run on these nodes, and do not move. ``heuristics``: functions that return
    a further placement, if the job is too large for an exact search.
    """
    candidates = model.candidates if fixed is None else model.fixed_candidates(fixed)
    if any(
        len(nodes) == 0 and task.pinned is None
        for task, nodes in zip(model.tasks, candidates, strict=True)
    ):
        return None
    names = [nodes.tolist() for nodes in candidates]
    choices = sum(len(nodes) > 1 for nodes in candidates)
    start = greedy(objective, model, candidates)
    if start is not None and choices <= 1 and NOWHERE not in start:
        # Only one task has several nodes, and the greedy choice compares all of them.
        return ValuedPlacement(start, value_of(objective, model, start), 0.0)
    if variables_of(names, model) <= MAX_VARIABLES:
        exact = objective.solve(JobProgram(model, names, objective.points(model)))
        if exact is not None:
            return ValuedPlacement(exact, value_of(objective, model, exact), 0.0)
        # Without a placement within the maximum amount, the heuristics have the least excess.
    starts = [start, *(make(model, fixed or model.current) for make in heuristics)]
    improved = [improve(objective, model, candidates, each) for each in starts if each is not None]
    if not improved:
        return None
    best = min(improved, key=lambda nodes: value_of(objective, model, nodes))
    value = value_of(objective, model, best)
    if value.missing >= INVALID.missing:
        return None
    return ValuedPlacement(best, value, _gap(value.objective, objective.least(model)))


def greedy(objective: Objective, model: JobModel, candidates: Sequence[Indices]) -> Numbers | None:
    """Return the placement of a greedy search; None: a task has no fitting node.

    Tasks with fewer candidates come first.
    """
    nodes = [NOWHERE] * len(model.tasks)
    order = sorted(range(len(nodes)), key=lambda position: (len(candidates[position]), position))
    for position in order:
        node = _best(objective, model, nodes, position, candidates[position])
        if node != NOWHERE:
            nodes[position] = node
            model.table.allocate(model.tasks[position], node)
        elif model.tasks[position].pinned is None:
            break
    else:
        model.release(nodes)
        return nodes if model.reads_data(nodes) else None
    model.release(nodes)
    return None


def improve(
    objective: Objective, model: JobModel, candidates: Sequence[Indices], start: Numbers
) -> Numbers:
    """Return a placement in which no task alone has a better node, for most jobs."""
    nodes = list(start)
    model.allocate(nodes)
    for _ in range(_MAX_ROUNDS):
        before = list(nodes)
        for position, task in enumerate(model.tasks):
            if nodes[position] != NOWHERE:
                if len(candidates[position]) <= 1:
                    continue
                model.table.release(task, nodes[position])
            nodes[position] = _best(objective, model, nodes, position, candidates[position])
            if nodes[position] != NOWHERE:
                model.table.allocate(task, nodes[position])
        if nodes == before:
            break
    model.release(nodes)
    return nodes


def _best(
    objective: Objective, model: JobModel, nodes: Numbers, position: int, candidates: Indices
) -> int:
    """Return the best node with capacity for a task; of equal nodes, the present one first."""
    current = model.current[position]
    options = candidates[model.table.fits(model.tasks[position], candidates, current)]
    if len(options) == 0:
        return NOWHERE
    excess, value, tie = objective.values(model, nodes, position, options)
    at = nodes[position] if nodes[position] != NOWHERE else current
    order = np.lexsort(
        (options, model.table.load(options), options != at, _rounded(tie), _rounded(value), excess)
    )
    return int(options[order[0]])


def _rounded(values: Floats) -> Floats:
    """Return values without the noise of rounding errors, so that equal values are equal."""
    scale = float(np.abs(values).max(initial=0.0)) * 1e-9
    return np.round(values / scale) if scale > 0 else values


def _gap(objective: float, least: float) -> float | None:
    return objective / least - 1 if least > 0 else None
