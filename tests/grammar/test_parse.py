"""The syntax trees of texts."""

from datetime import time

import pytest

from grammar import Script, format_node, format_script, parse
from grammar.ast import (
    Accuracy,
    AdamOption,
    Allow,
    AndCondition,
    Awareness,
    Binary,
    Boolean,
    Compare,
    Condition,
    CostCapOption,
    Daily,
    Elided,
    Expression,
    FunctionCall,
    FunctionDefinition,
    InsightReference,
    InsightStatement,
    Interval,
    ListMembership,
    MetricStream,
    Name,
    Negate,
    NotCondition,
    Number,
    Option,
    OrCondition,
    Outliers,
    PlacementOn,
    PointCount,
    Rhythm,
    Salience,
    SampleOption,
    SchedulerOption,
    Scoped,
    Setting,
    Signature,
    StreamDefinition,
    Text,
)

AVERAGE = FunctionCall("AVG", (Name("cpu"),))
MINUTE = Interval(60_000)
HOT = Compare(">", Elided(), Number(3))
NORTH = Compare("==", Name("region"), Text("north"))
X, Y = Compare(">", Name("x"), Number(1)), Compare(">", Name("y"), Number(1))


def insight(text: str) -> InsightStatement:
    """Return the only insight of a text."""
    (statement,) = parse(text).statements
    assert isinstance(statement, InsightStatement)
    return statement


def value(text: str) -> Expression:
    """Return the tree of an expression, given as the text after COMPUTE."""
    return insight(f"a = COMPUTE {text}").expression


def condition(text: str) -> Condition | None:
    """Return the tree of a condition, given as the text after WHEN."""
    return insight(f"a = COMPUTE AVG(cpu) WHEN {text}").when


def test_all_parts_of_an_insight() -> None:
    head = "load = COMPUTE AVG(cpu, 10 SECONDS) BY node, pod.name WHEN > 3 "
    text = f"{head}EVERY 5 SECONDS WITH SCHEDULER=x;"
    expression = FunctionCall("AVG", (Name("cpu"),), window=Interval(10_000))
    whole = InsightStatement(
        "load", expression, ("node", "pod.name"), HOT, Interval(5_000), (SchedulerOption("x"),)
    )
    assert parse(text) == Script((whole,))


