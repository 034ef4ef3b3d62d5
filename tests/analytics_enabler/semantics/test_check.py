"""The check: definitions of texts without errors, and diagnostics of texts with errors."""

import pytest
from hypothesis import HealthCheck, given, settings

from analytics.plan.expressions import (
    Aggregate,
    Attribute,
    Comparison,
    Literal,
    Source,
    Value,
    walk,
)
from analytics.plan.text import expression_text, insight_text, pane_text
from analytics_enabler.optimizer import optimize
from analytics_enabler.semantics import check
from analytics_enabler.semantics.diagnostics import did_you_mean, nearest
from grammar import Script, format_script
from grammar.units import in_words
from tests.analytics_enabler.support import definition, plan_of
from tests.grammar.strategies import scripts

MEANINGS = [
    ("AVG(cpu, 10 SECONDS) EVERY 5 SECONDS", "AVG(cpu, 10 SECONDS) EVERY 5 SECONDS"),
    ("AVG(cpu) EVERY 5 s", "AVG(cpu, 5 SECONDS) EVERY 5 SECONDS"),
    ("mean(cpu) EVERY 1 m", "AVG(cpu, 1 MINUTE) EVERY 1 MINUTE"),
    ("ARITHMETIC_MEAN(cpu) EVERY 1 s", "AVG(cpu, 1 SECOND) EVERY 1 SECOND"),
    ("-MAX(cpu) / (2 - MIN(mem)) EVERY 1 s",
     "-MAX(cpu, 1 SECOND) / (2 - MIN(mem, 1 SECOND)) EVERY 1 SECOND"),
    ("SUM(cpu FROM (b, a, b)) EVERY 1 s", "SUM(cpu FROM (a, b), 1 SECOND) EVERY 1 SECOND"),
    ("SUM(cpu WHEN > 0 AND rack == 'a') EVERY 1 s",
     'SUM(cpu WHEN value > 0 AND rack == "a", 1 SECOND) EVERY 1 SECOND'),
    ("COUNT(cpu) BY fog_node_id, rack, node EVERY 1 s",
     "COUNT(cpu, 1 SECOND) BY node, rack EVERY 1 SECOND"),
    ("AVG(cpu) WHEN > 90 EVERY 1 s",
     "AVG(cpu, 1 SECOND) WHEN AVG(cpu, 1 SECOND) > 90 EVERY 1 SECOND"),
    ("AVG(cpu) WHEN node_id == 'n1' EVERY 1 s",
     'AVG(cpu WHEN node == "n1", 1 SECOND) EVERY 1 SECOND'),
    ("AVG(cpu) BY node WHEN node_id == 'n1' EVERY 1 s",
     'AVG(cpu, 1 SECOND) BY node WHEN node == "n1" EVERY 1 SECOND'),
    ("AVG(cpu WHEN > 0) WHEN site IN ('a', 'b') AND > 9 AND SUM(mem) > 1 EVERY 1 s",
     'AVG(cpu WHEN value > 0 AND site IN ("a", "b"), 1 SECOND) '
     'WHEN AVG(cpu WHEN value > 0 AND site IN ("a", "b"), 1 SECOND) > 9 '
     'AND SUM(mem WHEN site IN ("a", "b"), 1 SECOND) > 1 EVERY 1 SECOND'),
    ("AVG(cpu) BY rack WHEN NOT (rack > 3 OR rack == 'x') EVERY 1 s",
     'AVG(cpu, 1 SECOND) BY rack WHEN NOT (rack > 3 OR rack == "x") EVERY 1 SECOND'),
    ("AVG(cpu) WHEN rack NOT IN (1, 'a', 2) EVERY 1 s",
     'AVG(cpu WHEN rack != 1 AND rack != 2 OR rack != "a", 1 SECOND) EVERY 1 SECOND'),
    ("AVG(cpu) WHEN rack NOT IN (1, 2) EVERY 1 s",
     "AVG(cpu WHEN rack != 1 AND rack != 2, 1 SECOND) EVERY 1 SECOND"),
    # Keys are written where they differ from those of the insight.
    ("(SUM(x) BY node WHEN > 5) / SUM(x) BY region EVERY 1 m",
     "(SUM(x, 1 MINUTE) WHEN SUM(x, 1 MINUTE) > 5) / (SUM(x, 1 MINUTE) BY region) "
     "BY region, node EVERY 1 MINUTE"),
    ("MIN(SUM(x) BY segment) EVERY 1 m",
     "MIN((SUM(x, 1 MINUTE) BY segment)) EVERY 1 MINUTE"),
    ("AVG(x) - MAX(AVG(x) BY node) BY region EVERY 1 s",
     "AVG(x, 1 SECOND) - MAX((AVG(x, 1 SECOND) BY region, node)) BY region EVERY 1 SECOND"),
    ("(x BY node) - MIN(x BY node) EVERY 1 m",
     "LATEST(x, 1 MINUTE) - (MIN(LATEST(x, 1 MINUTE)) BY nothing) BY node EVERY 1 MINUTE"),
    # What accumulates has no window.
    ("RUNNING_MEAN(x) - EWMA[0.5](x) EVERY 1 s", "RUNNING_MEAN(x) - EWMA[0.5](x) EVERY 1 SECOND"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "meaning"), MEANINGS)
