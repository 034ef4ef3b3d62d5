"""Builds names, numbers, texts and intervals from ANTLR's parse trees."""

import math
import re
from collections.abc import Iterable
from datetime import time
from typing import Any

from grammar.ast import (
    Boolean,
    Daily,
    Interval,
    Number,
    PointCount,
    Rhythm,
    Setting,
    Span,
    Text,
    Value,
)
from grammar.diagnostics import Diagnostic, clip, diagnostic_at
from grammar.generated.InsightsParser import InsightsParser as Tree
from grammar.scanner import LexicalToken
from grammar.units import (
    MAX_MILLIS,
    MAX_POINTS,
    MILLIS,
    in_words,
    millis_per,
    nearest_unit,
    points_per,
)

Context = Any
"""A node of ANTLR's parse tree, untyped because the generated code has no types."""

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"} | {c: c for c in "\"'\\/"}
_ANY_INTERVAL = Interval(1)
_HALVES = ("AM", "PM")


class LiteralBuilder:
    """Builds names, numbers, texts and intervals.

    ``problems``: the list to which diagnostics are appended.
    """

    def __init__(self, problems: list[Diagnostic]) -> None:
        self._problems = problems

    def report(self, span: Span, message: str, hint: str) -> None:
        """Add an error at ``span``."""
        self._problems.append(diagnostic_at(span, message, hint))

    @property
    def count(self) -> int:
        """The number of diagnostics up to now."""
        return len(self._problems)

    def names(self, tokens: Iterable[LexicalToken]) -> tuple[str, ...]:
        """Return the names that tokens represent; a token may be a word or a quoted string."""
        return tuple(self.name(token) for token in tokens)

    def name(self, token: LexicalToken) -> str:
        """Return the name that a token represents; the token may be a word or a quoted string."""
        name = self._string(token) if token.type == Tree.STRING else token.text
        if not name:
            self.report(token.span, "a name cannot be empty", "Write the name between the quotes.")
        return name

    def text(self, token: LexicalToken) -> Text:
        """Return the text of a quoted token."""
        return Text(self._string(token), span=token.span)

    def number(self, token: LexicalToken, sign: int, span: Span) -> Number:
        """Return the number of a token times ``sign``, 1 or -1."""
        value = float(token.text)
        if math.isinf(value):
            self.report(span, "this number is too large", "The largest number is about 1.8e308.")
        return Number(sign * value, span=span)

    def amount(self, tree: Context) -> Number:
        """Return the number of a parse tree of the rule ``number``."""
        return self.number(tree.value, -1 if tree.minus else 1, span_of(tree))

    def members(self, tree: Context) -> tuple[Value, ...]:
        """Return the values of a list in parentheses."""
        return tuple(map(self.member, tree.values))

    def member(self, tree: Context) -> Value:
        """Return the number, text or boolean that a parse tree represents."""
        if tree.amount:
            return self.amount(tree.amount)
        if tree.value.type == Tree.STRING:
            return self.text(tree.value)
        if tree.value.type == Tree.ID:
            return Text(tree.value.text, span=tree.value.span)
        return Boolean(tree.value.type == Tree.TRUE, span=tree.value.span)

    def settings(self, tree: Context | None) -> tuple[Setting, ...]:
        """Return the settings in ``(key=value, …)``; an empty tuple if ``tree`` is None."""
        return () if tree is None else tuple(map(self._setting, tree.pairs))

    def _setting(self, tree: Context) -> Setting:
        values = self.members(tree.values) if tree.values else (self.member(tree.value),)
        return Setting(self.name(tree.key), values, span=span_of(tree))

    def rhythm(self, tree: Context) -> Rhythm:
        """Return the value of the EVERY clause of an insight."""
        number, unit = tree.every.amount, tree.every.unit
        scale = points_per(unit.text)
        if tree.hour:
            return self._daily(tree)
        if scale is None:
            return self.interval(number.value, number.minus, unit, span_of(tree))
        count = float(number.value.text) * scale
        if number.minus or not 1 <= count <= MAX_POINTS or not count.is_integer():
            message = f"the number of points must be a whole number from 1 to {MAX_POINTS:,}"
            self.report(span_of(tree), message, "Write, for example, `EVERY 100 POINTS`.")
            count = 1
        return PointCount(int(count), span=span_of(tree))

    def _daily(self, tree: Context) -> Rhythm:
        number, unit, span = tree.every.amount, tree.every.unit, span_of(tree)
        if millis_per(unit.text) != MILLIS["DAYS"]:
            self.report(
                unit.span,
                f"before a time of day, the interval must be in days, not `{clip(unit.text)}`",
                "Write, for example, `EVERY 1 DAYS AT 23:59 GMT`.",
            )
            return _ANY_INTERVAL
        days = self.interval(number.value, number.minus, unit, span_of(tree.every))
        zone = self.name(tree.zone) if tree.zone else "GMT"
        if zone.upper() in _HALVES:
            message = f"a time of day has 24 hours, without {zone.upper()}"
            self.report(tree.zone.span, message, _hours(tree, zone.upper()))
            zone = "GMT"
        return Daily(days.millis // MILLIS["DAYS"], self._time(tree), zone, span=span)

    def _time(self, tree: Context) -> time:
        hour, minute = tree.hour.text, tree.minute.text
        digits = all(part.isdigit() and len(part) <= 2 for part in (hour, minute))
        if digits and int(hour) < 24 and int(minute) < 60:
            return time(int(hour), int(minute))
        end = tree.minute.offset + len(minute)
        span = Span(tree.hour.line, tree.hour.column, tree.hour.offset, end - tree.hour.offset)
        self.report(span, "this is not a time of day", "A time of day is from 00:00 to 23:59.")
        return time()

    def interval(
        self, count: LexicalToken, minus: object, unit: LexicalToken, span: Span
    ) -> Interval:
        """Return an interval; an invalid interval is reported and replaced by a placeholder.

        ``count``, ``unit``: the tokens of the number and the unit. ``minus``: true if a minus sign
        precedes the number.
        """
        scale = millis_per(unit.text)
        if scale is None:
            self.report(
                unit.span,
                f"`{clip(unit.text)}` is not a unit of time",
                _unit_hint(unit.text),
            )
        elif minus or not count.text.isdigit() or float(count.text) == 0:
            self.report(
                span,
                "an interval must be a whole number of units, at least 1",
                _whole(-1 if minus else 1, float(count.text), scale),
            )
        elif float(count.text) * scale > MAX_MILLIS:
            longest = in_words(MAX_MILLIS)
            self.report(
                span, f"an interval must be at most {longest}", "Choose a shorter interval."
            )
        else:
            # A float is exact here, and accepts any number of leading zeros.
            return Interval(int(float(count.text)) * scale, span=span)
        return _ANY_INTERVAL

    def _string(self, token: LexicalToken) -> str:
        def resolve(escape: re.Match[str]) -> str:
            code, char = escape.groups()
            if code:
                return chr(int(code, 16))
            if char not in _ESCAPED:
                self.report(
                    token.span,
                    f"`\\{char}` is not an escape sequence",
                    "Write `\\\\` for a backslash.",
                )
            return _ESCAPED.get(char, char)

        text = _ESCAPE.sub(resolve, token.text[1:-1])
        try:  # two escapes may be one character, as in JSON; half of a pair is invalid
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self.report(
                token.span,
                "this text contains half a character (a lone surrogate)",
                "Write both halves, as in `\\ud83d\\ude00`, or the character itself.",
            )
            return ""


def _hours(tree: Context, half: str) -> str:
    """Return a hint that gives a time of day on a 24-hour clock; ``half``: AM or PM."""
    hour, minute = tree.hour.text, tree.minute.text
    sound = all(part.isdigit() and len(part) <= 2 for part in (hour, minute))
    if not sound or not 1 <= int(hour) <= 12:
        return "Write, for example, `AT 20:30`."
    return f"Write `AT {int(hour) % 12 + 12 * (half == 'PM')}:{minute}`."


_LONG_UNITS = {
    "WEEK": "A week is `7 DAYS`.",
    "WEEKS": "A week is `7 DAYS`.",
    "W": "A week is `7 DAYS`.",
    "MONTH": "Months differ in length: write, for example, `30 DAYS`.",
    "MONTHS": "Months differ in length: write, for example, `30 DAYS`.",
    "YEAR": "Years differ in length: write, for example, `365 DAYS`.",
    "YEARS": "Years differ in length: write, for example, `365 DAYS`.",
}
_COMPOUND = re.compile(r"([dhm])(\d+)([hms])")


def _unit_hint(word: str) -> str:
    if word == "M":
        return "Write `m` or MINUTES for minutes; `M` is a million points."
    if word.upper() in _LONG_UNITS:
        return _LONG_UNITS[word.upper()]
    if _COMPOUND.fullmatch(word) is not None:
        return "Write the interval in one unit: `90 MINUTES` instead of `1h30m`."
    if points_per(word) is not None:
        return "A number of points is allowed only after EVERY."
    near = nearest_unit(word)
    return f"Did you mean `{near}`?" if near else f"The units are {', '.join(MILLIS)}."


def _whole(sign: int, count: float, scale: int) -> str:
    millis = sign * count * scale
    if 1 <= millis <= MAX_MILLIS and millis.is_integer():
        return f"Write `{in_words(int(millis))}`."
    return "Write, for example, `10 SECONDS`."


def span_of(tree: Context) -> Span:
    """Return the range of the source text that a parse tree covers."""
    first, last = tree.start, tree.stop
    length = last.offset + len(last.text) - first.offset
    return Span(first.line, first.column, first.offset, length)
