"""What can be said of a text in spite of its problems: for all that is wrong to be told at once."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from grammar.ast import Statement
from grammar.generated.InsightsParser import InsightsParser as Tree
from grammar.problems import Rest
from grammar.scanner import Token
from grammar.words import OPTIONS

_WORD = re.compile("[A-Za-z_]")
_ENDLESS = frozenset({Tree.UNCLOSED_COMMENT, Tree.UNCLOSED_STRING})


def rest_of(statements: Sequence[Statement], broken: Iterable[Sequence[Token]]) -> Rest | None:
    """Return what is sound of a text, beside the tokens of its ``broken`` statements.

    None where nothing is, or where any name may be defined: what has no end hides what follows.
    """
    names: set[str] = set()
    for tokens in broken:
        if any(token.type in _ENDLESS for token in tokens):
            return None
        names.update(word for word in _defined(tokens) if _WORD.match(word))
    return Rest(tuple(statements), frozenset(names)) if statements else None


def _defined(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the names that a statement may define, or several that no ``;`` parts.

    These are rather too many than too few: who uses one is not blamed for it.
    """
    words = [token.text.strip("\"'`") for token in tokens]
    yield words[0]
    body = words.index("{") if "{" in words else 0
    yield from words[:body]
    for word, following in pairwise(words):
        if following in ("=", ":") and word.upper() not in OPTIONS:
            yield word
        if following.upper() in ("COMPUTE", "STREAM"):
            yield word
        if word.upper() == "FUNCTION":
            yield following