def test_definition_of_text(text: str, meaning: str) -> None:
    insight = definition(f"a = COMPUTE {text}").deployed("a", 0)
    described = insight_text(insight).removeprefix("insight a = ")
    # BY stands before WHEN in both notations.
    assert described == meaning


def test_expression_of_aggregate() -> None:
    found = definition("a = COMPUTE AVG(cpu WHEN > 1 AND pod.name == 'p', 10 s) BY node EVERY 5 s")
    assert isinstance(found.expression, Aggregate)
    assert found.expression.by == found.by == ("node",)
    assert (found.expression.size_ms, found.expression.every_ms) == (10_000, 5_000)
    predicate = found.expression.source.predicate
    assert predicate is not None
    assert expression_text(predicate) == 'value > 1 AND pod.name == "p"'
    alone = definition("a = COMPUTE AVG(cpu WHEN > 1) EVERY 5 s").expression
    assert isinstance(alone, Aggregate)
    assert alone.source == Source("cpu", (), Comparison(">", Value(), Literal(1.0)))


def test_name_in_condition_is_an_attribute_of_the_key() -> None:
    found = definition("a = COMPUTE AVG(cpu) BY rack WHEN rack == 2 EVERY 5 s")
    assert found.filter == Comparison("==", Attribute("rack"), Literal(2.0))


