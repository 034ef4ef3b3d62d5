"""``energy``: minimizes latency times energy, and spares batteries (the specification, 4.2.4).

The product of delay and energy weighs both without a unit of exchange (Gonzalez and Horowitz,
"Energy dissipation in general purpose microprocessors", IEEE JSSC 1996). A product of two linear
functions has its minimum at an extreme point of the convex hull, which weighted sums find one after
the other (Aneja and Nair, "Bicriteria transportation problem", Management Science 1979).
"""

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
from analytics_enabler.scheduling.builtin.milp import JobProgram, Solution, Weights
from analytics_enabler.scheduling.builtin.nodes_table import Floats, Indices, NodesTable
from analytics_enabler.scheduling.builtin.settings import settings_of
from analytics_enabler.scheduling.interface import Decision
from analytics_enabler.scheduling.model.jobs import Job, Placement, Refusal, Setting, Task
from analytics_enabler.scheduling.model.snapshot import Fog, Node

LOCAL_MS = 1.0
"""The latency (ms) that is added to each critical path, so that no product is 0."""

_WATTS_PER_CORE = 5.0
"""The power of a busy core if no node of the fog declares its power."""

_UNKNOWN_CHARGE_S = 12 * 3600.0
"""The duration (s) that a battery must last if its next charge is unknown."""

_RELATIVE = 1e-6


class EnergySettings(msgspec.Struct, frozen=True):
    """The settings that a query may set for the scheduler ``energy``."""

    reserve: Annotated[
        float,
        msgspec.Meta(
            ge=0, lt=1, description="the share of a battery that is never used, from 0 to below 1"
        ),
    ] = 0.2
    horizon_s: HorizonS = DEFAULT_HORIZON_S


class Energy:
    """Minimizes critical path times power; a node whose battery is low gets no tasks."""

    Settings = EnergySettings

    def __init__(self) -> None:
        self._settings = EnergySettings()

    def prepare(self, settings: Mapping[str, Setting]) -> None:
        """Store the settings; raises ``InvalidRequestError`` if a setting is out of range."""
        self._settings = settings_of(EnergySettings, settings)

    def schedule(self, jobs: tuple[Job, ...], fog: Fog, current: Placement) -> Decision:
        """Place the jobs one by one, within the charge of the batteries until their next charge."""
        limited = limit_by_batteries(fog, self._settings.reserve)
        method = Method(lambda _: DelayEnergy(), _power, self._settings.horizon_s)
        decision = place(jobs, limited, current, method)
        reasons = [_with_battery(refusal, fog, limited) for refusal in decision.refusals]
        return msgspec.structs.replace(decision, refusals=tuple(reasons))


def watts_per_core(fog: Fog) -> dict[str, float]:
    """Return node -> the power (W) that a busy core needs in addition to an idle one.

    For a node without declared power, it is the average of the other nodes.
    """
    known = {
        node.name: (node.power.full_w - node.power.idle_w) / node.cores
        for node in fog.nodes
        if node.power is not None
    }
    average = sum(known.values()) / len(known) if known else _WATTS_PER_CORE
    return {name: known.get(name, average) for name in fog.by_name}


def limit_by_batteries(fog: Fog, reserve: float) -> Fog:
    """Return a fog in which nodes have only those cores free that their batteries can supply.

    A battery must supply the idle node, and its load, until the next charge. A node whose battery
    is at its reserve has no free capacity.
    """
    watts = watts_per_core(fog)
    return fog.with_nodes(_limited(node, watts[node.name], reserve) for node in fog.nodes)


def _limited(node: Node, watts: float, reserve: float) -> Node:
    battery = node.battery
    if battery is None:
        return node
    usable_wh = battery.charge_wh - reserve * battery.capacity_wh
    if usable_wh <= 0:
        return msgspec.structs.replace(node, cores_free=0.0, memory_free_mb=0.0)
    seconds = _UNKNOWN_CHARGE_S if battery.next_charge_s is None else battery.next_charge_s
    if seconds <= 0 or watts <= 0:
        return node
    idle_w = 0.0 if node.power is None else node.power.idle_w
    budget_w = usable_wh * 3600 / seconds + battery.charging_w - idle_w
    others = node.cores - node.cores_free
    cores = min(max(budget_w / watts - others, 0.0), node.cores_free)
    return msgspec.structs.replace(node, cores_free=cores)


def _with_battery(refusal: Refusal, fog: Fog, limited: Fog) -> Refusal:
    """Return a refusal that names the battery, if only the battery lacks capacity."""
    if refusal.node is None or fog.by_name[refusal.node] == limited.by_name[refusal.node]:
        return refusal
    left = limited.by_name[refusal.node].cores_free
    reason = (
        f"the battery must last until the next charge, and supplies {left:.3g} more cores"
        if left
        else "the battery is at its reserve"
    )
    return msgspec.structs.replace(refusal, reason=reason)


def _power(table: NodesTable) -> Amounts:
    watts = watts_per_core(table.fog)
    per_core: Floats = np.array([watts[name] for name in table.names])

    def of_task(task: Task) -> Floats:
        return task.cores * per_core

    return Amounts(of_task)


@dataclass(frozen=True)
class DelayEnergy:
    """The product of the latency (ms) and the power (W) of a job."""

    def values(
        self, model: JobModel, nodes: Numbers, position: int, options: Indices
    ) -> tuple[Floats, Floats, Floats]:
        """Return (0, product, path) for each option."""
        path = model.paths_ms(position, nodes, options)
        power = model.amounts_of(position, nodes, options)
        return np.zeros(len(options)), (path + LOCAL_MS) * power, path

    def value(self, model: JobModel, nodes: Numbers) -> tuple[float, float, float]:
        """Return (0, product, path)."""
        path = model.path_ms(nodes)
        return 0.0, (path + LOCAL_MS) * model.amount(nodes), path

    def points(self, model: JobModel) -> Sequence[float]:
        """Return no weights: nothing is checked."""
        return [0.0] * len(model.tasks)

    def least(self, model: JobModel) -> float:
        """Return the product of the least path and the least power."""
        return (model.least_path_ms + LOCAL_MS) * model.least_amount

    def at_path(self, objective: float, path_ms: float, other_ms: float) -> float:
        """Return the objective with another path, to which it is proportional."""
        return objective * (other_ms + LOCAL_MS) / (path_ms + LOCAL_MS)

    def solve(self, program: JobProgram) -> Numbers | None:
        """Return the extreme point of paths and powers with the least product."""
        fastest = program.solve(Weights(path=1.0, amount=1e-6))
        if fastest is None:
            return None
        thriftiest = program.solve(Weights(path=1e-6, amount=1.0)) or fastest
        best = min(fastest, thriftiest, key=_product)
        waiting = [(fastest, thriftiest)]
        while waiting:
            one, other = waiting.pop()
            drop, rise = one.amount - other.amount, other.path - one.path
            # Between the two points, no point is better than this corner.
            corner = (one.path + LOCAL_MS) * other.amount
            if drop <= _RELATIVE or rise <= _RELATIVE or corner >= _product(best) * (1 - _RELATIVE):
                continue
            between = program.solve(Weights(path=drop, amount=rise))
            if between is None or _weighted(between, drop, rise) >= _weighted(one, drop, rise) * (
                1 - _RELATIVE
            ):
                continue
            best = min(best, between, key=_product)
            waiting += [(one, between), (between, other)]
        return best.nodes


def _product(solution: Solution) -> float:
    return (solution.path + LOCAL_MS) * solution.amount


def _weighted(solution: Solution, path: float, amount: float) -> float:
    return path * solution.path + amount * solution.amount
