"""STREAM: expansion of the names after FROM, feeds, and errors of definitions."""

import pyarrow as pa
import pytest

from analytics.plan.expressions import is_text
from analytics.plan.feeds import Feed
from analytics_enabler.semantics import Schemas, Sites, check, parse_text, scope_of
from tests.analytics_enabler.support import definitions

STREAMS = (
    "north: STREAM FROM storage(region='north', node=('n1', 'n2')); "
    "rack: STREAM FROM STORAGE(rack=7, entity='e'); all: STREAM FROM storage(); "
    "u1 = COMPUTE x FROM (north, rack, all) EVERY 1 s; "
)
NORTH = "region IN ('north') AND node IN ('n1', 'n2')"
MEANINGS = [
    ("cpu FROM (north)", f"cpu WHEN {NORTH}"),
    ("cpu FROM (north) WHEN > 3", f"cpu WHEN {NORTH} AND > 3"),
    ("cpu FROM (rack)", "cpu WHEN rack IN (7) AND entityID IN ('e')"),
    ("cpu FROM (h1, north, 'h 2')", f"cpu WHEN ({NORTH}) OR entity IN ('h1', 'h 2')"),
    ("cpu FROM (north, rack) WHEN > 3 OR z == 1",
     f"cpu WHEN (({NORTH}) OR (rack IN (7) AND entityID IN ('e'))) AND (> 3 OR z == 1)"),
    ("cpu FROM (all)", "cpu"),
    ("cpu FROM (h1, all) WHEN > 3", "cpu WHEN > 3"),
    ("cpu FROM (h1, h2)", "cpu FROM (h1, h2)"),
]  # fmt: skip


@pytest.mark.parametrize(("stream", "plain"), MEANINGS)
def test_expansion_of_from(stream: str, plain: str) -> None:
    _, found = definitions(f"{STREAMS} a = COMPUTE AVG({stream}, 10 s) EVERY 5 s")
    (wanted,) = definitions(f"a = COMPUTE AVG({plain}, 10 s) EVERY 5 s")
    assert found.meaning == wanted.meaning


def test_expansion_in_condition_and_function() -> None:
    text = f"{STREAMS} FUNCTION f(m, s) {{ AVG(m FROM (s)) }}; "
    _, found = definitions(f"{text} a = COMPUTE f(x, h) WHEN > f(y, north) EVERY 5 s")
    (wanted,) = definitions(f"a = COMPUTE AVG(x FROM (h)) WHEN > AVG(y WHEN {NORTH}) EVERY 5 s")
    assert found.meaning == wanted.meaning


def test_metric_from_stream_is_a_metric_in_condition() -> None:
    text = f"{STREAMS} a = COMPUTE AVG(cpu) WHEN x FROM (all) > 3 EVERY 5 s"
    (wanted,) = check("a = COMPUTE AVG(cpu) WHEN x > 3 EVERY 5 s", frozenset("x")).definitions
    assert definitions(text)[1].meaning == wanted.meaning


SCHEMAS: Schemas = {
    (None, "w"): pa.schema(
        [("ts", pa.int64()), ("station", pa.string()), ("rain", pa.float64()), ("x", pa.int8()),
         ("l", pa.list_(pa.int8()))]
    ),
    (None, "later"): None,
    (None, "keys"): pa.schema(
        [("ts", pa.int64()), ("node", pa.string()), ("node_id", pa.string()), ("x", pa.int8())]
    ),
}  # fmt: skip
ERRORS = [
    ("s: STREAM FROM strage(node='a')", "no provider `strage`", "`storage`"),
    (
        "s: STREAM FROM stream(name='w', node='a')",
        "`stream` has no setting `node`",
        "Settings: name",
    ),
    ("s: STREAM FROM stream()", "`name` is missing", "name="),
    ("s: STREAM FROM stream(name='A b')", "`A b` is not a valid name", "lower-case"),
    ("s: STREAM FROM stream(name=3)", "`name` takes one name", "in quotes"),
    (
        "s: STREAM FROM stream(name='w', value='x')",
        "`metric` and `value` need each other",
        "neither",
    ),
    ("s: STREAM FROM stream(name='w', entity='sation')", "no column `sation`", "`station`"),
    ("s: STREAM FROM stream(name='w', time='station')", "is of the type string", "a time"),
    ("s: STREAM FROM storage(node='a', node_id='b')", "`node_id` is given twice", "List all"),
    ("s: STREAM FROM stream(name='w', name='v')", "`name` is given twice", "Remove one"),
    ("s: STREAM FROM stream(name='w', entity='l')", "is of the type list<item: int8>", "a single"),
    ("s: STREAM FROM stream(name='w', attributes='l')", "is of the type list", "a boolean"),
    (
        "s: STREAM FROM stream(name='keys')",
        "`keys` has several columns for the attribute `node`",
        "only one of",
    ),
    (
        "s: STREAM FROM stream(name='keys', entity='node', attributes=('node_id', 'entity'))",
        "has no column `entity`",
        "Columns: ts",
    ),
    ("s: STREAM FROM storage(); s: STREAM FROM storage()", "two streams `s`", "of its own"),
]


