"""The formatter preserves all comments, and is idempotent."""

from hypothesis import given
from hypothesis import strategies as st

from grammar import ParseError, format_text, parse
from tests.support.examples import examples

SOURCE = """// head
a = compute 1 /* in */ + 2 // also in
  * 3; // behind
/* between */ b = COMPUTE 2 -- before the semicolon
;

/* long
   one */
c = COMPUTE AVG(cpu.util WHEN region == "north" AND NOT rack IN (1, 2)) BY node when > 3 every 10 s
  with salience 5 /* x */ // y
-- end"""
LAID = """// head
/* in */
// also in
a = COMPUTE 1 + 2 * 3;  // behind
/* between */
b = COMPUTE 2;  -- before the semicolon

/* long
   one */
c = COMPUTE AVG(cpu.util WHEN region == "north" AND NOT rack IN (1, 2))
    BY node
    WHEN > 3
    EVERY 10 SECONDS
    WITH SALIENCE 5;  /* x */  // y
-- end
"""


def test_layout_preserves_comments() -> None:
    assert format_text(SOURCE) == LAID
    assert format_text(LAID) == LAID


_PIECES = ["/* x */", "// y\n", "-- z\n", "/* two\nlines */", "\n", "\n\n", " ", ";"]
_WORDS = ["a = COMPUTE 1", "a", "=", "COMPUTE", "1", "+ 2", "'--'", "EVERY 5 s"]


@examples(300)
@given(st.lists(st.sampled_from([*_PIECES, *_WORDS]), max_size=20).map(" ".join))
def test_formatting_of_any_text_preserves_its_meaning(text: str) -> None:
    try:
        script = parse(text)
    except ParseError:
        return
    laid = format_text(text)
    assert parse(laid) == script
    assert format_text(laid) == laid
    for mark in ("/* x */", "// y", "-- z", "/* two\nlines */"):
        assert laid.count(mark) == text.count(mark)
