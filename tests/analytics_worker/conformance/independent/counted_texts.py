"""EVERY n POINTS together with aggregates without a window."""

from tests.analytics_worker.conformance.independent.expectation import Expectation
from tests.analytics_worker.conformance.independent.points import eq, of
from tests.analytics_worker.conformance.independent.tables import (
    mean,
    median,
    percentile,
    sdev,
    spans,
    where,
)

DELAY = of("delay")

SPAN = "Without a window, an aggregate covers the points of its key since the previous value."

EXPECTATIONS = (
    Expectation(
        ("delay_of_five = COMPUTE ARITHMETIC_MEAN(delay) BY stop EVERY 5 POINTS"),
        reference=SPAN,
        values=lambda: spans(DELAY, mean, 5, ("stop",)),
    ),
    Expectation(
        ("bus_swing = COMPUTE MAX(delay) - MIN(delay) BY entityID EVERY 4 POINTS"),
        reference=SPAN,
        values=lambda: spans(DELAY, lambda v: max(v) - min(v), 4, ("entityID",)),
    ),
    Expectation(
        ("lateness_sum = COMPUTE SUM(delay WHEN > 0) BY line EVERY 3 POINTS"),
        reference="The count includes the points of all metrics that match FROM and WHEN.",
        values=lambda: spans(of("delay", lambda p: p.value > 0), sum, 3, ("line",)),
    ),
    Expectation(
        (
            "cpu_variation = COMPUTE 100 * SDEV(cpu_util) / ARITHMETIC_MEAN(cpu_util) EVERY 10 "
            "POINTS"
        ),
        reference=SPAN,
        values=lambda: spans(of("cpu_util"), lambda v: 100 * sdev(v) / mean(v), 10),
    ),
    Expectation(
        ("bus_pace = COMPUTE MEDIAN(speed) BY entityID EVERY 6 POINTS"),
        reference=SPAN,
        values=lambda: spans(of("speed"), median, 6, ("entityID",)),
    ),
    Expectation(
        ("malaria_pairs = COMPUTE COUNT(disease WHEN == malaria) BY region EVERY 2 POINTS"),
        reference=(
            "`disease WHEN == malaria` selects the points of `disease` whose label `disease` is "
            "`malaria`."
        ),
        values=lambda: spans(of("disease", eq("disease", "malaria")), len, 2, ("region",)),
    ),
    Expectation(
        (
            "crowd_of_line_one = COMPUTE PERCENTILE[90](passengers FROM (bus_1, bus_2)) EVERY 7 "
            "POINTS"
        ),
        reference="FROM restricts an aggregate to the points of some entities.",
        values=lambda: spans(of("passengers", eq("entity", "bus_1", "bus_2")), percentile(90), 7),
    ),
    Expectation(
        ("late_stop = COMPUTE ARITHMETIC_MEAN(delay) BY stop WHEN > 3 EVERY 5 POINTS"),
        reference="Only results that satisfy the condition are written.",
        values=lambda: where(spans(DELAY, mean, 5, ("stop",)), lambda k, t, v: v > 3),
    ),
    Expectation(
        ('fastest_of_line = COMPUTE MAX(speed) BY entityID WHEN line == "L1" EVERY 3 POINTS'),
        reference="points: conditions on attributes that are not in BY",
        values=lambda: spans(of("speed", eq("line", "L1")), max, 3, ("entityID",)),
    ),
    Expectation(
        ("boarded = COMPUTE SUM(passengers) BY line EVERY 5 POINTS"),
        reference=(
            "If several points of a key have the same time, and one of them is the n-th point, "
            "the key has one value at this time."
        ),
        values=lambda: spans(of("passengers"), sum, 5, ("line",)),
    ),
    Expectation(
        ("two_hottest = COMPUTE TOP_K[2](temperature) BY region EVERY 8 POINTS"),
        reference="TOP_K[k]: the k greatest values, in descending order",
        values=lambda: spans(
            of("temperature"), lambda v: sorted(v, reverse=True)[:2], 8, ("region",)
        ),
    ),
)