ERRORS = [
    ("AVGG(cpu) EVERY 1 s", "no function `AVGG`", "Did you mean `AVG`?"),
    ("FOO(cpu) EVERY 1 s", "no function `FOO`", "Functions: ABS, AVG"),
    ("AVG(cpu)", "needs a window", "as in `AVG(x, 10 SECONDS)`"),
    ("AVG(cpu) EVERY 20 K", "which are 20,000", "Choose at most 10,000 points"),
    ("AVG(x) / AVG(y) EVERY 5 POINTS", "EVERY also counts other points", "Add a window"),
    ("CORRELATION(x, y) EVERY 5 POINTS", "of two metrics needs a window", "as in `CORRELATION(x"),
    ("(AVG(x) BY node) - AVG(x) EVERY 5 POINTS", "here it has other keys", "Add a window"),
    ("GEOHASH[5](AVG(x)) EVERY 5 s", "GEOHASH takes two values, not one", "GEOHASH(x, y)"),
    ("AVG(cpu) EVERY 1 d AT 8:00 'Europe/Brlin'", "no time zone `Europe/Brlin`", "`Europe/Berlin`"),
    ("AVG(cpu) EVERY 1 d AT 8:00 '+99:00'", "no time zone `+99:00`", "`+02:00`"),
    ("AVG(cpu) EVERY 400 d AT 8:00", "EVERY interval of 400 DAYS is too long", "366 DAYS"),
    ("EWMA[1](cpu) EVERY 1 d AT 8:00 'Europe/Berlin'", "days are not equally long", "23:59 GMT"),
    ("AVG(cpu, 10001 s) EVERY 1 d AT 8:00 GMT", "EVERY is 1 SECOND", "167 MINUTES"),
    ("AVG(cpu, 70 DAYS) EVERY 5 m", "EVERY is 5 MINUTES", "such as 15 MINUTES"),
    ("AVG(cpu, 36001 s) EVERY 1 s", "EVERY is 1 SECOND", "36005 SECONDS and an EVERY"),
    ("AVG(cpu, 36001 s)", "evaluated in steps of 1 SECOND", "such as 36005 SECONDS"),
    ("AVG(cpu, 30 s) / AVG(cpu, 9 d)", "evaluated in steps of 30 SECONDS", "`EVERY 5 MINUTES`"),
    ("AVG(cpu, 1 m, 1 h)", "every value has an offset", "remove an offset"),
    (
        "AVG(cpu, 1 m) EVERY 1 K WITH SAMPLE 0.2",
        "EVERY n POINTS needs all points",
        "EVERY 5 SECONDS",
    ),
    ("MAX(AVG(cpu, 1 s) BY node)", "needs ticks", "Add an EVERY"),
    ("1 + 2 EVERY 1 s", "no metric", "Name a metric"),
    ("AVG[3](cpu) EVERY 1 s", "AVG takes no parameter", "Remove it"),
    ("AVG(cpu, mem) EVERY 1 s", "AVG takes one value, not 2", "`AVG(x)`"),
    ("CORRELATION(cpu) EVERY 1 s", "takes two metrics, not one", "`CORRELATION(x, y)`"),
    ("PERCENTILE[101](cpu) EVERY 1 s", "101 is not a percentage", "a number from 0 to 100"),
    ("TOP_K[2.5](cpu) EVERY 1 s", "2.5 is not a number of values", "a whole number from 1"),
    ("HISTOGRAM(cpu) EVERY 1 s", "HISTOGRAM needs a number of bins", "`HISTOGRAM[3](…)`"),
    ("EWMA[2](cpu) EVERY 1 s", "2 is not the weight of a new value", "at most 1"),
    ("PEWMA[0](cpu) EVERY 1 s", "0 is not the weight", "more than 0 and at most 1"),
    ("RUNNING_MAX[1](cpu) EVERY 1 s", "RUNNING_MAX takes no parameter", "Remove it"),
    ("DIFF(cpu, 1 m)", "accumulates since the insight was deployed", "Remove the"),
    ("EWMA[1](AVG(cpu)) EVERY 1 s", "EWMA takes metrics only", "`EWMA[0.3](cpu.util)`"),
    (
        "CORRELATION((x BY node), y) EVERY 1 s",
        "CORRELATION needs one value at each tick",
        "(…) BY node",
    ),
    ("MAX(3) + AVG(x) EVERY 1 s", "MAX needs the values of a metric", "Name a metric"),
    ("AVG(x) + (3 WHEN AVG(y) > 1) EVERY 1 s", "restricts results, but no metric", "Name a"),
    ("COUNT(GEOHASH[3](x, y)) EVERY 1 s", "a text cannot be part of a calculation", "Use a number"),
    ("GEOHASH[13](x, y)", "13 is not a number of characters", "from 1 to 12"),
    ("GEOHASH[3](x, y) WHEN > 'u'", "> cannot compare a text", "Use =="),
    ("SQRT(AVG(cpu), 1 s) EVERY 1 s", "and has no window", "an aggregate inside"),
    ("MAX(AVG(cpu, 1 s) BY node, 1 m)", "MAX of calculated values needs ticks", "Add an EVERY"),
    ("FORECAST[3](AVG(cpu) BY node) EVERY 1 s", "one value at each tick", "(…) BY node"),
    ("OUTLIER_DETECTION(cpu) EVERY 1 s", "needs the option ALGORITHM", "K=50 AND R=0.5"),
    ("AVG(cpu, 1 s, 150 ms) EVERY 1 s", "is not a multiple of 100 MILLIS", "100 MILLIS"),
    (
        "(AVG(x) BY a) + (AVG(x) BY b) EVERY 1 s",
        "values by a and values by b cannot be combined",
        "one side",
    ),
    ("AVG(cpu) WHEN > (AVG(cpu) BY a) EVERY 1 s", "has values by a, the results", "MAX(AVG(x)"),
    ("(SUM(x) WHEN > (SUM(y) BY a)) EVERY 1 s", "has values by a, the results", "MAX(AVG(x)"),
    ("AVG(cpu, 10001 ms) EVERY 10 s", "EVERY is 1 MILLIS", "such as 20 SECONDS"),
    ("AVG(cpu, 99 ms) EVERY 1 s", "window of 99 MILLIS is too short", "100 MILLIS to 366 DAYS"),
    ("AVG(cpu) EVERY 99 ms", "EVERY interval of 99 MILLIS is too short", "100 MILLIS"),
    ("AVG(cpu, 367 d) EVERY 1 d", "window of 367 DAYS is too long", "366 DAYS"),
    ("AVG(cpu WHEN cpu > 0) EVERY 1 s", "is the metric itself", "cpu WHEN > 0"),
    ("AVG(cpu WHEN SUM(x) > 0) EVERY 1 s", "about single points", "at the end"),
    ("AVG(cpu WHEN > 'a') EVERY 1 s", "a number is compared with a text", "Compare"),
    ("AVG(cpu WHEN site > 'a') EVERY 1 s", "> cannot compare a text", "Use ==, != or IN"),
    ("AVG(cpu WHEN site < true) EVERY 1 s", "< cannot compare a boolean", "Use =="),
    ("AVG(cpu WHEN IN (1, 'a')) EVERY 1 s", "a number is never a text", "each a number"),
    ("AVG(cpu WHEN rack + 1 > 2) EVERY 1 s", "an attribute cannot be part", "number"),
    ("AVG(cpu) WHEN > 1 OR site == 'a' EVERY 1 s", "`site` is an attribute", "Add `site` to BY"),
    ("AVG(cpu) WHEN > mem EVERY 1 s", "`mem` is an attribute", "`AVG(mem)`"),
    ("AVG(cpu) EVERY 1 s WITH SCHEDULER=latncy", "no scheduler `latncy`", "mean `latency`?"),
    (
        "AVG(cpu) EVERY 1 s WITH SCHEDULER=zzz",
        "no scheduler `zzz`",
        "The schedulers are cost, energy, fair, latency, quality.",
    ),
    ("AVG(cpu) BY a WHEN a == 1 OR b == 1 EVERY 1 s", "`b` is an attribute", "joined by AND"),
]


