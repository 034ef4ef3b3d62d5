"""What is taken FROM streams, and what is said of definitions that mean nothing."""

import pytest

from analytics_enabler.semantics import check
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
def test_meaning(stream: str, plain: str) -> None:
    _, found = definitions(f"{STREAMS} a = COMPUTE AVG({stream}, 10 s) EVERY 5 s")
    (wanted,) = definitions(f"a = COMPUTE AVG({plain}, 10 s) EVERY 5 s")
    assert found.meaning == wanted.meaning


def test_a_stream_in_a_condition_and_through_a_function() -> None:
    text = f"{STREAMS} FUNCTION f(m, s) {{ AVG(m FROM (s)) }}; "
    _, found = definitions(f"{text} a = COMPUTE f(x, h) WHEN > f(y, north) EVERY 5 s")
    (wanted,) = definitions(f"a = COMPUTE AVG(x FROM (h)) WHEN > AVG(y WHEN {NORTH}) EVERY 5 s")
    assert found.meaning == wanted.meaning


ERRORS = [
    ("s: STREAM FROM stream(name='app/x')", "a STREAM FROM stream is not computed yet", "for now"),
    ("s: STREAM FROM strage(node='a')", "no provider `strage`", "`storage`"),
    ("s: STREAM FROM stream(name='x', node='a')", "`stream` has no setting `node`", "the name"),
    ("s: STREAM FROM stream()", "does not say which stream", "name="),
    ("s: STREAM FROM storage(node='a', node_id='b')", "`node_id` is given twice", "List all"),
    ("s: STREAM FROM storage(); s: STREAM FROM storage()", "two streams `s`", "of its own"),
]


@pytest.mark.parametrize(("stream", "message", "hint"), ERRORS)
def test_error(stream: str, message: str, hint: str) -> None:
    checked = check(f"{stream}; a = COMPUTE AVG(x FROM (s)) EVERY 1 s")
    errors = [each for each in checked.problems if each.severity == "error"]
    assert [each for each in errors if message in each.message and hint in (each.hint or "")]
    assert all("STREAM" in each.message or message in each.message for each in errors)


def test_what_is_probably_not_meant_is_a_warning() -> None:
    checked = check("s: STREAM FROM storage(nodes='a'); a = COMPUTE AVG(x FROM (S)) EVERY 1 s")
    assert checked.ok
    assert [(each.column, each.message, each.hint) for each in checked.problems] == [
        (1, "nothing is taken from the stream `s`",
         "Take a metric from it, as in `cpu FROM (s)`, or remove it."),
        (24, "`nodes` is taken for a label of points and nodes", "Did you mean `node`?"),
    ]  # fmt: skip
