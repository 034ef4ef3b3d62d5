"""Hints for numbers with decimal commas, separators of thousands, or suffixes."""

import re

from grammar.diagnostics import clip
from grammar.generated.InsightsParser import InsightsParser as Tree
from grammar.mismatch import COMPARATORS, Mismatch
from grammar.scanner import LexicalToken
from grammar.units import nearest_unit

_SUFFIXES = frozenset({"B", "C", "G", "GB", "GIB", "KB", "KIB", "MB", "MIB", "PERCENT", "TB"})
_THOUSANDS = re.compile(r"_\d[\d_]*")


def unclear_number(mismatch: Mismatch) -> str | None:
    """Return a hint for `0,5`, `1_000`, `5k` or `5GB`, or for a name that begins with a digit."""
    before = mismatch.tokens[max(mismatch.index - 1, 0)]
    if before.type != Tree.NUMBER:
        return None
    if mismatch.found.type == Tree.COMMA and mismatch.kind(1) == Tree.NUMBER:
        if mismatch.expected == {Tree.UNIT}:
            return "An interval is a whole number of units: write, for example, `500 MILLIS`."
        if mismatch.kind(2) == Tree.COMMA and mismatch.kind(3) == Tree.NUMBER:
            return "Write a number without commas: `1000000`."
        return decimal_comma(before, mismatch.tokens[mismatch.index + 1])
    adjacent = before.offset + len(before.text) == mismatch.found.offset
    return _suffix(mismatch, before.text) if adjacent and mismatch.found.type == Tree.ID else None


def decimal_comma(whole: LexicalToken, part: LexicalToken) -> str | None:
    """Return a hint for two numbers with only a comma between them; otherwise None."""
    if not whole.text.isdigit() or part.offset != whole.offset + len(whole.text) + 1:
        return None
    decimal = clip(f"{whole.text}.{part.text}")
    if len(part.text) == 3 and not whole.text.startswith("0"):
        return f"Write `{clip(whole.text + part.text)}`, or a decimal point: `{decimal}`."
    return f"Write a decimal point: `{decimal}`."


def _suffix(mismatch: Mismatch, digits: str) -> str | None:
    name = digits + mismatch.found.text
    if digits.isdigit() and _THOUSANDS.fullmatch(mismatch.found.text):
        return f"Write the digits without `_`: `{clip(name.replace('_', ''))}`."
    if mismatch.kind(-2) in COMPARATORS:
        if mismatch.word == "K" and digits.isdigit():
            return f"Write the number in full: `{clip(digits)}000`."
        if mismatch.word in _SUFFIXES:
            return "Write the number alone, in the unit of its metric."
    if "." in digits or nearest_unit(mismatch.found.text) is not None:
        return None
    return f'A name that begins with a digit needs quotes: `"{clip(name)}"`.'