@pytest.mark.parametrize(("text", "message", "hint"), ERRORS)
def test_error_of_insight(text: str, message: str, hint: str) -> None:
    checked = check(f"a = COMPUTE {text}")
    assert not checked.ok
    assert checked.definitions == ()
    (problem,) = [p for p in checked.problems if p.severity == "error"]
    assert message in problem.message
    assert hint in (problem.hint or "")


def test_diagnostics_are_in_the_order_of_the_text() -> None:
    checked = check("a = COMPUTE FOO(x) EVERY 1 s;\na = COMPUTE AVG(x WHEN > 'y') EVERY 1 ms")
    assert [(p.line, p.column) for p in checked.problems] == [(1, 13), (2, 1), (2, 24), (2, 37)]


def test_error_has_the_span_of_its_text() -> None:
    text = "a = COMPUTE AVG(cpu, 10 SECONDS) / AVVG(mem) EVERY 5 SECONDS"
    (problem,) = check(text).problems
    start = problem.column - 1
    assert text[start : start + problem.length] == "AVVG"


def test_name_above_bound_is_an_error() -> None:
    assert check(f"{'a' * 100} = COMPUTE AVG(cpu) EVERY 1 s").ok
    (problem,) = check(f"{'a' * 101} = COMPUTE AVG(cpu) EVERY 1 s").problems
    assert problem.hint == "Choose a name of at most 100 characters."


def test_division_by_zero_is_a_warning() -> None:
    checked = check("a = COMPUTE AVG(cpu) / (2 - 1 - 1) EVERY 1 s")
    assert checked.ok
    assert [(p.severity, p.column) for p in checked.problems] == [("warning", 25)]


