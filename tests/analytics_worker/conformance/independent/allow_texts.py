"""ALLOW WHEN with aggregates, metrics and attributes; options in any order."""

from collections.abc import Callable

from tests.analytics_worker.conformance.independent.expectation import Expectation
from tests.analytics_worker.conformance.independent.points import MINUTE, SECOND, Point, of
from tests.analytics_worker.conformance.independent.tables import (
    Table,
    latest,
    mean,
    median,
    over,
    where,
)

DELAY = of("delay")

POINTS_AND_RESULTS = (
    "Each part applies either to points or to results: all aggregates exclude other points; "
    "other results are not written."
)


def count_of(points: list[Point], window: int, every: int, by: tuple[str, ...]) -> Table:
    return over(points, len, window, every, by)


def allowed_counts() -> Table:
    mild = of("delay", lambda p: p.value < 6)
    counts = count_of(mild, 10 * SECOND, 10 * SECOND, ("line",))
    return where(
        over(mild, mean, 10 * SECOND, 10 * SECOND, ("line",)), lambda k, t, v: counts[k, t] >= 3
    )


def cheapest(quantity: Callable[[Point], float]) -> Table:
    now = latest(of("cost"), 10 * SECOND, ("node",))
    least = over(of("cost"), min, 10 * SECOND, 10 * SECOND, ("node",))
    return where(
        over(of("cost"), mean, 10 * SECOND, 10 * SECOND, ("node",)),
        lambda k, t, v: quantity(now[k, t]) == least[k, t],
    )


def below_limit() -> Table:
    now = latest(of("temperature"), 20 * SECOND, ("city",))
    heat = over(of("temperature"), max, 20 * SECOND, 20 * SECOND, ("city",))
    level = over(of("temperature"), mean, 20 * SECOND, 20 * SECOND, ("city",))
    return where(heat, lambda k, t, v: now[k, t].get("limit") > level[k, t])