def test_keywords_in_any_case_and_comments_anywhere() -> None:
    text = """-- a comment
        A = Compute avg(cpu /* the
        processor */) by node when > 3 every 5 seconds // more
        ; ;B=compute 1;;"""
    assert parse(text).statements == (
        InsightStatement("A", AVERAGE, ("node",), HOT, Interval(5_000)),
        InsightStatement("B", Number(1)),
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
        ("arithmetic_mean(cpu)", AVERAGE),
    ],
)
def test_expressions(text: str, expected: Expression) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cpu.util", Name("cpu.util")),
        ("s", Name("s")),
        ("seconds", Name("seconds")),
        ('"disk io"', Name("disk io")),
        (r"'it\'s \u00e9 \ud83d\ude00\n'", Name("it's é 😀\n")),
        ("cpu FROM (a, 'host/cpu 0')", MetricStream("cpu", ("a", "host/cpu 0"))),
        ("cpu WHEN > 3", MetricStream("cpu", (), HOT)),
        ("cpu FROM (a) WHEN region = 'north'", MetricStream("cpu", ("a",), NORTH)),
    ],
)
def test_metrics(text: str, expected: Expression) -> None:
    assert value(f"AVG({text})") == FunctionCall("AVG", (expected,))
    assert value(f"AVG({text}, 1 s)") == FunctionCall("AVG", (expected,), window=Interval(1_000))
    assert value(f"({text})") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cpu", Name("cpu")),
        ('"disk io" / 2', Binary("/", Name("disk io"), Number(2))),
        ("(cpu WHEN > 3) * 2", Binary("*", MetricStream("cpu", (), HOT), Number(2))),
        ("cpu FROM (a) + 1", Binary("+", MetricStream("cpu", ("a",)), Number(1))),
        ("INSIGHT load + insight", Binary("+", InsightReference("load"), Name("insight"))),
        ("ADD(x, mul(2, y))", Binary("+", Name("x"), Binary("*", Number(2), Name("y")))),
        ("SUB(DIV(x, y), 1)", Binary("-", Binary("/", Name("x"), Name("y")), Number(1))),
        ("top-k(x)", FunctionCall("TOP_K", (Name("x"),))),
        ("Top-K [3] (x)", FunctionCall("TOP_K", (Name("x"),), (Number(3),))),
        ("top - k(x)", Binary("-", Name("top"), FunctionCall("K", (Name("x"),)))),
        ("top-k", Binary("-", Name("top"), Name("k"))),
        ("OUTLIER_DETECTOR(x)", FunctionCall("OUTLIER_DETECTION", (Name("x"),))),
        ("running_std(x)", FunctionCall("RUNNING_SDEV", (Name("x"),))),
        ("EWMA[0.5](x)", FunctionCall("EWMA", (Name("x"),), (Number(0.5),))),
        ("f[a, 5 s](x)", FunctionCall("F", (Name("x"),), (Name("a"), Interval(5_000)))),
        ("CORRELATION(x, y, 1 m)", FunctionCall("CORRELATION", (Name("x"), Name("y")), (), MINUTE)),
        ("AVG(x, 1 m, 2 d)", FunctionCall("AVG", (Name("x"),), (), MINUTE, Interval(172_800_000))),
        ("MIN(AVG(cpu) BY a, 'b c')", FunctionCall("MIN", (Scoped(AVERAGE, ("a", "b c")),))),
        ("MIN(x BY a, b WHEN > 3, y, 1 m)",
         FunctionCall("MIN", (Scoped(Name("x"), ("a", "b"), HOT), Name("y")), (), MINUTE)),
        ("MIN((x BY a), y)", FunctionCall("MIN", (Scoped(Name("x"), ("a",)), Name("y")))),
        ("(AVG(cpu) WHEN > 3) / 2", Binary("/", Scoped(AVERAGE, (), HOT), Number(2))),
        ("((cpu WHEN > 3) WHEN > 3)", Scoped(MetricStream("cpu", (), HOT), (), HOT)),
    ],
)  # fmt: skip
def test_the_rest_of_expressions(text: str, expected: Expression) -> None:
    assert value(text) == expected
    assert value(format_node(expected) if not isinstance(expected, Scoped) else text) == expected


@pytest.mark.parametrize(
    ("text", "rhythm"),
    [
        ("1 POINT", PointCount(1)),
        ("100 points", PointCount(100)),
        ("1 K", PointCount(1_000)),
        ("2 M", PointCount(2_000_000)),
        ("2 m", Interval(120_000)),
        ("1 DAYS AT 23:59 GMT", Daily(1, time(23, 59), "GMT")),
        ("7 d at 8:05", Daily(7, time(8, 5), "GMT")),
        ("1 DAY AT 00:00 'Europe/Berlin'", Daily(1, time(0, 0), "Europe/Berlin")),
    ],
)
def test_rhythms_are_parsed(text: str, rhythm: Rhythm) -> None:
    assert insight(f"a = COMPUTE AVG(cpu) EVERY {text} WITH ADAM").every == rhythm


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("SALIENCE 5", (Salience(5),)),
        ("SAMPLE 0.2 and sample 100", (SampleOption(share=0.2), SampleOption(size=100))),
        ("MAX_ERROR 0.05 AND CONFIDENCE 0.95", (Accuracy(0.05, 0.95),)),
        ("MAX_ERROR 0.05 AND ADAM AND CONFIDENCE .9", (Accuracy(0.05), AdamOption(0.9))),
        ("AWARENESS ON accuracy", (Awareness("ACCURACY"),)),
        ("ALGORITHM pmcod AND R=0.5 AND K=50", (Outliers("pmcod", 50, 0.5),)),
        ("SCHEDULER=x(a=+1.5, 'b c'=('d', true))",
         (SchedulerOption("x", (Setting("a", (Number(1.5),)),
                          Setting("b c", (Text("d"), Boolean(True))))),)),
        ("COST_CAP 2.5 PER 1 m", (CostCapOption(2.5, MINUTE),)),
        ("PLACEMENT_ON region='north' 5 DEDICATED",
         (PlacementOn("region", Text("north"), 5, dedicated=True),)),
        ("PLACEMENT_ON rack=1 dedicated", (PlacementOn("rack", Number(1), dedicated=True),)),
        ("ALLOW WHEN > 3 AND SIGNATURE 'board'", (Allow(HOT), Signature("board"))),
        ("ALLOW WHEN (x > 1 AND sample > 1)",
         (Allow(AndCondition((X, Compare(">", Name("sample"), Number(1))))),)),
    ],
)  # fmt: skip
def test_options(text: str, options: tuple[Option, ...]) -> None:
    assert insight(f"a = COMPUTE AVG(cpu) WITH {text}").options == options


