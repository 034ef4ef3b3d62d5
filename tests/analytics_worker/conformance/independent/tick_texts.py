"""Statistics over values of ticks."""

from tests.analytics_worker.conformance.independent.expectation import Expectation
from tests.analytics_worker.conformance.independent.points import MINUTE, SECOND, of
from tests.analytics_worker.conformance.independent.tables import (
    Table,
    correlated,
    mean,
    median,
    of_ticks,
    over,
    percentile,
    sdev,
    ticks,
)

DELAY = of("delay")

OF_TICKS = "the function reads the values at several ticks: the ticks in (t − W, t]"

MEAN_DELAY = "mean_delay = COMPUTE ARITHMETIC_MEAN(delay, 1 MINUTES) BY line EVERY 10 SECONDS;\n"


def mean_delay() -> Table:
    return over(DELAY, mean, MINUTE, 10 * SECOND, ("line",))


EXPECTATIONS = (
    Expectation(
        ("level_soon = COMPUTE FORECAST[3](ARITHMETIC_MEAN(level)) EVERY 5 SECONDS"),
        reference=(
            "If all steps are equal, the forecast is their value. Without a window: the last 60 "
            "ticks; at least 4 steps."
        ),
        values=lambda: {((), t): 7.5 for t in ticks(5 * SECOND) if t >= 20 * SECOND},
    ),
    Expectation(
        ("ramp_soon = COMPUTE FORECAST[2](MAX(ramp), 1 MINUTES) BY line EVERY 5 SECONDS"),
        reference="Holt-Winters of a straight line continues it.",
        values=lambda: {
            (("L1",), t): 10.0 + 2 * (t // (5 * SECOND) - 1 + 2)
            for t in ticks(5 * SECOND)
            if t >= 20 * SECOND
        },
    ),
    Expectation(
        (
            "next_delays = COMPUTE FORECAST[3](ARITHMETIC_MEAN(delay WHEN > 0, 1 MINUTES)) BY "
            "stop EVERY 10 SECONDS"
        ),
        reference="next_delays of the reference: the oracle decides, not this file.",
    ),
    Expectation(
        (
            "usual_mean = COMPUTE MEDIAN(ARITHMETIC_MEAN(delay, 30 SECONDS), 2 MINUTES) BY line "
            "EVERY 10 SECONDS"
        ),
        reference=OF_TICKS,
        values=lambda: of_ticks(
            over(DELAY, mean, 30 * SECOND, 10 * SECOND, ("line",)), median, 2 * MINUTE, 10 * SECOND
        ),
    ),
    Expectation(
        (
            "high_requests = COMPUTE PERCENTILE[95](COUNT(request) BY movie, 1 MINUTES) EVERY 10 "
            "SECONDS"
        ),
        reference=(
            "If the argument has more attributes in its BY, the function reads the values of all "
            "these keys."
        ),
        values=lambda: of_ticks(
            over(of("request"), len, 10 * SECOND, 10 * SECOND, ("movie",)),
            percentile(95),
            MINUTE,
            10 * SECOND,
            0,
        ),
    ),
    Expectation(
        (
            "load_and_cpu = COMPUTE CORRELATION(COUNT(request), ARITHMETIC_MEAN(cpu_util), 2 "
            "MINUTES) BY region EVERY 10 SECONDS"
        ),
        reference=OF_TICKS,
        values=lambda: correlated(
            over(of("request"), len, 10 * SECOND, 10 * SECOND, ("region",)),
            over(of("cpu_util"), mean, 10 * SECOND, 10 * SECOND, ("region",)),
            2 * MINUTE,
            10 * SECOND,
        ),
    ),
    Expectation(
        (
            "delay_and_crowd = COMPUTE CORRELATION(ARITHMETIC_MEAN(delay), SUM(passengers)) BY "
            "line EVERY 5 SECONDS"
        ),
        reference="without a window, they read the last 60 ticks",
        values=lambda: correlated(
            over(DELAY, mean, 5 * SECOND, 5 * SECOND, ("line",)),
            over(of("passengers"), sum, 5 * SECOND, 5 * SECOND, ("line",)),
            300 * SECOND,
            5 * SECOND,
        ),
    ),
    Expectation(
        ("crowd_unrest = COMPUTE SDEV(SUM(passengers), 1 MINUTES) BY line EVERY 10 SECONDS"),
        reference=OF_TICKS,
        values=lambda: of_ticks(
            over(of("passengers"), sum, 10 * SECOND, 10 * SECOND, ("line",)),
            sdev,
            MINUTE,
            10 * SECOND,
        ),
    ),
    Expectation(
        (
            MEAN_DELAY
            + "median_of_means = COMPUTE MEDIAN(INSIGHT mean_delay, 1 MINUTES) EVERY 10 SECONDS"
        ),
        reference="An INSIGHT can be an argument too.",
        values=lambda: of_ticks(mean_delay(), median, MINUTE, 10 * SECOND, 0),
    ),
    Expectation(
        (
            MEAN_DELAY + "line_crowd = COMPUTE SUM(passengers) BY line EVERY 10 SECONDS;\n"
            "moving_together = COMPUTE CORRELATION(INSIGHT mean_delay, INSIGHT line_crowd, 2 "
            "MINUTES) BY line EVERY 10 SECONDS"
        ),
        reference="An INSIGHT can be an argument too.",
        values=lambda: correlated(
            mean_delay(),
            over(of("passengers"), sum, 10 * SECOND, 10 * SECOND, ("line",)),
            2 * MINUTE,
            10 * SECOND,
        ),
    ),
    Expectation(
        (
            "gap_percentile = COMPUTE PERCENTILE[75](MAX(delay) - MIN(delay), 1 MINUTES) BY stop "
            "EVERY 10 SECONDS"
        ),
        reference=OF_TICKS + "; a calculated value",
        values=lambda: of_ticks(
            over(DELAY, lambda v: max(v) - min(v), 10 * SECOND, 10 * SECOND, ("stop",)),
            percentile(75),
            MINUTE,
            10 * SECOND,
        ),
    ),
)