EXPECTATIONS = (
    Expectation(
        (
            "shy_delay = COMPUTE ARITHMETIC_MEAN(delay) BY line EVERY 10 SECONDS WITH ALLOW WHEN "
            "COUNT(delay) >= 3 AND delay < 6"
        ),
        reference=POINTS_AND_RESULTS,
        values=allowed_counts,
    ),
    Expectation(
        (
            "shy_again = COMPUTE ARITHMETIC_MEAN(delay) BY line EVERY 10 SECONDS WITH SALIENCE 2 "
            "AND ALLOW WHEN (COUNT(delay) >= 3 AND delay < 6)"
        ),
        reference=POINTS_AND_RESULTS,
        values=allowed_counts,
    ),
    Expectation(
        (
            "late_elsewhere = COMPUTE MAX(delay, 30 SECONDS) BY stop EVERY 10 SECONDS WITH ALLOW "
            "WHEN (delay > 0 AND stop != stop_2) AND SIGNATURE 'night_board'"
        ),
        reference=POINTS_AND_RESULTS,
        values=lambda: over(
            of("delay", lambda p: p.value > 0 and p.get("stop") != "stop_2"),
            max,
            30 * SECOND,
            10 * SECOND,
            ("stop",),
        ),
    ),
    Expectation(
        (
            "cost_at_least = COMPUTE ARITHMETIC_MEAN(cost) BY node EVERY 10 SECONDS WITH ALLOW "
            "WHEN cost == MIN(cost) AND SCHEDULER=latency"
        ),
        reference=(
            "A name in such a part that is not in BY is a metric, and means the current value, "
            "as in `dc_cost == MIN(cost)`."
        ),
        values=lambda: cheapest(lambda p: p.value),
    ),
    Expectation(
        (
            "cost_as_listed = COMPUTE ARITHMETIC_MEAN(cost) BY node EVERY 10 SECONDS WITH ALLOW "
            "WHEN dc_cost == MIN(cost)"
        ),
        reference=(
            "If only an attribute has this name, and no metric, the name means the attribute at "
            "the latest point of the first metric of the insight"
        ),
        values=lambda: cheapest(lambda p: p.get("dc_cost")),
    ),
    Expectation(
        (
            "bearable = COMPUTE MAX(temperature) BY city EVERY 20 SECONDS WITH ALLOW WHEN limit "
            "> ARITHMETIC_MEAN(temperature)"
        ),
        reference="the name means the attribute at the latest point of the first metric",
        values=below_limit,
    ),
    Expectation(
        (
            "middling = COMPUTE ARITHMETIC_MEAN(delay) BY stop EVERY 10 SECONDS WITH ALLOW WHEN "
            "> 1 AND < 5"
        ),
        reference=("results: conditions on the value (the left side is omitted) and on aggregates"),
        values=lambda: where(
            over(DELAY, mean, 10 * SECOND, 10 * SECOND, ("stop",)), lambda k, t, v: 1 < v < 5
        ),
    ),
    Expectation(
        (
            "steady = COMPUTE ARITHMETIC_MEAN(delay, 30 SECONDS) BY line EVERY 10 SECONDS WITH "
            "ALLOW WHEN MAX(delay) - MIN(delay) < 7 AND SALIENCE 1"
        ),
        reference="results: conditions on aggregates",
        values=lambda: (
            lambda gap: where(
                over(DELAY, mean, 30 * SECOND, 10 * SECOND, ("line",)),
                lambda k, t, v: gap.get((k, t), 9) < 7,
            )
        )(over(DELAY, lambda v: max(v) - min(v), 10 * SECOND, 10 * SECOND, ("line",))),
    ),
    Expectation(
        (
            "many_or_late = COMPUTE SUM(passengers) BY stop EVERY 10 SECONDS WITH ALLOW WHEN "
            "(COUNT(passengers) >= 4 OR MAX(passengers) > 9)"
        ),
        reference="conditions on aggregates, combined by OR in parentheses",
        values=lambda: (
            lambda n, peak: where(
                over(of("passengers"), sum, 10 * SECOND, 10 * SECOND, ("stop",)),
                lambda k, t, v: n[k, t] >= 4 or peak[k, t] > 9,
            )
        )(
            over(of("passengers"), len, 10 * SECOND, 10 * SECOND, ("stop",)),
            over(of("passengers"), max, 10 * SECOND, 10 * SECOND, ("stop",)),
        ),
    ),
    Expectation(
        (
            "skewed = COMPUTE COUNT(delay, 1 MINUTES) BY line EVERY 10 SECONDS WITH ALLOW WHEN "
            "ARITHMETIC_MEAN(delay, 1 MINUTES) > MEDIAN(delay, 1 MINUTES)"
        ),
        reference="aggregates on both sides",
        values=lambda: (
            lambda m, d: where(
                over(DELAY, len, MINUTE, 10 * SECOND, ("line",)), lambda k, t, v: m[k, t] > d[k, t]
            )
        )(
            over(DELAY, mean, MINUTE, 10 * SECOND, ("line",)),
            over(DELAY, median, MINUTE, 10 * SECOND, ("line",)),
        ),
    ),
    Expectation(
        (
            "two_nodes_cpu = COMPUTE ARITHMETIC_MEAN(cpu_util, 30 SECONDS) BY node EVERY 10 "
            "SECONDS WITH ALLOW WHEN node IN (node_1, node_2) AND cpu_util <= 90 AND SIGNATURE "
            "'ops_team' AND SALIENCE 3"
        ),
        reference="conditions on attributes, including attributes in BY, and on values of a metric",
        values=lambda: over(
            of("cpu_util", lambda p: p.get("node") in ("node_1", "node_2") and p.value <= 90),
            mean,
            30 * SECOND,
            10 * SECOND,
            ("node",),
        ),
    ),
    Expectation(
        (
            "counted = COMPUTE COUNT(passengers, 1 MINUTES) BY line EVERY 10 SECONDS WITH "
            "CONFIDENCE 0.9 AND ALLOW WHEN line != L3 AND MAX_ERROR 0.1"
        ),
        reference="Options are joined by AND, in any order. COUNT over a sample: exact.",
        values=lambda: over(
            of("passengers", lambda p: p.get("line") != "L3"), len, MINUTE, 10 * SECOND, ("line",)
        ),
    ),
)
