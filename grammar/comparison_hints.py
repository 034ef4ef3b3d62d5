"""Hints for comparisons with words, lists or signs that the language does not have."""

from grammar.diagnostics import clip
from grammar.generated.InsightsParser import InsightsParser as Tree
from grammar.mismatch import LITERALS, Mismatch
from grammar.other_languages import NULL_HINT
from grammar.scanner import LexicalToken

SIGNS = {
    "=>": ">=",
    "=<": "<=",
    ">=": ">=",
    "<=": "<=",
    "==": "==",
    "===": "==",
    "====": "==",
    "!==": "!=",
    "!===": "!=",
    "<>": "!=",
    "><": "!=",
}
"""Two signs in succession -> the sign that they mean."""

_WORDS = {
    **dict.fromkeys(("EQ", "EQUAL", "EQUALS"), "=="),
    **dict.fromkeys(("DIFFERS", "NE", "NEQ"), "!="),
    **dict.fromkeys(("ABOVE", "EXCEEDS", "GREATER", "GT", "HIGHER", "MORE", "OVER"), ">"),
    **dict.fromkeys(("BELOW", "FEWER", "LESS", "LOWER", "LT", "UNDER"), "<"),
    **dict.fromkeys(("GE", "GTE"), ">="),
    **dict.fromkeys(("LE", "LTE"), "<="),
}
_NEGATED = {"==": "!=", "!=": "==", ">": "<=", "<": ">=", ">=": "<", "<=": ">"}
_EQUAL = frozenset({Tree.ASSIGN, Tree.EQ, Tree.NE})
_VALUES = LITERALS | {Tree.ID, Tree.MINUS}
_BEFORE_CONDITION = (Tree.WHEN, Tree.AND, Tree.OR)


def compared_by_word(mismatch: Mismatch) -> str | None:
    """Return a hint for a comparison by a word: `region equals "east"`, `x is above 5`."""
    start = mismatch.index
    before = mismatch.tokens[max(start - 1, 0)].text.upper()
    if mismatch.kind(-2) in _BEFORE_CONDITION and (before == "IS" or before in _WORDS):
        start -= 1  # the word was read as a name: `WHEN above 5`
    elif mismatch.found.type != Tree.ID:
        return None
    words = [token.text.upper() for token in mismatch.tokens[start : start + 6]]
    negated = mismatch.tokens[max(start - 1, 0)].type == Tree.NOT
    is_ = words[0] == "IS"
    if is_:
        words.pop(0)
        negated = words[:1] == ["NOT"]
        words = words[negated:]
    sign = _sign(words, is_=is_)
    if sign is None:
        return None
    if sign == "NULL":
        return NULL_HINT
    value, unit = (token.type for token in [*mismatch.tokens, mismatch.tokens[-1]][start + 1 :][:2])
    if words[0] == "OVER" and (value != Tree.NUMBER or unit == Tree.UNIT):
        return None  # a window: `OVER 5 MINUTES`
    if not any(token.type == Tree.WHEN for token in mismatch.tokens[:start]):
        if value not in _VALUES:
            return None
        return "Write a condition after WHEN, with a sign, as in `WHEN > 5`."
    sign = _NEGATED[sign] if negated else sign
    example = f'region {sign} "east"' if sign in ("==", "!=") else f"x {sign} 5"
    return f"Write a comparison with a sign: `{example}`."


def _sign(words: list[str], *, is_: bool) -> str | None:
    """Return the sign of the words of a comparison, or "NULL"; ``is_``: whether IS precedes."""
    if not words:
        return None
    if is_ and words[0] == "NULL":
        return "NULL"
    sign = _WORDS.get(words[0], "==" if is_ else None)
    if sign in (">", "<") and words[1:4] == ["THAN", "OR", "EQUAL"]:
        return f"{sign}="
    return sign


def compared_with_list(mismatch: Mismatch) -> str | None:
    """Return a hint for a list after `==` or `!=`: `node == (a, b)`, `node == ["a", "b"]`."""
    if mismatch.found.type == Tree.LBRACKET and mismatch.kind(-1) in _EQUAL:
        opening = mismatch.index
    elif mismatch.found.type == Tree.COMMA and mismatch.kind(-2) == Tree.LPAR:
        opening = mismatch.index - 2
    else:
        return None
    sign = mismatch.tokens[opening - 1]
    members = _members(mismatch.tokens[opening + 1 :])
    if sign.type not in _EQUAL or members is None:
        return None
    operator = "NOT IN" if sign.type == Tree.NE else "IN"
    operand = mismatch.tokens[opening - 2]
    left = f"{clip(operand.text)} " if operand.type in (Tree.ID, Tree.STRING) else ""
    return f"Write `{left}{operator} ({clip(', '.join(members))})`."


def _members(tokens: list[LexicalToken]) -> list[str] | None:
    """Return the texts of the values of a list up to its end; None: this is not a list."""
    members: list[str] = []
    for token in tokens:
        if token.type in (Tree.RPAR, Tree.RBRACKET):
            return members
        if token.type in LITERALS | {Tree.ID}:
            members.append(token.text)
        elif token.type != Tree.COMMA:
            return None
    return None
