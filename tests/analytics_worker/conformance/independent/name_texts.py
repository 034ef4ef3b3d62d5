"""Bare names as texts."""

from tests.analytics_worker.conformance.independent.expectation import Expectation
from tests.analytics_worker.conformance.independent.points import MINUTE, SECOND, eq, of
from tests.analytics_worker.conformance.independent.tables import mean, median, over

DELAY = of("delay")

BARE = "a bare name is a text if no metric and no attribute has this name"

EXPECTATIONS = (
    Expectation(
        (
            "east_cpu = COMPUTE ARITHMETIC_MEAN(cpu_util, 1 MINUTES) WHEN region == east EVERY "
            "10 SECONDS"
        ),
        reference=BARE,
        values=lambda: over(of("cpu_util", eq("region", "east")), mean, MINUTE, 10 * SECOND),
    ),
    Expectation(
        (
            "two_of_six = COMPUTE ARITHMETIC_MEAN(cpu_util) BY node_id WHEN node_id IN (node_1, "
            "node_6) EVERY 10 SECONDS"
        ),
        reference="In a list after IN, a bare name is always a text.",
        values=lambda: over(
            of("cpu_util", eq("node", "node_1", "node_6")),
            mean,
            10 * SECOND,
            10 * SECOND,
            ("node",),
        ),
    ),
    Expectation(
        ("malaria = COMPUTE COUNT(disease WHEN == malaria, 1 MINUTES) BY region EVERY 10 SECONDS"),
        reference="The text of a point is its label with the name of the metric.",
        values=lambda: over(
            of("disease", eq("disease", "malaria")), len, MINUTE, 10 * SECOND, ("region",)
        ),
    ),
    Expectation(
        (
            "others_of_children = COMPUTE COUNT(disease WHEN != malaria AND ward == children, 1 "
            "MINUTES) EVERY 10 SECONDS"
        ),
        reference="The text of a point is its label with the name of the metric.",
        values=lambda: over(
            of("disease", lambda p: p.get("disease") != "malaria" and p.get("ward") == "children"),
            len,
            MINUTE,
            10 * SECOND,
        ),
    ),
    Expectation(
        (
            "two_lines = COMPUTE MAX(delay WHEN line == L1 OR line == L2, 30 SECONDS) BY stop "
            "EVERY 10 SECONDS"
        ),
        reference=BARE,
        values=lambda: over(
            of("delay", eq("line", "L1", "L2")), max, 30 * SECOND, 10 * SECOND, ("stop",)
        ),
    ),
    Expectation(
        (
            "filed = COMPUTE COUNT(report WHEN quantity IN (delay, speed), 1 MINUTES) EVERY 10 "
            "SECONDS"
        ),
        reference=("In a list after IN, a bare name is always a text (also where it is a metric)."),
        values=lambda: over(
            of("report", eq("quantity", "delay", "speed")), len, MINUTE, 10 * SECOND
        ),
    ),
    Expectation(
        (
            "outskirts = COMPUTE MEDIAN(delay WHEN stop NOT IN (stop_1, stop_2), 30 SECONDS) BY "
            "line EVERY 10 SECONDS"
        ),
        reference="NOT IN",
        values=lambda: over(
            of("delay", lambda p: p.get("stop") not in ("stop_1", "stop_2")),
            median,
            30 * SECOND,
            10 * SECOND,
            ("line",),
        ),
    ),
    Expectation(
        (
            "not_east = COMPUTE MIN(cost, 30 SECONDS) BY region WHEN NOT region == east EVERY 10 "
            "SECONDS"
        ),
        reference=BARE,
        values=lambda: over(
            of("cost", lambda p: p.get("region") != "east"),
            min,
            30 * SECOND,
            10 * SECOND,
            ("region",),
        ),
    ),
    Expectation(
        (
            "front_cpu = COMPUTE MAX(cpu_util, 30 SECONDS) BY node WHEN service == web.front "
            "EVERY 10 SECONDS"
        ),
        reference="A name consists of letters, digits, `_` and dots.",
        values=lambda: over(
            of("cpu_util", eq("service", "web.front")), max, 30 * SECOND, 10 * SECOND, ("node",)
        ),
    ),
    Expectation(
        (
            "city_heat = COMPUTE MAX(temperature WHEN city == nicosia AND > 37, 30 SECONDS) BY "
            "ward EVERY 10 SECONDS"
        ),
        reference=BARE,
        values=lambda: over(
            of("temperature", lambda p: p.get("city") == "nicosia" and p.value > 37),
            max,
            30 * SECOND,
            10 * SECOND,
            ("ward",),
        ),
    ),
)
