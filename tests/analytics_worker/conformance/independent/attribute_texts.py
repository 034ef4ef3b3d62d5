"""COMPUTE of an attribute or a stream."""

from collections.abc import Callable

from tests.analytics_worker.conformance.independent.expectation import Expectation
from tests.analytics_worker.conformance.independent.points import MINUTE, SECOND, Point, eq, of
from tests.analytics_worker.conformance.independent.tables import (
    Key,
    Table,
    current,
    keyed,
    latest,
    mean,
    over,
    sdev,
    where,
)

DELAY = of("delay")

AT_LATEST = "the value of this attribute at the latest point of the first metric in WHEN"


def attribute(
    points: list[Point],
    name: str,
    every: int,
    keep: Callable[[Key, int, float], bool],
    by: tuple[str, ...] = (),
) -> Table:
    return {
        (k, t): p.get(name)
        for (k, t), p in latest(points, every, by).items()
        if keep(k, t, p.value)
    }


def outlying_stops() -> Table:
    out: Table = {}
    for i, p in enumerate(DELAY):
        so_far = [q.value for q in DELAY[: i + 1]]
        if p.value > mean(so_far) + sdev(so_far):
            out[(), p.ts] = p.get("stop")
    return out


def hot_wards() -> Table:
    out: Table = {}
    for key, group in keyed(of("temperature"), ("city",)).items():
        for i, p in enumerate(group):
            if p.value > mean([q.value for q in group[: i + 1]]):
                out[key, p.ts] = p.get("ward")
    return out


MEAN_DELAY = "mean_delay = COMPUTE ARITHMETIC_MEAN(delay, 1 MINUTES) BY line EVERY 10 SECONDS;\n"


def mean_delay() -> Table:
    return over(DELAY, mean, MINUTE, 10 * SECOND, ("line",))


def driver_when_line_late() -> Table:
    table = mean_delay()
    return attribute(
        DELAY, "driver", 10 * SECOND, lambda k, t, v: table.get((k, t), -1) > 2, ("line",)
    )


LINE_ONE = 'line_one: STREAM FROM storage(line="L1");\n'

CURRENT_OF = (
    "The result is then the current value of the metric in WHEN over the points of the stream."
)

EXPECTATIONS = (
    Expectation(
        ("late_driver = COMPUTE driver WHEN delay > 4 EVERY 10 SECONDS"),
        reference=AT_LATEST,
        values=lambda: attribute(DELAY, "driver", 10 * SECOND, lambda k, t, v: v > 4),
    ),
    Expectation(
        ("late_line = COMPUTE line BY stop WHEN delay > 4 EVERY 10 SECONDS"),
        reference=AT_LATEST,
        values=lambda: attribute(DELAY, "line", 10 * SECOND, lambda k, t, v: v > 4, ("stop",)),
    ),
    Expectation(
        ("late_place = COMPUTE stop WHEN delay > RUNNING_MEAN(delay) + RUNNING_SDEV(delay)"),
        reference="Without EVERY, a key has a value at each point.",
        values=outlying_stops,
    ),
    Expectation(
        ("cheap_centre = COMPUTE dc_id EVERY 10 SECONDS WITH ALLOW WHEN cost < 8"),
        reference=(
            "the condition of ALLOW may name a metric: then the points of that metric determine "
            "the attribute"
        ),
        values=lambda: attribute(
            of("cost", lambda p: p.value < 8), "dc_id", 10 * SECOND, lambda k, t, v: True
        ),
    ),
    Expectation(
        (
            MEAN_DELAY
            + "driver_of_late_line = COMPUTE driver WHEN INSIGHT mean_delay > 2 EVERY 10 SECONDS"
        ),
        reference="With an INSIGHT, there is a text for each key of this insight.",
        values=driver_when_line_late,
    ),
    Expectation(
        (LINE_ONE + "line_one_late = COMPUTE line_one WHEN delay > 3 EVERY 10 SECONDS"),
        reference=CURRENT_OF,
        values=lambda: where(
            current(of("delay", eq("line", "L1")), 10 * SECOND), lambda k, t, v: v > 3
        ),
    ),
    Expectation(
        (LINE_ONE + "line_one_stops = COMPUTE line_one BY stop WHEN delay > 1 EVERY 10 SECONDS"),
        reference=CURRENT_OF,
        values=lambda: where(
            current(of("delay", eq("line", "L1")), 10 * SECOND, ("stop",)), lambda k, t, v: v > 1
        ),
    ),
    Expectation(
        (
            "stop_of_late_line = COMPUTE stop BY line WHEN delay > 2 AND MAX(delay, 1 MINUTES) > "
            "6 EVERY 10 SECONDS"
        ),
        reference=("busiest_now: COMPUTE node BY region WHEN cpu > 90 AND MAX(cpu, 1 MINUTE) > 95"),
        values=lambda: (
            lambda peak: attribute(
                DELAY,
                "stop",
                10 * SECOND,
                lambda k, t, v: v > 2 and peak.get((k, t), 0) > 6,
                ("line",),
            )
        )(over(DELAY, max, MINUTE, 10 * SECOND, ("line",))),
    ),
    Expectation(
        (
            "cheap_eastern_centre = COMPUTE dc_id BY region EVERY 10 SECONDS WITH ALLOW WHEN "
            "(region != north AND cost <= 5) AND SALIENCE 1"
        ),
        reference=(
            "the condition of ALLOW may name a metric (and is divided at each AND, with "
            "parentheses)"
        ),
        values=lambda: attribute(
            of("cost", lambda p: p.get("region") != "north" and p.value <= 5),
            "dc_id",
            10 * SECOND,
            lambda k, t, v: True,
            ("region",),
        ),
    ),
    Expectation(
        (
            'eastern: STREAM FROM storage(region="east");\n'
            "eastern_cost = COMPUTE eastern BY node EVERY 10 SECONDS WITH ALLOW WHEN cost < 9"
        ),
        reference=(
            "issue 17: COMPUTE stream wherever the condition says for what (ALLOW WHEN …). The "
            "metric of the condition is read over the stream."
        ),
        values=lambda: current(
            of("cost", lambda p: p.get("region") == "east" and p.value < 9), 10 * SECOND, ("node",)
        ),
    ),
    Expectation(
        (
            MEAN_DELAY
            + LINE_ONE
            + "line_one_when_late = COMPUTE line_one WHEN INSIGHT mean_delay > 2 EVERY 10 SECONDS"
        ),
        reference=(
            "issue 17: COMPUTE stream wherever the condition says for what (WHEN INSIGHT …). "
            "Unclear in the reference: no expectation."
        ),
    ),
    Expectation(
        ("hot_ward = COMPUTE ward BY city WHEN temperature > RUNNING_MEAN(temperature)"),
        reference=AT_LATEST,
        values=lambda: hot_wards(),
    ),
)