def test_unknown_metric_is_one_warning() -> None:
    text = "a = COMPUTE AVG(cpu.utl) / MAX(cpu.utl) WHEN > SUM(zzz) EVERY 1 s"
    checked = check(text, frozenset({"cpu.util", "memory.util"}))
    assert checked.ok
    assert [p.severity for p in checked.problems] == ["warning", "warning"]
    assert checked.problems[0].hint == "Did you mean `cpu.util`?"
    assert "`zzz`" in checked.problems[1].message
    assert check(text).problems == ()


@pytest.mark.parametrize(
    ("query", "warnings"),
    [
        (
            "cpu BY node WHEN memm > 90",
            [("`memm` is interpreted as an attribute: no", "mean `mem`?")],
        ),
        (
            "AVG(cpu) WHEN 9 < height",
            [("`height` is interpreted as an attribute: no", "MAX(height)")],
        ),
        ("AVG(cpu) WITH ALLOW WHEN (cpu > 3 OR mem > 3)", [("the metric of this", "MAX(mem)")]),
        ("AVG(cpu) WITH ALLOW WHEN (cpu > 3 OR meem > 3)", [("`meem` is interpreted", "`mem`?")]),
        ("AVG(cpu WHEN mem > 3)", [("the metric of this name is not read", "MAX(mem)")]),
        ("AVG(cpu) BY rack WHEN rack > 3 AND row == 7 AND node == 1 AND mem > 3", []),
        ("MAX(AVG(cpu) BY meem WHEN meem > 3)", []),
    ],
)
def test_attribute_that_resembles_a_metric_is_a_warning(
    query: str, warnings: list[tuple[str, str]]
) -> None:
    body, _, option = query.partition(" WITH ")
    text = f"a = COMPUTE {body} EVERY 1 s{option and f' WITH {option}'}"
    checked = check(text, frozenset({"cpu", "mem"}))
    assert checked.ok
    for problem, (message, hint) in zip(checked.problems, warnings, strict=True):
        assert message in problem.message
        assert hint in (problem.hint or "")
    assert check(text).problems == ()


def test_name_of_an_insight_that_is_read_as_a_metric_is_a_warning() -> None:
    text = "a = COMPUTE 2 * lod EVERY 1 s; lod = COMPUTE AVG(load) EVERY 1 s"
    (problem,) = check(text, frozenset({"load"})).problems
    assert problem.hint == "If the insight of this name is meant, write `INSIGHT lod`."


def test_percentile_that_seems_to_be_a_quantile_is_a_warning() -> None:
    (problem,) = check("a = COMPUTE PERCENTILE[0.95](cpu) EVERY 1 s").problems
    assert problem.severity == "warning"
    assert problem.hint == "If the quantile 0.95 is meant, write `PERCENTILE[95]`."
    assert check("a = COMPUTE PERCENTILE[1](cpu) EVERY 1 s").problems == ()


@pytest.mark.parametrize(
    ("allowed", "named"),
    [
        ("cost < 10", ["cost"]),
        ("cpu < cost", ["cost"]),
        ("(cpu > 3 OR cost IN (1, 2)) AND cost > 1 AND mem > 3", ["cost", "mem"]),
        ("MAX(cost) < 10", []),
        ("price < 10 AND rack > 3", []),
        ('cost == "high"', []),
    ],
)
def test_allow_of_metric_that_is_not_read_is_an_error(allowed: str, named: list[str]) -> None:
    metrics, attributes = frozenset({"cpu", "mem", "cost"}), frozenset({"price", "rack"})
    text = f"a = COMPUTE AVG(cpu) EVERY 5 s WITH ALLOW WHEN {allowed}"
    found = check(text, metrics, attributes=attributes)
    assert [each.message.partition(" so ")[0] for each in found.problems] == [
        f"`{name}` is a metric that this insight does not read," for name in named
    ]
    hints = [each.hint or "" for each in found.problems]
    assert all(f"MAX({name})" in hint for name, hint in zip(named, hints, strict=True))
    assert found.ok is (not named)


