"""The facts of a node that a worker announces: power, battery, prices, position."""

import math
from datetime import time

import msgspec
import pytest
from pydantic import ValidationError

from analytics_worker.lifecycle.announcer import announcement
from analytics_worker.lifecycle.node_facts import (
    next_time_ms,
    with_battery,
    with_facts,
    with_points,
)
from analytics_worker.settings import WorkerSettings
from mistbow.fabric import Battery, Position, Power, Worker

HOUR_MS = 3_600_000


def test_worker_announces_what_the_settings_declare() -> None:
    settings = WorkerSettings(
        node_idle_w=2,
        node_full_w=8,
        node_price_per_core_hour=0.5,
        node_price_per_gb=3,
        node_position="35.17, 33.36",
    )
    worker = announcement(settings)
    assert worker.power == Power(idle_w=2, full_w=8)
    assert (worker.price_per_core_hour, worker.price_per_gb) == (0.5, 3)
    assert worker.position == Position(latitude=35.17, longitude=33.36)


def test_worker_without_such_settings_announces_no_facts() -> None:
    worker = with_battery(announcement(WorkerSettings()), WorkerSettings(), 0)
    assert (worker.power, worker.battery, worker.position) == (None, None, None)
    assert (worker.price_per_core_hour, worker.price_per_gb) == (None, None)


def test_battery_has_its_next_charge_as_a_time() -> None:
    settings = WorkerSettings(
        node_battery_wh=100, node_charge_wh=40, node_charging_w=5, node_charge_at=time(6, 30)
    )
    worker = with_battery(announcement(settings), settings, 5 * HOUR_MS)
    assert worker.battery == Battery(
        capacity_wh=100, charge_wh=40, charging_w=5, next_charge_at=int(6.5 * HOUR_MS)
    )
    assert next_time_ms(time(6, 30), int(6.5 * HOUR_MS)) == int(30.5 * HOUR_MS)


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ({"node_idle_w": 9, "node_full_w": 8}, "MISTBOW_NODE_FULL_W"),
        ({"node_charge_wh": 9}, "MISTBOW_NODE_CHARGE_WH"),
        ({"node_battery_wh": 8, "node_charge_wh": 9}, "MISTBOW_NODE_CHARGE_WH"),
        ({"node_position": "35"}, "not of the form LATITUDE,LONGITUDE"),
        ({"node_position": "95,33"}, "latitude must be from -90 to 90"),
        ({"node_price_per_gb": -1}, "greater than or equal to 0"),
    ],
)
def test_impossible_setting_is_rejected(setting: dict[str, object], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        WorkerSettings(**setting)  # type: ignore[arg-type]


def test_announcement_of_an_older_worker_decodes() -> None:
    plain = {"name": "w", "url": "http://w", "cores": 1, "memory_mb": 1}
    worker = msgspec.convert({**plain, "cores_free": 1, "memory_free_mb": 1}, Worker)
    assert (worker.power, worker.battery, worker.price_per_gb) == (None, None, None)


def test_announcement_with_a_negative_price_is_rejected() -> None:
    plain = {"name": "w", "url": "http://w", "cores": 1, "memory_mb": 1, "price_per_gb": -1}
    with pytest.raises(msgspec.ValidationError, match="price_per_gb"):
        msgspec.convert({**plain, "cores_free": 1, "memory_free_mb": 1}, Worker)


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ({"node_full_w": 5.0}, {"node_idle_w": 2.0, "node_full_w": 5.0}),
        ({"node_full_w": 1.0}, {"node_idle_w": 2.0, "node_full_w": 8.0}),
        ({"node_charge_wh": 30.0}, {"node_charge_wh": 20.0}),
        ({"node_battery_wh": 0.0}, {"node_battery_wh": 20.0}),
        ({"node_battery_wh": 6.0}, {"node_battery_wh": 6.0, "node_charge_wh": 6.0}),
        ({"node_price_per_gb": -1.0}, {"node_price_per_gb": 0.5}),
        ({"node_price_per_gb": math.inf}, {"node_price_per_gb": 0.5}),
    ],
)
def test_points_replace_facts_unless_they_are_impossible(
    points: dict[str, float], expected: dict[str, float]
) -> None:
    settings = WorkerSettings(
        node_idle_w=2, node_full_w=8, node_battery_wh=20, node_charge_wh=10, node_price_per_gb=0.5
    )
    found = with_points(settings, points)
    assert {name: getattr(found, name) for name in expected} == expected


def test_declared_free_cores_are_at_most_the_cores() -> None:
    worker = Worker(name="w", url="", cores=2, memory_mb=1, cores_free=2, memory_free_mb=1)
    for free, expected in ((0.5, 0.5), (3.0, 2.0), (None, 2.0)):
        assert with_facts(worker, WorkerSettings(node_cores_free=free)).cores_free == expected
