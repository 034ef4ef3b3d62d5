"""What texts mean: their syntax trees."""

import pytest

from grammar import Script, format_script, parse
from grammar.ast import (
    Aggregate,
    And,
    Binary,
    Boolean,
    Compare,
    Condition,
    Elided,
    Expression,
    Insight,
    Interval,
    Membership,
    MetricStream,
    Name,
    Negate,
    Not,
    Number,
    Or,
    Text,
)

AVERAGE = Aggregate("AVG", MetricStream("cpu"))
HOT = Compare(">", Elided(), Number(3))
NORTH = Compare("==", Name("region"), Text("north"))
X, Y = Compare(">", Name("x"), Number(1)), Compare(">", Name("y"), Number(1))


def value(text: str) -> Expression:
    """Return the expression of ``text``, written as it may stand behind COMPUTE."""
    return parse(f"a = COMPUTE {text}").statements[0].expression


def condition(text: str) -> Condition | None:
    """Return the condition of ``text``, written as it may stand behind WHEN."""
    return parse(f"a = COMPUTE AVG(cpu) WHEN {text}").statements[0].when


def test_all_parts_of_an_insight() -> None:
    head = "load = COMPUTE AVG(cpu, 10 SECONDS) BY node, pod.name WHEN > 3 "
    text = f"{head}EVERY 5 SECONDS WITH SCHEDULER=x;"
    expression = Aggregate("AVG", MetricStream("cpu"), Interval(10_000))
    insight = Insight("load", expression, ("node", "pod.name"), HOT, Interval(5_000), Text("x"))
    assert parse(text) == Script((insight,))


def test_keywords_in_any_case_and_comments_anywhere() -> None:
    text = """-- a comment
        A = Compute avg(cpu /* the
        processor */) by node when > 3 every 5 seconds // more
        ; ;B=compute 1;;"""
    assert parse(text).statements == (
        Insight("A", AVERAGE, ("node",), HOT, Interval(5_000)),
        Insight("B", Number(1)),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.5e-3", Number(0.0015)),
        (".5", Number(0.5)),
        ("-5", Number(-5)),
        ("- 5", Number(-5)),
        ("-(5)", Negate(Number(5))),
        ("-AVG(cpu)", Negate(AVERAGE)),
        ("1 - -2", Binary("-", Number(1), Number(-2))),
        ("1 + 2 * 3", Binary("+", Number(1), Binary("*", Number(2), Number(3)))),
        ("(1 + 2) * 3", Binary("*", Binary("+", Number(1), Number(2)), Number(3))),
        ("1 - 2 - 3", Binary("-", Binary("-", Number(1), Number(2)), Number(3))),
        ("8 / 4 * 2", Binary("*", Binary("/", Number(8), Number(4)), Number(2))),
        ("-AVG(cpu) * 2", Binary("*", Negate(AVERAGE), Number(2))),
        ("arithmetic_mean(cpu)", Aggregate("ARITHMETIC_MEAN", MetricStream("cpu"))),
    ],
)
def test_expressions(text: str, expected: Expression) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cpu.util", MetricStream("cpu.util")),
        ("s", MetricStream("s")),
        ("seconds", MetricStream("seconds")),
        ('"disk io"', MetricStream("disk io")),
        (r"'it\'s \u00e9 \ud83d\ude00\n'", MetricStream("it's é 😀\n")),
        ("cpu FROM (a, 'host/cpu 0')", MetricStream("cpu", ("a", "host/cpu 0"))),
        ("cpu WHEN > 3", MetricStream("cpu", (), HOT)),
        ("cpu FROM (a) WHEN region = 'north'", MetricStream("cpu", ("a",), NORTH)),
    ],
)
def test_metric_streams(text: str, expected: MetricStream) -> None:
    assert value(f"AVG({text})") == Aggregate("AVG", expected)
    assert value(f"AVG({text}, 1 s)") == Aggregate("AVG", expected, Interval(1_000))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("region == 'north'", NORTH),
        ("region <> 'north'", Compare("!=", Name("region"), Text("north"))),
        ("active = TRUE", Compare("==", Name("active"), Boolean(True))),
        ("AVG(cpu) >= 2 * x", Compare(">=", AVERAGE, Binary("*", Number(2), Name("x")))),
        ("(1 + x) > 2", Compare(">", Binary("+", Number(1), Name("x")), Number(2))),
        ("> -2 + x", Compare(">", Elided(), Binary("+", Number(-2), Name("x")))),
        ("x IN (-1, 'a', false)", Membership(Name("x"), (Number(-1), Text("a"), Boolean(False)))),
        ("x NOT IN (1)", Membership(Name("x"), (Number(1),), negated=True)),
        ("IN (1)", Membership(Elided(), (Number(1),))),
        ("NOT IN (1)", Membership(Elided(), (Number(1),), negated=True)),
        ("NOT (IN (1))", Not(Membership(Elided(), (Number(1),)))),
        ("NOT x IN (1)", Not(Membership(Name("x"), (Number(1),)))),
        ("NOT x > 1 AND y > 1", And((Not(X), Y))),
        ("x > 1 AND (y > 1 AND > 3)", And((X, Y, HOT))),
        ("x > 1 OR y > 1 AND > 3", Or((X, And((Y, HOT))))),
        ("(x > 1 OR y > 1) AND > 3", And((Or((X, Y)), HOT))),
    ],
)
def test_conditions(text: str, expected: Condition) -> None:
    assert condition(text) == expected


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("1 MILLIS", 1),
        ("250 milliseconds", 250),
        ("250ms", 250),
        ("5 s", 5_000),
        ("5 Second", 5_000),
        ("5 SEC", 5_000),
        ("2 m", 120_000),
        ("2 min", 120_000),
        ("1 MINUTE", 60_000),
        ("3 h", 10_800_000),
        ("3 HOURS", 10_800_000),
        ("1 d", 86_400_000),
        ("007 DAYS", 604_800_000),
    ],
)
def test_intervals(text: str, millis: int) -> None:
    insight = parse(f"a = COMPUTE AVG(cpu, {text}) EVERY {text}").statements[0]
    assert insight.every == Interval(millis)
    assert insight.expression == Aggregate("AVG", MetricStream("cpu"), Interval(millis))