def test_definitions() -> None:
    text = """sensors: STREAM FROM storage(region='north', node=('n1', 'n2'), rack=1);
        all: STREAM FROM stream();
        FUNCTION share(part, whole) { 100 * part / whole };
        function hot(x) { x WHEN > 3 }"""
    nodes = Setting("node", (Text("n1"), Text("n2")))
    settings = (Setting("region", (Text("north"),)), nodes, Setting("rack", (Number(1),)))
    share = Binary("/", Binary("*", Number(100), Name("part")), Name("whole"))
    assert parse(text).statements == (
        StreamDefinition("sensors", "storage", settings),
        StreamDefinition("all", "stream"),
        FunctionDefinition("SHARE", ("part", "whole"), share),
        FunctionDefinition("HOT", ("x",), MetricStream("x", (), HOT)),
    )


def test_words_of_options_and_units_remain_names() -> None:
    text = "sample = COMPUTE s + AVG(m WHEN k > 1 AND r > 2 AND per > 3, 5 s) BY at, M WHEN on > 1"
    assert format_script(parse(text)) == f"{text.replace('5 s', '5 SECONDS')};\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("region == 'north'", NORTH),
        ("region <> 'north'", Compare("!=", Name("region"), Text("north"))),
        ("active = TRUE", Compare("==", Name("active"), Boolean(True))),
        ("AVG(cpu) >= 2 * x", Compare(">=", AVERAGE, Binary("*", Number(2), Name("x")))),
        ("(1 + x) > 2", Compare(">", Binary("+", Number(1), Name("x")), Number(2))),
        ("> -2 + x", Compare(">", Elided(), Binary("+", Number(-2), Name("x")))),
        (
            "x IN (-1, 'a', false)",
            ListMembership(Name("x"), (Number(-1), Text("a"), Boolean(False))),
        ),
        ("x NOT IN (1)", ListMembership(Name("x"), (Number(1),), negated=True)),
        ("IN (1)", ListMembership(Elided(), (Number(1),))),
        ("NOT IN (1)", ListMembership(Elided(), (Number(1),), negated=True)),
        ("NOT (IN (1))", NotCondition(ListMembership(Elided(), (Number(1),)))),
        ("NOT x IN (1)", NotCondition(ListMembership(Name("x"), (Number(1),)))),
        ("NOT x > 1 AND y > 1", AndCondition((NotCondition(X), Y))),
        ("x > 1 AND (y > 1 AND > 3)", AndCondition((X, Y, HOT))),
        ("x > 1 OR y > 1 AND > 3", OrCondition((X, AndCondition((Y, HOT))))),
        ("(x > 1 OR y > 1) AND > 3", AndCondition((OrCondition((X, Y)), HOT))),
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
    parsed = insight(f"a = COMPUTE AVG(cpu, {text}) EVERY {text}")
    assert parsed.every == Interval(millis)
    assert parsed.expression == FunctionCall("AVG", (Name("cpu"),), window=Interval(millis))


def test_nodes_have_their_positions_in_the_text() -> None:
    text = "a = COMPUTE 1;\n\tlong = COMPUTE 2 *\n  AVG(cpu, 5 s) WHEN NOT IN (1) ;"
    second = parse(text).statements[1]
    assert isinstance(second, InsightStatement)
    expression = second.expression
    assert isinstance(expression, Binary)
    shown = {
        text[node.span.offset :][: node.span.length]: (node.span.line, node.span.column)
        for node in (second, expression, expression.right, second.when)
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
