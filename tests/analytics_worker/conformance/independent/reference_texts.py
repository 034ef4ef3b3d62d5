"""INSIGHT at a finer EVERY."""

from tests.analytics_worker.conformance.independent.expectation import Expectation
from tests.analytics_worker.conformance.independent.points import MINUTE, SECOND, of
from tests.analytics_worker.conformance.independent.tables import (
    Table,
    both,
    last_of,
    mean,
    over,
    ratio,
    reduced,
    where,
)

DELAY = of("delay")

LAST_TICK = "If the interval of A is shorter, the reference has the value of the last tick of B."

USUAL = "usual_delay = COMPUTE ARITHMETIC_MEAN(delay, 1 MINUTES) BY line EVERY 30 SECONDS;\n"


def usual(every: int) -> Table:
    return last_of(over(DELAY, mean, MINUTE, 30 * SECOND, ("line",)), 30 * SECOND, every)


EXPECTATIONS = (
    Expectation(
        (USUAL + "held = COMPUTE INSIGHT usual_delay EVERY 5 SECONDS"),
        reference=LAST_TICK,
        values=lambda: usual(5 * SECOND),
    ),
    Expectation(
        (
            USUAL
            + "rise = COMPUTE ARITHMETIC_MEAN(delay) BY line - INSIGHT usual_delay EVERY 10 SECONDS"
        ),
        reference=LAST_TICK,
        values=lambda: both(
            over(DELAY, mean, 10 * SECOND, 10 * SECOND, ("line",)),
            usual(10 * SECOND),
            lambda x, y: x - y,
        ),
    ),
    Expectation(
        (
            USUAL
            + "peak_above = COMPUTE MAX(delay) BY line WHEN > 2 * INSIGHT usual_delay EVERY 10 "
            "SECONDS"
        ),
        reference=LAST_TICK,
        values=lambda: (
            lambda u: where(
                over(DELAY, max, 10 * SECOND, 10 * SECOND, ("line",)),
                lambda k, t, v: (k, t) in u and v > 2 * u[k, t],
            )
        )(usual(10 * SECOND)),
    ),
    Expectation(
        (
            "crowded = COMPUTE SUM(passengers, 15 SECONDS) BY stop WHEN > 22 EVERY 30 SECONDS;\n"
            "crowded_now = COMPUTE INSIGHT crowded + 0 EVERY 10 SECONDS"
        ),
        reference=(
            "If B had no value at this tick, the reference has no value; it has a value only if "
            "the WHEN of B is true."
        ),
        values=lambda: last_of(
            where(
                over(of("passengers"), sum, 15 * SECOND, 30 * SECOND, ("stop",)),
                lambda k, t, v: v > 22,
            ),
            30 * SECOND,
            10 * SECOND,
        ),
    ),
    Expectation(
        (USUAL + "uneven = COMPUTE 10 * INSIGHT usual_delay EVERY 20 SECONDS"),
        reference=(LAST_TICK + " (20 seconds do not divide 30 seconds)"),
        values=lambda: {at: 10 * v for at, v in usual(20 * SECOND).items()},
    ),
    Expectation(
        (
            "all_reports = COMPUTE COUNT(delay) EVERY 30 SECONDS;\n"
            "report_share = COMPUTE COUNT(delay) BY line / INSIGHT all_reports EVERY 5 SECONDS"
        ),
        reference=(
            "An operand without keys has one value, which is joined with all keys of the other "
            "operand."
        ),
        values=lambda: both(
            over(DELAY, len, 5 * SECOND, 5 * SECOND, ("line",)),
            last_of(over(DELAY, len, 30 * SECOND, 30 * SECOND), 30 * SECOND, 5 * SECOND),
            ratio,
        ),
    ),
    Expectation(
        (
            USUAL + "slow_delay = COMPUTE MAX(delay, 1 MINUTES) BY line EVERY 1 MINUTES;\n"
            "of_slow = COMPUTE INSIGHT usual_delay / INSIGHT slow_delay EVERY 10 SECONDS"
        ),
        reference="each at its own last tick",
        values=lambda: both(
            usual(10 * SECOND),
            last_of(over(DELAY, max, MINUTE, MINUTE, ("line",)), MINUTE, 10 * SECOND),
            ratio,
        ),
    ),
    Expectation(
        (USUAL + "worst_usual = COMPUTE MAX(INSIGHT usual_delay) EVERY 10 SECONDS"),
        reference="A function can reduce the values of several keys: at each tick.",
        values=lambda: reduced(usual(10 * SECOND), max),
    ),
    Expectation(
        (USUAL + "line_two_usual = COMPUTE INSIGHT usual_delay WHEN line == L2 EVERY 1 SECONDS"),
        reference=(LAST_TICK + " (the minute of the city, compared with a text of the key)"),
        values=lambda: where(usual(1 * SECOND), lambda k, t, v: k == ("L2",)),
    ),
)
