"""``cost``: minimizes latency under a maximum cost per time frame (the specification, 4.2.4).

The module ``prices`` has the prices, and also checks COST_CAP.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np

from analytics_enabler.scheduling.builtin.job_model import Amounts, JobModel, Numbers
from analytics_enabler.scheduling.builtin.migration import (
    DEFAULT_HORIZON_S,
    HorizonS,
    Method,
    place,
)
from analytics_enabler.scheduling.builtin.milp import JobProgram, Limits, Weights
from analytics_enabler.scheduling.builtin.nodes_table import Floats, Indices, NodesTable
from analytics_enabler.scheduling.builtin.settings import settings_of
from analytics_enabler.scheduling.interface import Decision
from analytics_enabler.scheduling.model.jobs import Job, Placement, Refusal, Setting, Task
from analytics_enabler.scheduling.model.snapshot import Fog
from analytics_enabler.scheduling.prices import (
    cost_per_hour,
    price_per_hour,
    traffic_cost_per_hour,
)

_UNAFFORDABLE = 1e9
"""The amount of an invalid price: programs need finite numbers."""

_RELATIVE = 1e-6


class CostSettings(msgspec.Struct, frozen=True):
    """The settings that a query may set for the scheduler ``cost``."""

    per_hour: Annotated[
        Annotated[float, msgspec.Meta(ge=0)] | None,
        msgspec.Meta(description="the maximum cost of a job per hour; COST_CAP can be lower"),
    ] = None
    horizon_s: HorizonS = DEFAULT_HORIZON_S


class Cost:
    """Minimizes the critical path among the placements that a job can afford."""

    Settings = CostSettings

    def __init__(self) -> None:
        self._settings = CostSettings()

    def prepare(self, settings: Mapping[str, Setting]) -> None:
        """Store the settings; raises ``InvalidRequestError`` if a setting is out of range."""
        self._settings = settings_of(CostSettings, settings)

    def schedule(self, jobs: tuple[Job, ...], fog: Fog, current: Placement) -> Decision:
        """Place the jobs one by one; a job whose every placement exceeds its cap is not placed."""
        method = Method(lambda job: CappedPath(self._cap(job)), _prices, self._settings.horizon_s)
        decision = place(jobs, fog, current, method)
        dear = [
            job
            for job in decision.placed(jobs)
            if cost_per_hour(job, decision.placement, fog) > self._cap(job) * (1 + _RELATIVE)
        ]
        if not dear:
            return decision
        # Without the jobs that are too dear, the others have more capacity.
        affordable = tuple(job for job in jobs if job not in dear)
        refused = [
            Refusal(job=job.id, task=task.id, reason=_reason(job, decision, fog, self._cap(job)))
            for job in dear
            for task in job.tasks
        ]
        rest = self.schedule(affordable, fog, current)
        return msgspec.structs.replace(rest, refusals=(*rest.refusals, *refused))

    def _cap(self, job: Job) -> float:
        """Return the maximum cost of a job per hour."""
        caps = (self._settings.per_hour, None if job.cap is None else job.cap.per_hour)
        return min((cap for cap in caps if cap is not None), default=math.inf)


def _reason(job: Job, decision: Decision, fog: Fog, cap: float) -> str:
    cost = cost_per_hour(job, decision.placement, fog)
    return (
        f"the job would cost {cost:.4g} per hour, {cost - cap:.4g} more than its cap of {cap:.4g}"
    )


def _prices(table: NodesTable) -> Amounts:
    per_hour: Floats = np.array([price_per_hour(node) for node in table.nodes])
    per_byte = [traffic_cost_per_hour(1.0, node) for node in table.nodes]

    def of_task(task: Task) -> Floats:
        """Return ``task_cost_per_hour`` for each node."""
        part = np.maximum(task.cores / table.cores, task.memory_mb / table.memory)
        # 0 times infinity would be NaN.
        costs: Floats = np.multiply(part, per_hour, where=part > 0, out=np.zeros(len(part)))
        return np.minimum(costs, _UNAFFORDABLE, out=costs)

    return Amounts(of_task, np.minimum(per_byte, _UNAFFORDABLE))


@dataclass(frozen=True)
class CappedPath:
    """The critical path (ms) of a job whose cost per hour is at most ``cap``; then the cost."""

    cap: float

    def values(
        self, model: JobModel, nodes: Numbers, position: int, options: Indices
    ) -> tuple[Floats, Floats, Floats]:
        """Return (cost above the cap, path, cost) for each option."""
        cost = model.amounts_of(position, nodes, options)
        return np.maximum(cost - self.cap, 0.0), model.paths_ms(position, nodes, options), cost

    def value(self, model: JobModel, nodes: Numbers) -> tuple[float, float, float]:
        """Return (cost above the cap, path, cost)."""
        cost = model.amount(nodes)
        return max(cost - self.cap, 0.0), model.path_ms(nodes), cost

    def points(self, model: JobModel) -> Sequence[float]:
        """Return no weights: nothing is checked."""
        return [0.0] * len(model.tasks)

    def least(self, model: JobModel) -> float:
        """Return the least path."""
        return model.least_path_ms

    def at_path(self, objective: float, path_ms: float, other_ms: float) -> float:  # noqa: ARG002
        """Return the other path, which is the objective."""
        return other_ms

    def solve(self, program: JobProgram) -> Numbers | None:
        """Return the cheapest of the placements with the shortest path."""
        fastest = program.solve(Weights(path=1.0), Limits(amount=self.cap))
        if fastest is None:
            return None
        path = fastest.path * (1 + _RELATIVE) + _RELATIVE
        cheapest = program.solve(Weights(amount=1.0), Limits(path=path, amount=self.cap))
        return (cheapest or fastest).nodes
