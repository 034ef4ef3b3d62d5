"""Hints for invalid names of insights and streams."""

import re

from grammar.diagnostics import clip
from grammar.generated.InsightsParser import InsightsParser as Tree
from grammar.mismatch import KEYWORDS, Mismatch

SHAPE = "`name = COMPUTE AVG(metric, 10 SECONDS) EVERY 5 SECONDS`"

_FORM = "A name consists of letters, digits, `_` and dots, and does not begin with a digit"
_SIGNS = frozenset({Tree.MINUS, Tree.PLUS, Tree.SLASH, Tree.COLON})
_WORDS = (KEYWORDS - {Tree.COMPUTE}) | {Tree.KEYED}
_PARTS = _WORDS | _SIGNS | {Tree.ID, Tree.NUMBER, Tree.UNIT}
_OPENING = frozenset({"CREATE", "DEF", "DEFINE", "LET", "SET", "VAR"})
"""Words with which a definition begins in other languages."""


def invalid_name(mismatch: Mismatch) -> str | None:
    """Return a hint for several words or signs as a name: `late buses = …`, `vm-cpu = …`."""
    if mismatch.expected == {Tree.ASSIGN, Tree.COLON} and _begins_otherwise(mismatch):
        return f"Begin with the name of the insight: {SHAPE}."
    end = _end_of_name(mismatch)
    if end is None or mismatch.index >= end:
        return None
    parts = mismatch.tokens[:end]
    if all(part.type == Tree.ID for part in parts):
        return f"A name is one word: `{clip(_valid(mismatch, end))}`." if end > 1 else None
    if mismatch.tokens[end + 1].type not in (Tree.COMPUTE, Tree.STREAM):
        return None
    if any(part.type not in _PARTS for part in parts) or (end == 1 and parts[0].type in _WORDS):
        return None
    colons = [index for index, part in enumerate(parts) if part.type == Tree.COLON]
    if any(not _adjoins(mismatch, index) or not _adjoins(mismatch, index + 1) for index in colons):
        return None
    return f"{_FORM}: `{clip(_valid(mismatch, end))}`."


def _begins_otherwise(mismatch: Mismatch) -> bool:
    return mismatch.index == 1 and mismatch.tokens[0].text.upper() in _OPENING


def _end_of_name(mismatch: Mismatch) -> int | None:
    """Return the index of the first `=` (of an insight) or `:` (of a stream), or None."""
    for index, token in enumerate(mismatch.tokens):
        following = mismatch.tokens[min(index + 1, len(mismatch.tokens) - 1)].type
        if token.type == Tree.ASSIGN or (token.type, following) == (Tree.COLON, Tree.STREAM):
            return index
    return None


def _adjoins(mismatch: Mismatch, index: int) -> bool:
    """Return whether no space precedes the token at an index."""
    before, token = mismatch.tokens[index - 1], mismatch.tokens[index]
    return index > 0 and before.offset + len(before.text) == token.offset


def _valid(mismatch: Mismatch, end: int) -> str:
    """Return a valid name that is similar to the text of the tokens before ``end``."""
    parts = [
        part.text if not index or _adjoins(mismatch, index) else f"_{part.text}"
        for index, part in enumerate(mismatch.tokens[:end])
    ]
    name = re.sub(r"[^A-Za-z0-9_.]+|__+", "_", "".join(parts))
    return f"_{name}" if name[0].isdigit() else name
