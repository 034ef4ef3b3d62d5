"""The facts of a worker's node that schedulers weigh: power, battery, prices, position.

Each fact is a setting. Most facts can also be points of a metric with the name of the setting, so a
changing price or charge is a series in the stream of points.
"""

import math
import time as times
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta

import msgspec
import psutil

from analytics_worker.settings import WorkerSettings
from mistbow.client.agent import AgentClient
from mistbow.errors import MistbowError
from mistbow.fabric import Battery, Power, Worker

_DAY = timedelta(days=1)

FACTS = (
    "node_cores_free",
    *("node_idle_w", "node_full_w", "node_battery_wh", "node_charge_wh", "node_charging_w"),
    *("node_price_per_core_hour", "node_price_per_gb"),
)
"""The settings that points replace: the metric of this name, of the entity with the node's name."""

FACTS_PERIOD_S = 2.0
"""The interval (s) at which the points of facts are read."""


_RETRY_S = 10.0
"""The time (s) after a failed request until the next one."""


class NodeFacts:
    """The facts of a node: the latest points of the metrics ``FACTS``, else the settings."""

    def __init__(self, agent: AgentClient, settings: WorkerSettings) -> None:
        self._agent = agent
        self._settings = settings
        self._due_at = 0.0
        self._points: Mapping[str, float] = {}

    def current(self) -> WorkerSettings:
        """Return the settings with the facts of the points, which are read if it is time.

        While the agent does not answer, the last points count.
        """
        now = times.monotonic()
        if now >= self._due_at:
            self._due_at = now + FACTS_PERIOD_S
            try:
                nodes = self._agent.get(list(FACTS), self._settings.node, latest=True)
            except MistbowError:
                # Announcements must not wait for two requests to a silent agent each time.
                nodes, self._due_at = None, times.monotonic() + _RETRY_S
            if nodes is not None:
                self._points = {
                    each.metric: each.values[-1].value
                    for node in nodes
                    for each in node.data
                    if each.values
                }
        return with_points(self._settings, self._points)


def with_points(settings: WorkerSettings, points: Mapping[str, float]) -> WorkerSettings:
    """Return settings in which points replace facts; impossible values replace none.

    A value that is no finite number, such as NaN, withdraws the points of a fact.

    >>> own = WorkerSettings(node_price_per_gb=0.1)
    >>> with_points(own, {"node_price_per_gb": 0.3}).node_price_per_gb
    0.3
    >>> with_points(own, {"node_price_per_gb": math.nan}).node_price_per_gb
    0.1
    """
    facts = {name: value for name, value in points.items() if 0 <= value < math.inf}
    found = settings.model_copy(update=facts)
    if found.node_full_w is not None and found.node_full_w < found.node_idle_w:
        found = found.model_copy(
            update={name: getattr(settings, name) for name in ("node_idle_w", "node_full_w")}
        )
    capacity, charge = found.node_battery_wh, found.node_charge_wh
    if capacity == 0:
        capacity = settings.node_battery_wh
    if charge is not None and (capacity is None or charge > capacity):
        charge = capacity
    return found.model_copy(update={"node_battery_wh": capacity, "node_charge_wh": charge})


def with_facts(worker: Worker, settings: WorkerSettings) -> Worker:
    """Return the announcement of a worker with the facts that the settings declare.

    Declared free cores replace the measured ones.
    """
    free = settings.node_cores_free
    return msgspec.structs.replace(
        worker,
        cores_free=worker.cores_free if free is None else min(free, worker.cores),
        power=_power(settings),
        price_per_core_hour=settings.node_price_per_core_hour,
        price_per_gb=settings.node_price_per_gb,
        position=settings.position,
    )


def with_battery(worker: Worker, settings: WorkerSettings, now_ms: int) -> Worker:
    """Return the announcement of a worker with the present charge of the node's battery."""
    return msgspec.structs.replace(worker, battery=_battery(settings, now_ms))


def next_time_ms(of_day: time, now_ms: int) -> int:
    """Return when (ms) a time of day (UTC) comes next.

    >>> next_time_ms(time(6, 30), now_ms=7 * 3_600_000)
    109800000
    """
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    today = datetime.combine(now.date(), of_day, UTC)
    return int((today if today > now else today + _DAY).timestamp() * 1000)


def _power(settings: WorkerSettings) -> Power | None:
    if settings.node_full_w is None:
        return None
    return Power(idle_w=settings.node_idle_w, full_w=settings.node_full_w)


def _battery(settings: WorkerSettings, now_ms: int) -> Battery | None:
    if settings.node_battery_wh is None:
        return None
    at = settings.node_charge_at
    return Battery(
        capacity_wh=settings.node_battery_wh,
        charge_wh=_charge_wh(settings, settings.node_battery_wh),
        charging_w=settings.node_charging_w,
        next_charge_at=None if at is None else next_time_ms(at, now_ms),
    )


def _charge_wh(settings: WorkerSettings, capacity_wh: float) -> float:
    """Return the declared charge; else the charge that the system measures, else a full one."""
    if settings.node_charge_wh is not None:
        return settings.node_charge_wh
    measured = psutil.sensors_battery()
    return capacity_wh if measured is None else capacity_wh * round(measured.percent) / 100
