"""Error recovery: finds the valid part of a text, so that the semantic check covers this part."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from grammar.ast import Statement
from grammar.diagnostics import PartialScript
from grammar.generated.InsightsParser import InsightsParser as Tree
from grammar.keywords import OPTIONS
from grammar.scanner import LexicalToken

_WORD = re.compile("[A-Za-z_]")
_ENDLESS = frozenset({Tree.UNCLOSED_COMMENT, Tree.UNCLOSED_STRING})


def recover(
    statements: Sequence[Statement], broken: Iterable[Sequence[LexicalToken]]
) -> PartialScript | None:
    """Return the valid part of a text; ``broken``: the tokens of each invalid statement.

    Return None if no statement is valid, or if an unclosed comment or text may hide further
    definitions.
    """
    names: set[str] = set()
    for tokens in broken:
        if any(token.type in _ENDLESS for token in tokens):
            return None
        names.update(word for word in _defined(tokens) if _WORD.match(word))
    return PartialScript(tuple(statements), frozenset(names)) if statements else None


def _defined(tokens: Sequence[LexicalToken]) -> Iterator[str]:
    """Yield the names that an invalid statement may define.

    ``tokens``: the tokens of the statement; if a ``;`` is missing, the tokens may belong to several
    statements. Excess names are harmless: the use of an excess name is not reported as an error.
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
