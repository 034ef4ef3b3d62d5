"""Generates the reports of a city's buses, as the points of each tick."""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from city_workload.bus import MAX_DELAY_S, SEATS, Bus, new_bus
from city_workload.streets import Streets, degrees
from mistbow.client.agent_model import Point
from mistbow.errors import InvalidRequestError

_LINES = 12


@dataclass(frozen=True, slots=True)
class City:
    """The parameters of a city's traffic.

    ``rate``: the points/s of all ``vehicles`` together. ``regions``: from west to east.
    """

    regions: tuple[str, ...] = ("west", "centre", "east")
    vehicles: int = 200
    rate: float = 2000.0
    seed: int = 1
    tick_ms: int = 1000

    def __post_init__(self) -> None:
        """Reject a city without regions, vehicles or points."""
        if not self.regions or len(set(self.regions)) < len(self.regions):
            raise InvalidRequestError("a city needs at least one region, each with a unique name")
        if self.vehicles < 1 or not 0 < self.rate < math.inf or self.tick_ms < 1:
            raise InvalidRequestError("vehicles, rate and tick must be numbers above 0")


@dataclass(frozen=True, slots=True)
class _Metric:
    name: str
    units: str
    desc: str
    max_val: float | None = None


_LATITUDE = _Metric("latitude", "degrees", "how far north the bus is")
_LONGITUDE = _Metric("longitude", "degrees", "how far east the bus is")
_PASSENGERS = _Metric("passengers", "people", "riders on the bus now", SEATS)
_FARE = _Metric("fare", "EUR", "fares paid since the last report")
_DELAY = _Metric("delay", "seconds", "how late the bus is, behind the timetable", MAX_DELAY_S)

POINTS_PER_REPORT = 5


@dataclass(frozen=True, slots=True)
class TickBatch:
    """The points of one tick; their times are in ``[start, end)`` (ms)."""

    start: int
    end: int
    points: tuple[Point, ...]


def batches(city: City, start_ms: int) -> Iterator[TickBatch]:
    """Yield the points of each tick from ``start_ms`` on, endlessly.

    The buses report in turn, at regular intervals; each report contains all metrics of a bus.
    """
    random_source = random.Random(city.seed)  # noqa: S311 - the same each time, by design
    streets = Streets(city.regions)
    buses = [
        new_bus(f"line-{n % _LINES + 1}", streets, random_source) for n in range(city.vehicles)
    ]
    pause_ms = 1000 * POINTS_PER_REPORT / city.rate
    report = 0
    tick = start_ms
    while True:
        end = tick + city.tick_ms
        points: list[Point] = []
        while (ts := start_ms + int(report * pause_ms)) < end:
            number = report % city.vehicles
            since_last = min(report, city.vehicles) * pause_ms / 1000
            buses[number].drive(since_last, streets, random_source)
            points += _report(buses[number], f"bus-{number + 1}", ts, streets)
            report += 1
        yield TickBatch(tick, end, tuple(points))
        tick = end


def _report(bus: Bus, entity: str, ts: int, streets: Streets) -> list[Point]:
    east, north = bus.position_m
    latitude, longitude = degrees(east, north)
    labels: dict[str, str | int | float | bool] = {
        "region": streets.region(east),
        "line": bus.line,
    }
    values = (
        (_LATITUDE, latitude),
        (_LONGITUDE, longitude),
        (_PASSENGERS, float(bus.passengers)),
        (_FARE, round(bus.take_fares(), 2)),
        (_DELAY, round(bus.delay_s, 1)),
    )
    return [
        Point(
            metric=metric.name,
            entity=entity,
            ts=ts,
            value=value,
            entity_type="vehicle",
            units=metric.units,
            desc=metric.desc,
            group="traffic",
            min_val=None if metric.max_val is None else 0.0,
            max_val=metric.max_val,
            labels=labels,
        )
        for metric, value in values
    ]
