"""The facts of a worker's node that schedulers weigh: power, battery, prices, position."""

from datetime import UTC, datetime, time, timedelta

import msgspec
import psutil

from analytics_worker.settings import WorkerSettings
from mistbow.fabric import Battery, Power, Worker

_DAY = timedelta(days=1)


def with_facts(worker: Worker, settings: WorkerSettings) -> Worker:
    """Return the announcement of a worker with the facts that the settings declare."""
    return msgspec.structs.replace(
        worker,
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
