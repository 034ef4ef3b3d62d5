"""GEOHASH of one position."""

from collections.abc import Callable

from tests.analytics_worker.conformance.independent.expectation import Expectation
from tests.analytics_worker.conformance.independent.geohashes import cell, geohash
from tests.analytics_worker.conformance.independent.points import MINUTE, SECOND, Point, eq, of
from tests.analytics_worker.conformance.independent.tables import (
    Table,
    cells,
    mean,
    over,
    where,
)

LATEST = "the argument is a position, which is read at the latest point of each key"

POSITION = 'bus_position: STREAM FROM position(metric="speed", latitude="lat", longitude="lon");\n'


def pair(length: int) -> Callable[[Point], str]:
    return lambda p: geohash(p.get("lat"), p.get("lon"), length)


def at_cell(table: Table, wanted: tuple[str, ...]) -> Table:
    now = cells(of("gps"), lambda p: cell(p.get("gps"), 5), 10 * SECOND, ("entityID",))
    return where(table, lambda k, t, v: now.get((k, t)) in wanted)


EXPECTATIONS = (
    Expectation(
        ("bus_cell = COMPUTE GEOHASH[6](gps) BY entityID EVERY 10 SECONDS"),
        reference=LATEST,
        values=lambda: cells(
            of("gps"), lambda p: cell(p.get("gps"), 6), 10 * SECOND, ("entityID",)
        ),
    ),
    Expectation(
        ("fix_cell = COMPUTE GEOHASH[5](fix) BY entityID EVERY 10 SECONDS"),
        reference="or the array [35.1, 33.4]",
        values=lambda: cells(
            of("fix"), lambda p: cell(p.get("fix"), 5), 10 * SECOND, ("entityID",)
        ),
    ),
    Expectation(
        (POSITION + "each_cell = COMPUTE GEOHASH[7](bus_position) BY entityID"),
        reference="Without EVERY, an insight has a value at the time of each new point.",
        values=lambda: {((p.entity,), p.ts): pair(7)(p) for p in of("speed")},
    ),
    Expectation(
        (
            POSITION
            + "moving_cell = COMPUTE GEOHASH[7](bus_position WHEN > 20) BY entityID EVERY 10 "
            "SECONDS"
        ),
        reference="FROM and WHEN after the position select points, as for a metric",
        values=lambda: cells(
            of("speed", lambda p: p.value > 20), pair(7), 10 * SECOND, ("entityID",)
        ),
    ),
    Expectation(
        ("cell_of_two = COMPUTE GEOHASH[6](gps FROM (bus_1, bus_6)) BY entityID EVERY 15 SECONDS"),
        reference="FROM and WHEN after the position select points, as for a metric",
        values=lambda: cells(
            of("gps", eq("entity", "bus_1", "bus_6")),
            lambda p: cell(p.get("gps"), 6),
            15 * SECOND,
            ("entityID",),
        ),
    ),
    Expectation(
        ("line_one_cell = COMPUTE GEOHASH[6](gps WHEN line == L1) BY entityID EVERY 10 SECONDS"),
        reference=LATEST,
        values=lambda: cells(
            of("gps", eq("line", "L1")), lambda p: cell(p.get("gps"), 6), 10 * SECOND, ("entityID",)
        ),
    ),
    Expectation(
        (
            "speed_in_cell = COMPUTE ARITHMETIC_MEAN(speed, 1 MINUTES) BY entityID WHEN "
            'GEOHASH[5](gps) == "swr8q" EVERY 10 SECONDS'
        ),
        reference="A text can only be compared by ==, != and IN.",
        values=lambda: at_cell(
            over(of("speed"), mean, MINUTE, 10 * SECOND, ("entityID",)), ("swr8q",)
        ),
    ),
    Expectation(
        (
            "crowd_in_cells = COMPUTE MAX(passengers, 30 SECONDS) BY entityID WHEN "
            "GEOHASH[5](gps) IN (swr8n, swr8m) EVERY 10 SECONDS"
        ),
        reference="A text can only be compared by ==, != and IN; bare names in a list are texts.",
        values=lambda: at_cell(
            over(of("passengers"), max, 30 * SECOND, 10 * SECOND, ("entityID",)), ("swr8n", "swr8m")
        ),
    ),
    Expectation(
        (POSITION + "city_cell = COMPUTE GEOHASH[8](bus_position) EVERY 5 SECONDS"),
        reference=LATEST,
        values=lambda: cells(of("speed"), pair(8), 5 * SECOND),
    ),
    Expectation(
        (
            POSITION
            + "line_cell = COMPUTE GEOHASH[6](bus_position FROM (bus_1, bus_2, bus_3) WHEN stop != "
            "stop_1 AND > 5) BY line EVERY 10 SECONDS"
        ),
        reference="BY: one value for each combination of values",
        values=lambda: cells(
            of(
                "speed",
                lambda p: (
                    p.entity in ("bus_1", "bus_2", "bus_3")
                    and p.get("stop") != "stop_1"
                    and p.value > 5
                ),
            ),
            pair(6),
            10 * SECOND,
            ("line",),
        ),
    ),
)