def test_allow_of_metric_that_is_read_or_of_key_has_no_error() -> None:
    metrics = frozenset({"cpu", "cost"})
    for insight in (
        "AVG(cpu) BY cost EVERY 5 s WITH ALLOW WHEN cost < 10",
        "AVG(cpu) WHEN MAX(cost) > 3 EVERY 5 s WITH ALLOW WHEN cost < 10",
        "node EVERY 5 s WITH ALLOW WHEN cost < 10",
    ):
        assert check(f"a = COMPUTE {insight}", metrics, attributes=frozenset()).problems == ()


@pytest.mark.parametrize(
    ("insight", "unknown", "hint"),
    [
        ("AVG(cpu) BY regio", [("cpu", "regio")], "Did you mean `region_code`?"),
        ("MAX(AVG(cpu) BY zzz) BY rack", [("cpu", "zzz")], "attributes `rack`, `region_code`."),
        ("cpu BY zzz", [("cpu", "zzz")], "attributes `rack`, `region_code`."),
        ("AVG(cpu) BY rack, node_id, pod.name", [], ""),
        ("AVG(unknown) BY zzz", [], ""),
        ("AVG(cpu) + AVG(riders) BY line", [("cpu", "line")], "attributes `rack`"),
    ],
)
def test_by_an_attribute_that_no_point_of_a_metric_has_is_a_warning(
    insight: str, unknown: list[tuple[str, str]], hint: str
) -> None:
    points = {"cpu": [{"rack": "r1"}, {"region_code": "e"}], "riders": [{"line": "7"}]}
    metrics = frozenset(points)
    found = check(f"a = COMPUTE {insight} EVERY 5 s", metrics, points=points)
    warned = [each for each in found.problems if "no recent point of" in each.message]
    assert [tuple(each.message.split("`")[1:4:2]) for each in warned] == unknown
    assert all(hint in (each.hint or "") for each in warned)
    assert found.ok


def test_by_an_attribute_that_another_point_may_have_causes_no_warning() -> None:
    points = {"cpu": [{"rack": f"r{number}"} for number in range(1000)]}
    found = check("a = COMPUTE AVG(cpu) BY zzz EVERY 5 s", frozenset({"cpu"}), points=points)
    assert found.problems == ()


def test_thousands_of_terms_are_accepted() -> None:
    terms = " AND ".join(f"rack != {number}" for number in range(2000))
    assert check(f"a = COMPUTE AVG(cpu) WHEN {terms} EVERY 1 s").ok


def test_meaning_depends_on_definition_not_on_spelling() -> None:
    one = definition("a = COMPUTE AVG(cpu) EVERY 5 s")
    assert one.meaning == definition("a = COMPUTE avg( cpu, 5 SECONDS ) EVERY 5 s").meaning
    assert one.meaning != definition("a = COMPUTE AVG(cpu) BY node EVERY 5 s").meaning
    number = definition("a = COMPUTE AVG(cpu) WHEN rack == 1 EVERY 5 s")
    truth = definition("a = COMPUTE AVG(cpu) WHEN rack == true EVERY 5 s")
    assert number.meaning != truth.meaning
    assert one.meaning == definition("a = COMPUTE AVG(cpu) EVERY 5 s WITH SCHEDULER=fair").meaning
    assert (
        one.meaning != definition("a = COMPUTE AVG(cpu) EVERY 5 s WITH SCHEDULER=latency").meaning
    )


def test_scheduler_is_the_named_one_or_the_default() -> None:
    text = "a = COMPUTE AVG(x) EVERY 1 s with scheduler='latency'; b = COMPUTE AVG(x) EVERY 1 s"
    assert [d.scheduler for d in check(text).definitions] == ["latency", "fair"]
    assert [d.scheduler for d in check(text, scheduler="latency").definitions] == ["latency"] * 2


def test_nearest_words_and_their_hint() -> None:
    assert nearest("CPU.utill", ["cpu.util", "memory.util", "x"])[0] == "cpu.util"
    assert nearest("zzz", ["cpu"]) == []
    assert did_you_mean(["a"]) == "Did you mean `a`?"
    assert did_you_mean(["a", "b", "c"]) == "Did you mean `a`, `b` or `c`?"


def test_second_scheduler_is_an_error() -> None:
    text = "a = COMPUTE AVG(x) EVERY 1 s WITH SCHEDULER=fair AND scheduler='latency'"
    assert [p.message for p in check(text).problems] == ["SCHEDULER is given twice"]


