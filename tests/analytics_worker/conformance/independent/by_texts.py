"""BY after an aggregate."""

from tests.analytics_worker.conformance.independent.expectation import Expectation
from tests.analytics_worker.conformance.independent.points import MINUTE, SECOND, eq, of
from tests.analytics_worker.conformance.independent.tables import (
    both,
    mean,
    over,
    ratio,
    reduced,
    sdev,
    where,
)

DELAY = of("delay")

OPERAND = (
    "A BY in the middle of an expression belongs to the operand before it, and needs no "
    "parentheses."
)

EXPECTATIONS = (
    Expectation(
        (
            "riders_per_report = COMPUTE SUM(passengers, 1 MINUTES) BY line / COUNT(delay, 1 "
            "MINUTES) BY line EVERY 10 SECONDS"
        ),
        reference=OPERAND,
        values=lambda: both(
            over(of("passengers"), sum, MINUTE, 10 * SECOND, ("line",)),
            over(DELAY, len, MINUTE, 10 * SECOND, ("line",)),
            ratio,
        ),
    ),
    Expectation(
        (
            "events = COMPUTE COUNT(request, 30 SECONDS) BY region + COUNT(disease, 30 SECONDS) "
            "BY region EVERY 10 SECONDS"
        ),
        reference=OPERAND,
        values=lambda: both(
            over(of("request"), len, 30 * SECOND, 10 * SECOND, ("region",)),
            over(of("disease"), len, 30 * SECOND, 10 * SECOND, ("region",)),
            lambda x, y: x + y,
        ),
    ),
    Expectation(
        ("two_fullest = COMPUTE TOP_K[2](SUM(passengers, 1 MINUTES) BY stop) EVERY 10 SECONDS"),
        reference="A function can reduce the values of several keys.",
        values=lambda: reduced(
            over(of("passengers"), sum, MINUTE, 10 * SECOND, ("stop",)),
            lambda v: sorted(v, reverse=True)[:2],
        ),
    ),
    Expectation(
        (
            "emptiest_stop = COMPUTE MIN(SUM(passengers, 1 MINUTES) BY stop) BY line EVERY 10 "
            "SECONDS"
        ),
        reference="An inner BY adds its attributes to the attributes of the outer BY.",
        values=lambda: reduced(
            over(of("passengers"), sum, MINUTE, 10 * SECOND, ("line", "stop")), min, 1
        ),
    ),
    Expectation(
        (
            "least_gap = COMPUTE MIN(ARITHMETIC_MEAN(delay) BY line - ARITHMETIC_MEAN(speed) BY "
            "line) EVERY 10 SECONDS"
        ),
        reference=OPERAND,
        values=lambda: reduced(
            both(
                over(DELAY, mean, 10 * SECOND, 10 * SECOND, ("line",)),
                over(of("speed"), mean, 10 * SECOND, 10 * SECOND, ("line",)),
                lambda x, y: x - y,
            ),
            min,
        ),
    ),
    Expectation(
        (
            "malaria_percent = COMPUTE 100 * COUNT(disease WHEN == malaria, 1 MINUTES) BY region "
            "/ COUNT(disease, 1 MINUTES) BY region EVERY 10 SECONDS"
        ),
        reference=OPERAND,
        values=lambda: both(
            over(of("disease", eq("disease", "malaria")), len, MINUTE, 10 * SECOND, ("region",)),
            over(of("disease"), len, MINUTE, 10 * SECOND, ("region",)),
            lambda x, y: 100 * x / y,
        ),
    ),
    Expectation(
        (
            "stop_share = COMPUTE SUM(passengers, 30 SECONDS) BY stop / SUM(passengers, 30 "
            "SECONDS) EVERY 10 SECONDS"
        ),
        reference=("part of the reference: SUM(x) BY city / SUM(x)"),
        values=lambda: both(
            over(of("passengers"), sum, 30 * SECOND, 10 * SECOND, ("stop",)),
            over(of("passengers"), sum, 30 * SECOND, 10 * SECOND),
            ratio,
        ),
    ),
    Expectation(
        (
            "rising = COMPUTE ARITHMETIC_MEAN(delay) BY line WHEN > ARITHMETIC_MEAN(delay, 2 "
            "MINUTES) BY line EVERY 10 SECONDS"
        ),
        reference="In a condition, a BY after a function belongs to this function.",
        values=lambda: (
            lambda slow: where(
                over(DELAY, mean, 10 * SECOND, 10 * SECOND, ("line",)),
                lambda k, t, v: v > slow[k, t],
            )
        )(over(DELAY, mean, 2 * MINUTE, 10 * SECOND, ("line",))),
    ),
    Expectation(
        (
            "share_of_line = COMPUTE SUM(passengers, 1 MINUTES) BY line, stop / SUM(passengers, "
            "1 MINUTES) BY line EVERY 10 SECONDS"
        ),
        reference=(
            "A value of the operand with fewer attributes is joined with all keys of the other "
            "operand that have the same values."
        ),
        values=lambda: both(
            over(of("passengers"), sum, MINUTE, 10 * SECOND, ("line", "stop")),
            over(of("passengers"), sum, MINUTE, 10 * SECOND, ("line",)),
            ratio,
        ),
    ),
    Expectation(
        (
            "busy_nodes = COMPUTE COUNT(ARITHMETIC_MEAN(cpu_util, 30 SECONDS) BY node WHEN > 60) "
            "BY region EVERY 10 SECONDS"
        ),
        reference=("COUNT(AVG(cpu.util, 1 MINUTE) BY node WHEN > 90)"),
        values=lambda: reduced(
            where(
                over(of("cpu_util"), mean, 30 * SECOND, 10 * SECOND, ("region", "node")),
                lambda k, t, v: v > 60,
            ),
            len,
            1,
        ),
    ),
    Expectation(
        (
            "spread_and_mean = COMPUTE SQRT(VARIANCE(cpu_util, 30 SECONDS) BY node) / "
            "ARITHMETIC_MEAN(cpu_util, 30 SECONDS) BY node + 1 EVERY 10 SECONDS"
        ),
        reference=OPERAND,
        values=lambda: over(
            of("cpu_util"), lambda v: sdev(v) / mean(v) + 1, 30 * SECOND, 10 * SECOND, ("node",)
        ),
    ),
)