def test_nodes_know_where_they_stand() -> None:
    text = "a = COMPUTE 1;\n\tlong = COMPUTE 2 *\n  AVG(cpu, 5 s) WHEN NOT IN (1) ;"
    insight = parse(text).statements[1]
    expression = insight.expression
    assert isinstance(expression, Binary)
    shown = {
        text[node.span.offset :][: node.span.length]: (node.span.line, node.span.column)
        for node in (insight, expression, expression.right, insight.when)
        if node is not None
    }
    assert shown == {
        "long = COMPUTE 2 *\n  AVG(cpu, 5 s) WHEN NOT IN (1)": (2, 2),
        "2 *\n  AVG(cpu, 5 s)": (2, 17),
        "AVG(cpu, 5 s)": (3, 3),
        "NOT IN (1)": (3, 22),
    }


def test_canonical_text() -> None:
    text = """
        a = compute (avg("cpu" from ('x'), 60 s)*(2.0)) - (1 - 3) by "node" when (> 3) every 90 s;
        b = COMPUTE MAX("d io") BY "by" WHEN ((x IN ('a"')) OR NOT (> 1 AND < 2)) EVERY 1 ms
            with Scheduler = 'latency'
    """
    assert format_script(parse(text)).splitlines() == [
        "a = COMPUTE AVG(cpu FROM (x), 1 MINUTE) * 2 - (1 - 3) BY node WHEN > 3 EVERY 90 SECONDS;",
        'b = COMPUTE MAX("d io") BY "by" WHEN x IN ("a\\"") OR NOT (> 1 AND < 2) EVERY 1 MILLIS '
        "WITH SCHEDULER=latency;",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "energy_10min = COMPUTE AVG(energy_consumption, 10 MINUTES)",
        "energy_plus = COMPUTE 0.002 * SUM(energy_consumption, 10 MINUTES) EVERY 5 SECONDS",
        "per_cpu = COMPUTE AVG(energy, 15 MINUTES) / AVG(cpu_util, 10 MINUTES) EVERY 15 SECONDS",
        "ram_util_5min = COMPUTE AVG(ram_util, 5 MINUTES) BY fog_node_id EVERY 10\n SECONDS",
        "energy_over_100 = COMPUTE AVG(energy_consumption, 10 MINUTES) WHEN > 100",
        "hot = COMPUTE AVG(t, 10 MINUTES) WHEN >\n RUNNING_MEAN(t) + 3*RUNNING_STD(t)",
        "node_io = COMPUTE SUM(network_io_bytes, 10 MINUTES) WHEN node_id == 'fog-1'",
    ],
)
def test_examples_of_the_specification(text: str) -> None:
    script = parse(text)
    assert parse(format_script(script)) == script