@pytest.mark.parametrize(
    ("window", "zone", "pane"),
    [("", "gmt", "1 MINUTE"), (", 30 DAYS", "UTC", "1 MINUTE"),
     (", 1 DAY", "'Europe/Berlin'", "1 MINUTE"), (", 10 s", "'+02:00'", "10 SECONDS")],
)  # fmt: skip
def test_window_at_time_of_day_has_panes_of_minutes(window: str, zone: str, pane: str) -> None:
    plan = optimize(plan_of(f"a = COMPUTE SUM(cpu{window}) EVERY 1 DAYS AT 23:59 {zone}")).plan
    assert pane_text(plan.panes[0]) == f"pane {plan.panes[0].id} = {pane} of cpu"


@pytest.mark.parametrize(
    ("query", "step"),
    [("MODE(cpu, 16 h)", "1 MINUTE"), ("MODE(cpu, 17 h)", "5 MINUTES"),
     ("MODE(cpu, 7 d) + cpu", "15 MINUTES"), ("MODE(cpu, 40 d)", "1 HOUR"),
     ("MODE(cpu, 61 s)", "1 SECOND"), ("CORRELATION(cpu, mem, 10 m)", "10 SECONDS"),
     ("AVG(cpu, 1 h) WITH SAMPLE 0.5", "1 MINUTE"),
     ("RUNNING_MEAN(cpu) * MODE(cpu, 1 h)", "1 MINUTE"),
     ("SUM(cpu) EVERY 1001 POINTS", "1 SECOND")],
)  # fmt: skip
def test_long_windows_at_points_have_long_steps(query: str, step: str) -> None:
    assert in_words(definition(f"a = COMPUTE {query}").every_ms) == step


@pytest.mark.parametrize(
    ("query", "step"),
    [("AVG(cpu, 10 s)", 100), ("AVG(cpu, 40 d)", 200), ("SDEV(cpu, 7 d) + cpu", 200),
     ("SUM(cpu, 1 h) - SUM(cpu, 1 h, 500 ms)", 100), ("MAX(cpu, 250 ms)", 250), ("cpu", 200),
     ("MEDIAN(cpu, 40 d) - PERCENTILE[9](cpu, 7 d)", 200), ("TOP_K[3](cpu, 1 h)", 200),
     ("MODE(cpu, 1 m)", 200), ("CORRELATION(cpu, mem, 59 s)", 200),
     ("RUNNING_MEAN(cpu)", 200), ("PEWMA(cpu) - SDEV(cpu, 40 d)", 200),
     ("cpu WHEN DIFF(cpu) > 0", 200), ("AVG(cpu, 1 h) EVERY 7 K", 200),
     ("EWMA(cpu) - MAX(cpu, 1300 ms) EVERY 3 POINTS", 100),
     ("MEDIAN(cpu) EVERY 1000 POINTS", 200)],
)  # fmt: skip
def test_insights_at_points_have_short_steps(query: str, step: int) -> None:
    found = definition(f"a = COMPUTE {query}")
    counted = () if found.counted is None else found.counted.counts
    filters = () if found.filter is None else (found.filter,)
    aggregates = [
        node
        for root in (found.expression, *filters, *counted)
        for node in walk(root)
        if isinstance(node, Aggregate)
    ]
    assert {found.every_ms, *(node.every_ms for node in aggregates)} == {step}
    optimize(plan_of(f"a = COMPUTE {query}"))


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scripts)
def test_check_of_any_script_ends(script: Script) -> None:
    check(format_script(script), frozenset({"cpu"}))