@pytest.mark.parametrize(("stream", "message", "hint"), ERRORS)
def test_error_of_stream(stream: str, message: str, hint: str) -> None:
    checked = check(f"{stream}; a = COMPUTE AVG(x FROM (s)) EVERY 1 s", schemas=SCHEMAS)
    errors = [each for each in checked.problems if each.severity == "error"]
    assert [each for each in errors if message in each.message and hint in (each.hint or "")]
    assert all("STREAM" in each.message or message in each.message for each in errors)


FEEDS = "w: STREAM FROM stream(name='w'); v: STREAM FROM stream(name='v', site='edge'); "


@pytest.mark.parametrize(
    ("insight", "message"),
    [
        ("AVG(rain FROM (w)) / AVG(cpu)", "of the stream `w` and `cpu` of storage"),
        ("AVG(rain FROM (w)) WHEN AVG(x FROM (v)) > 1", "and `x` of the stream `v`"),
        ("AVG(rain FROM (w, e1))", "FROM cannot combine it"),
        (
            "AVG(rain FROM (w)) + INSIGHT t",
            "`t` reads storage, but the rest of the insight reads the stream",
        ),
        ("AVG(rain FROM (w), 1 m) WITH SAMPLE 0.1", "only points of storage can be sampled"),
        ("AVG(rian FROM (w))", "`w` has no numeric column `rian`"),
        ("AVG(x FROM (v))", "there is no site `edge`"),
        ("AVG(x FROM (s)) WITH SIGNATURE 'ops'", "is signed with `board`"),
    ],
)
def test_error_of_insight_that_reads_a_feed(insight: str, message: str) -> None:
    words, _, options = insight.partition(" WITH ")
    every = " EVERY 1 s" + (f" WITH {options}" if options else "")
    text = f"""{FEEDS} s: STREAM FROM stream(name='results/all.fair.signed-board');
        t = COMPUTE AVG(cpu) EVERY 1 s; a = COMPUTE {words}{every}"""
    checked = check(text, frozenset({"cpu"}), Sites(frozenset({"here"})), schemas=SCHEMAS)
    (error,) = [each for each in checked.problems if each.severity == "error"]
    assert message in error.message


def test_feeds_of_insights() -> None:
    text = f"""{FEEDS} u: STREAM FROM stream(name='later', time='at', metric='m', value='n',
        entity='e', attributes=('a', 'b')); a = COMPUTE x FROM (w) WHEN station == 'x' EVERY 1 s;
        b = COMPUTE 2 * INSIGHT a EVERY 1 s; c = COMPUTE AVG(x FROM (v), 1 m);
        d = COMPUTE a WHEN x > MAX(x FROM (u), 1 m)"""
    assert parse_text(text).feed_streams == {(None, "w"), ("edge", "v"), (None, "later")}
    checked = check(text, frozenset(), Sites(frozenset({"edge", "own"})), schemas=SCHEMAS)
    feeds = {
        each.name: (each.feed, scope_of(each, Sites(own="own"))) for each in checked.definitions
    }
    later = Feed("later", None, "at", "m", "n", "e", ("a", "b"))
    assert feeds == {
        "a": (Feed("w"), "own"), "b": (Feed("w"), "own"), "c": (Feed("v", "edge"), "edge"),
        "d": (later, "own"),
    }  # fmt: skip
    (warning,) = checked.problems
    assert warning.message == "the stream `later` does not exist; its insights wait for it"
    assert len({each.meaning for each in checked.definitions}) == 4


