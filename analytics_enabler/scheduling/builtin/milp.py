"""The placement of one job as a mixed-integer linear program, solved exactly by HiGHS.

The critical path is linear by a variable for each pair of nodes of each stream. HiGHS (Huangfu and
Hall, "Parallelizing the dual revised simplex method", Mathematical Programming Computation 2018)
runs without a time limit, so that equal inputs give equal placements; ``MAX_VARIABLES`` limits its
time instead.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from analytics_enabler.scheduling.builtin.job_model import NOWHERE, JobModel, Numbers

MAX_VARIABLES = 600
"""The maximum number of variables of a program; HiGHS solves one of this size in about 50 ms."""

_SLACK = 1e-7


@dataclass(frozen=True)
class Weights:
    """The objective: the weights of the path (ms), of the amount, and of the checked share."""

    path: float = 0.0
    amount: float = 0.0
    checked: float = 0.0


@dataclass(frozen=True)
class Limits:
    """The maximum path (ms), and the maximum amount."""

    path: float = math.inf
    amount: float = math.inf


@dataclass(frozen=True)
class Solution:
    """The solution of a program: a placement, its path (ms), amount and checked share."""

    nodes: Numbers
    path: float
    amount: float
    checked: float


@dataclass
class _Rows:
    """The constraints: lower bound <= sum of coefficient * variable <= upper bound."""

    coefficients: list[dict[int, float]] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)

    def add(self, coefficients: dict[int, float], lower: float, upper: float) -> None:
        self.coefficients.append(coefficients)
        self.lower.append(lower)
        self.upper.append(upper)


def variables_of(candidates: Sequence[Sequence[int]], model: JobModel) -> int:
    """Return the number of variables of the program of a job."""
    pairs = sum(
        len(candidates[source]) * len(candidates[target])
        for target, inputs in enumerate(model.inputs)
        for source, _ in inputs
    )
    return sum(map(len, candidates)) + pairs + 3 * len(candidates)


class JobProgram:
    """The program of a job: each task has one of its ``candidates``.

    ``points``: for each task, the weight of its points in the checked share; the sum is 1, or all
    are 0.

    Pinned tasks may be missing; ``solve`` places as many as possible.
    """

    def __init__(
        self,
        model: JobModel,
        candidates: Sequence[Sequence[int]],
        points: Sequence[float] | None = None,
    ) -> None:
        self._model = model
        self._candidates = candidates
        self._points = points or [0.0] * len(model.tasks)
        self._rows = _Rows()
        self._upper: list[float] = []
        self._integer: list[int] = []
        tasks = range(len(model.tasks))
        self._at = [
            {node: self._variable(1.0, is_integer=True) for node in candidates[t]} for t in tasks
        ]
        self._missing = [
            self._variable(1.0 if model.tasks[t].pinned is not None else 0.0, is_integer=True)
            for t in tasks
        ]
        self._ready = [self._variable(math.inf) for _ in tasks]
        self._checks = [
            {node: self._variable(1.0) for node in candidates[t]} if self._points[t] else {}
            for t in tasks
        ]
        self._path = self._variable(math.inf)
        self._amount: dict[int, float] = {}
        self._big = self._longest_path()
        self._add_choices()
        self._add_capacity()
        self._add_paths()
        self._max_missing: int | None = None

    def solve(self, weights: Weights, limits: Limits = Limits()) -> Solution | None:
        """Return the optimum among the placements with the most tasks.

        None: no placement satisfies the constraints. The limits never reduce the number of tasks.
        """
        if self._max_missing is None:
            everything = self._run(weights, limits, 0)
            if everything is not None:
                self._max_missing = 0
                return everything
            fewest = self._run(None, Limits(), len(self._missing))
            if fewest is None:
                return None
            self._max_missing = sum(node == NOWHERE for node in fewest.nodes)
        return self._run(weights, limits, self._max_missing)

    def _variable(self, upper: float, *, is_integer: bool = False) -> int:
        self._upper.append(upper)
        self._integer.append(int(is_integer))
        return len(self._upper) - 1

    def _longest_path(self) -> float:
        """Return an upper bound of the latency (ms) to a task."""
        nodes = np.unique(np.concatenate([np.array(each, np.intp) for each in self._candidates]))
        latencies = self._model.table.latencies_ms(nodes[:, np.newaxis], nodes)
        data = [float(each.max(initial=0.0)) for each in self._model.data if each is not None]
        return max(data, default=0.0) + len(self._at) * float(latencies.max(initial=0.0)) + 1.0

    def _add_choices(self) -> None:
        for at, missing, checks in zip(self._at, self._missing, self._checks, strict=True):
            self._rows.add({**dict.fromkeys(at.values(), 1.0), missing: 1.0}, 1.0, 1.0)
            for node, check in checks.items():
                self._rows.add({check: 1.0, at[node]: -1.0}, -math.inf, 0.0)
        pinned = [
            missing
            for task, missing in zip(self._model.tasks, self._missing, strict=True)
            if task.pinned is not None
        ]
        if pinned:
            self._rows.add(dict.fromkeys(pinned, 1.0), 0.0, len(pinned) - 1.0)

    def _add_capacity(self) -> None:
        table = self._model.table
        for node in sorted({node for at in self._at for node in at}):
            cores: dict[int, float] = {}
            memory: dict[int, float] = {}
            for task, at, checks in zip(self._model.tasks, self._at, self._checks, strict=True):
                if node in at:
                    cores[at[node]], memory[at[node]] = task.cores, task.memory_mb
                if node in checks:
                    cores[checks[node]] = task.check_cores
            # The free capacity includes rounding errors, and a suspended node may have too little.
            self._rows.add(cores, -math.inf, max(float(table.cores_free[node]), 0.0) + _SLACK)
            self._rows.add(memory, -math.inf, max(float(table.memory_free[node]), 0.0) + _SLACK)

    def _add_paths(self) -> None:
        model, infinity = self._model, math.inf
        for position, at in enumerate(self._at):
            ready, missing = self._ready[position], self._missing[position]
            data = model.data[position]
            for node, variable in at.items():
                self._add_amount(variable, float(model.amounts[position][node]))
            if data is not None:
                terms = {variable: -float(data[node]) for node, variable in at.items()}
                self._rows.add({ready: 1.0, **terms}, 0.0, infinity)
            for source, rate in model.inputs[position]:
                link = self._link(source, position, rate)
                terms = {
                    self._ready[source]: -1.0,
                    missing: self._big,
                    self._missing[source]: self._big,
                }
                self._rows.add({ready: 1.0, **terms, **link}, 0.0, infinity)
            to_sink = {variable: -float(model.to_sink[node]) for node, variable in at.items()}
            terms = {self._path: 1.0, ready: -1.0, missing: 2 * self._big}
            self._rows.add({**terms, **to_sink}, 0.0, infinity)

    def _link(self, source: int, target: int, rate: float) -> dict[int, float]:
        """Return minus the latency of a stream as a sum; add its amount, and the pairs' rows."""
        model = self._model
        first, second = self._at[source], self._at[target]
        latency: dict[int, float] = {}
        if len(first) == 0 or len(second) == 0:
            return latency
        rows = {node: {variable: -1.0} for node, variable in first.items()}
        columns = {node: {variable: -1.0} for node, variable in second.items()}
        chosen: dict[int, float] = {}
        for one, row in rows.items():
            for other, column in columns.items():
                pair = self._variable(1.0)
                row[pair] = column[pair] = chosen[pair] = 1.0
                latency[pair] = -model.table.latency_ms(one, other)
                self._add_amount(pair, model.traffic(one, other, rate))
        for each in (*rows.values(), *columns.values()):
            self._rows.add(each, -math.inf, 0.0)
        missing = {self._missing[source]: 1.0, self._missing[target]: 1.0}
        self._rows.add({**chosen, **missing}, 1.0, math.inf)
        return latency

    def _add_amount(self, variable: int, amount: float) -> None:
        if amount:
            self._amount[variable] = amount

    def _run(self, weights: Weights | None, limits: Limits, missing: int) -> Solution | None:
        """Solve; without ``weights``, place as many tasks as possible."""
        # Imported here, since the enabler reads the settings of schedulers without a solver.
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        costs = np.zeros(len(self._upper))
        if weights is None:
            costs[self._missing] = 1.0
        else:
            costs[self._path] = weights.path
            for variable, amount in self._amount.items():
                costs[variable] += weights.amount * amount
            for points, checks in zip(self._points, self._checks, strict=True):
                for variable in checks.values():
                    costs[variable] -= weights.checked * points
        extra = _Rows()
        extra.add(dict.fromkeys(self._missing, 1.0), 0.0, float(missing))
        if math.isfinite(limits.path):
            extra.add({self._path: 1.0}, 0.0, limits.path)
        if math.isfinite(limits.amount):
            extra.add(self._amount or {self._path: 0.0}, -math.inf, limits.amount)
        coefficients = [*self._rows.coefficients, *extra.coefficients]
        rows = [row for row, each in enumerate(coefficients) for _ in each]
        columns = [column for each in coefficients for column in each]
        values = [value for each in coefficients for value in each.values()]
        matrix = csr_array((values, (rows, columns)), shape=(len(coefficients), len(costs)))
        result = milp(
            costs,
            integrality=np.array(self._integer),
            bounds=Bounds(0.0, np.array(self._upper)),
            constraints=LinearConstraint(
                matrix, [*self._rows.lower, *extra.lower], [*self._rows.upper, *extra.upper]
            ),
            options={"mip_rel_gap": 1e-6},
        )
        return self._solution(result.x) if result.success else None

    def _solution(self, values: np.ndarray) -> Solution:
        nodes = [
            next((node for node, variable in at.items() if values[variable] > 0.5), NOWHERE)
            for at in self._at
        ]
        checked = sum(
            points * float(values[variable])
            for points, checks in zip(self._points, self._checks, strict=True)
            for variable in checks.values()
        )
        model = self._model
        return Solution(nodes, model.path_ms(nodes), model.amount(nodes), checked)