SEVERAL = [
    # Statements beside those that do not parse are checked; names of the latter are unresolved.
    ("a = COMPUTE AVG(x, 10 SECS) EVERY 5 s; b = COMPUTE AVGG(y) EVERY 5 s",
     ["`SECS` is not a unit", "function `AVGG`"]),
    ("a = COMPUTE AVG(x, 10 SECS) EVERY 5 s; b = COMPUTE INSIGHT a + AVGG(y) EVERY 5 s; "
     "c = COMPUTE INSIGHT b EVERY 7 s; d = COMPUTE INSIGHT nope EVERY 5 s",
     ["`SECS` is not a unit", "function `AVGG`", "insight `nope`"]),
    ("a = COMPUTE x EVERY 5 s b = COMPUTE y EVERY 5 s; c = COMPUTE INSIGHT a + INSIGHT b EVERY 5 s",
     ["found `b`"]),
    ("'a' = COMPUTE x EVERY 5 s; c = COMPUTE INSIGHT a EVERY 5 s", ["found `'a'`"]),
    ("v: STREAM FROM stream(name='v'); s: STREAM FRM stream(name='w'); "
     "c = COMPUTE AVG(x FROM (v)) + AVG(y FROM (s)) EVERY 5 s", ["found `FRM`"]),
    ("s: STREAM FROM storage(); a = COMPUTE AVG(x FROM (s)) EVERY 5 SECS", ["`SECS` is not"]),
    ("FUNCTION f(x { x }; FUNCTION g(x) { 2 * f(x) }; FUNCTION h(x) { x + 1 }; "
     "a = COMPUTE g(y) EVERY 5 s; b = COMPUTE h(x, y) EVERY 5 s; c = COMPUTE i(y) EVERY 5 s",
     ["found `{`", "`H` takes 1 value, not 2", "function `I`"]),
    ("FUNCTON f(x) { x }; a = COMPUTE f(y) EVERY 5 s", ["found `f`"]),
    ("max = COMPUTE x y; b = COMPUTE MAX(x) + AVGG(x) EVERY 5 s", ["found `y`", "`AVGG`"]),
    # After a string without an end, any name may be defined.
    ("a = COMPUTE x WHEN z == 'n EVERY 5 s; b = COMPUTE y EVERY 5 s;\n"
     "c = COMPUTE INSIGHT b EVERY 5 s; d = COMPUTE INSIGHT b EVERY 5 s", ["has no end"]),
    # Values beside an unresolved reference are checked.
    ("a = COMPUTE INSIGHT nope + AVGG(x) EVERY 5 s WITH SCHEDULER=zzz AND SALIENCE 101",
     ["insight `nope`", "function `AVGG`", "scheduler `zzz`", "SALIENCE of 101"]),
    ("a = COMPUTE (INSIGHT nope - (AVG(x) WHEN > MIN[3](y) AND (cpu > 3 OR > 5)) BY node "
     "WHEN LOGG(z) > 5) WHEN > 3 OR rack == 'r' EVERY 5 s WITH SAMPLE 0.1",
     ["insight `nope`", "does not sample the points that `nope` reads", "MIN takes no parameter",
      "function `LOGG`", "a current value is undefined over a sample"]),
    # The keys of an unresolved reference suppress errors of keys.
    ("a = COMPUTE MAX(INSIGHT nope) BY region WHEN node == 'n' OR > (AVG(cpu) BY node) EVERY 5 s",
     ["insight `nope`"]),
    ("a = COMPUTE INSIGHT nope * ((AVG(x) WHEN > (AVG(y) BY node)) + INSIGHT nope BY node) "
     "EVERY 5 s", ["insight `nope`"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "messages"), SEVERAL)
def test_errors_of_half_broken_text_without_follow_ups(text: str, messages: list[str]) -> None:
    checked = check(text, frozenset({"cpu"}), deployed={})
    assert not checked.ok
    assert checked.definitions == ()
    errors = [each for each in checked.problems if each.severity == "error"]
    assert len(errors) == len(messages), errors
    for problem, message in zip(errors, messages, strict=True):
        assert message in problem.message


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scripts)
def test_text_that_does_not_parse_has_no_definitions_and_no_new_errors(script: Script) -> None:
    alone = check(format_script(script), frozenset({"cpu"}), deployed={})
    beside = check(f"oops; {format_script(script)}", frozenset({"cpu"}), deployed={})
    assert not beside.ok
    assert beside.definitions == ()
    first, *others = [each.message for each in beside.problems]
    assert first.startswith("found `;`")
    errors = {each.message for each in alone.problems if each.severity == "error"}
    assert errors.issuperset(others)