def test_metric_from_feed_is_a_metric_in_condition() -> None:
    text = "u: STREAM FROM stream(name='later', metric='m', value='n');"
    checked = check(
        f"{text} a = COMPUTE at BY at WHEN x FROM (u) > 1 EVERY 1 s", frozenset(), schemas=SCHEMAS
    )
    (found,) = checked.definitions
    assert is_text(found.expression), "x, and no attribute, is what `at` is the latest of"


@pytest.mark.parametrize(
    "settings",
    [
        "name='keys', metric='node', value='x'",
        "name='later', metric='m', value='n', attributes='node_id'",
    ],
)
def test_attribute_column_of_feed_is_no_metric(settings: str) -> None:
    text = f"u: STREAM FROM stream({settings}); a = COMPUTE node WHEN y FROM (u) > 1 EVERY 1 s;"
    checked = check(f"{text} b = COMPUTE place WHEN y FROM (u) > 1 EVERY 1 s", schemas=SCHEMAS)
    texts = [is_text(each.expression) for each in checked.definitions]
    assert (texts, [each.message for each in checked.problems if "node" in each.message]) == (
        [True, False], [],
    )  # fmt: skip


def test_plural_attributes_of_storage() -> None:
    taken = "a = COMPUTE AVG(x FROM (s)) EVERY 1 s"
    many = "nodes=('a', 'b'), Sites='c', entityTypes='d', entities='e', regions='f', groups='g'"
    one = "node=('a', 'b'), site='c', entityType='d', entity='e', region='f', group='g'"
    plural, single = (check(f"s: STREAM FROM storage({keys}); {taken}") for keys in (many, one))
    assert plural.problems == single.problems == ()
    assert plural.definitions[0].expression == single.definitions[0].expression
    (twice,) = check(f"s: STREAM FROM storage(node='a', nodes='b'); {taken}").problems
    assert twice.message == "`nodes` is given twice"


def test_unused_stream_and_misspelt_attribute_are_warnings() -> None:
    checked = check("s: STREAM FROM storage(nodde='a'); a = COMPUTE AVG(x FROM (S)) EVERY 1 s")
    assert checked.ok
    assert [(each.column, each.message, each.hint) for each in checked.problems] == [
        (1, "no insight reads the stream `s`",
         "Read a metric from it, as in `cpu FROM (s)`, or remove it."),
        (24, "`nodde` is interpreted as a label of points and nodes", "Did you mean `node`?"),
    ]  # fmt: skip


def test_attribute_missing_in_feed_is_a_warning() -> None:
    checked = check(
        f"{FEEDS} a = COMPUTE AVG(x FROM (w) WHEN dry == true) BY staton WHEN station != 'b' "
        "EVERY 1 s; b = COMPUTE AVG(x FROM (v)) BY unknown EVERY 1 s; k: STREAM FROM "
        "stream(name='keys', attributes='node_id'); c = COMPUTE SUM(x FROM (k)) BY node EVERY 1 s",
        schemas=SCHEMAS,
    )
    assert checked.ok
    assert [(each.message, each.hint) for each in checked.problems] == [
        ("points of `w` have no attribute `staton`", "Did you mean `station`?"),
        ("points of `w` have no attribute `dry`",
         "Attributes: entityID, station; `attributes` adds others."),
    ]  # fmt: skip


def test_stream_as_argument_counts_as_used() -> None:
    checked = check(
        "n: STREAM FROM storage(node='a'); FUNCTION f(s) { AVG(x FROM (s), 1 m) }; "
        "a = COMPUTE F(n) EVERY 5 s"
    )
    assert checked.problems == ()
