"""Names, numbers, texts and stretches of time from ANTLR's parse tree."""

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
    Points,
    Rhythm,
    Setting,
    Span,
    Text,
    Value,
)
from grammar.generated.InsightsParser import InsightsParser as Tree
from grammar.problems import Problem, clip, problem_at
from grammar.scanner import Token
from grammar.units import (
    LONGEST,
    MILLIS,
    MOST_POINTS,
    in_words,
    millis_per,
    nearest_unit,
    points_per,
)

Context = Any
"""A node of ANTLR's parse tree; the generated code has no types."""

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"} | {c: c for c in "\"'\\/"}
_ANY_INTERVAL = Interval(1)
_HALVES = ("AM", "PM")


class Literals:
    """Builds the smallest parts; ``problems`` collects what is wrong in them."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems

    def complain(self, span: Span, message: str, hint: str) -> None:
        """Add a problem, and how to mend it."""
        self._problems.append(problem_at(span, message, hint))

    def names(self, tokens: Iterable[Token]) -> tuple[str, ...]:
        """Return names that may be quoted."""
        return tuple(self.name(token) for token in tokens)

    def name(self, token: Token) -> str:
        """Return a name that may be quoted."""
        name = self._string(token) if token.type == Tree.STRING else token.text
        if not name:
            self.complain(token.span, "a name cannot be empty", "Write it between the quotes.")
        return name

    def text(self, token: Token) -> Text:
        """Return a quoted text."""
        return Text(self._string(token), span=token.span)

    def number(self, token: Token, sign: int, span: Span) -> Number:
        """Return a number, written without its sign."""
        value = float(token.text)
        if math.isinf(value):
            self.complain(span, "this number is too large", "The largest is about 1.8e308.")
        return Number(sign * value, span=span)

    def amount(self, tree: Context) -> Number:
        """Return the number of a ``number`` tree."""
        return self.number(tree.value, -1 if tree.minus else 1, span_of(tree))

    def members(self, tree: Context) -> tuple[Value, ...]:
        """Return the values of a list in parentheses."""
        return tuple(map(self.member, tree.values))

    def member(self, tree: Context) -> Value:
        """Return a literal value."""
        if tree.amount:
            return self.amount(tree.amount)
        if tree.value.type == Tree.STRING:
            return self.text(tree.value)
        return Boolean(tree.value.type == Tree.TRUE, span=tree.value.span)

    def settings(self, tree: Context | None) -> tuple[Setting, ...]:
        """Return the pairs of ``(key=value, …)``; none where nothing is given."""
        return () if tree is None else tuple(map(self._setting, tree.pairs))

    def _setting(self, tree: Context) -> Setting:
        values = self.members(tree.values) if tree.values else (self.member(tree.value),)
        return Setting(self.name(tree.key), values, span=span_of(tree))

    def rhythm(self, tree: Context) -> Rhythm:
        """Return how often an insight is computed."""
        number, unit = tree.every.amount, tree.every.unit
        scale = points_per(unit.text)
        if tree.hour:
            return self._daily(tree)
        if scale is None:
            return self.interval(number.value, number.minus, unit, span_of(tree))
        count = float(number.value.text) * scale
        if number.minus or not 1 <= count <= MOST_POINTS or not count.is_integer():
            message = f"a number of points is whole, from 1 to {MOST_POINTS:,}"
            self.complain(span_of(tree), message, "Write, for example, `EVERY 100 POINTS`.")
            count = 1
        return Points(int(count), span=span_of(tree))

    def _daily(self, tree: Context) -> Rhythm:
        number, unit, span = tree.every.amount, tree.every.unit, span_of(tree)
        if millis_per(unit.text) != MILLIS["DAYS"]:
            self.complain(
                unit.span,
                f"a time of day goes with days, not with `{clip(unit.text)}`",
                "Write, for example, `EVERY 1 DAYS AT 23:59 GMT`.",
            )
            return _ANY_INTERVAL
        days = self.interval(number.value, number.minus, unit, span_of(tree.every))
        zone = self.name(tree.zone) if tree.zone else "GMT"
        if zone.upper() in _HALVES:
            message = f"hours go from 0 to 23, without {zone.upper()}"
            self.complain(tree.zone.span, message, _hours(tree, zone.upper()))
            zone = "GMT"
        return Daily(days.millis // MILLIS["DAYS"], self._time(tree), zone, span=span)

    def _time(self, tree: Context) -> time:
        hour, minute = tree.hour.text, tree.minute.text
        digits = all(part.isdigit() and len(part) <= 2 for part in (hour, minute))
        if digits and int(hour) < 24 and int(minute) < 60:
            return time(int(hour), int(minute))
        end = tree.minute.offset + len(minute)
        span = Span(tree.hour.line, tree.hour.column, tree.hour.offset, end - tree.hour.offset)
        self.complain(span, "this is no time of day", "It is from 00:00 to 23:59.")
        return time()

    def interval(self, count: Token, minus: object, unit: Token, span: Span) -> Interval:
        """Return a stretch of time; where it is none, any."""
        scale = millis_per(unit.text)
        if scale is None:
            self.complain(
                unit.span,
                f"`{clip(unit.text)}` is not a unit of time",
                _unit_hint(unit.text),
            )
        elif minus or not count.text.isdigit() or float(count.text) == 0:
            self.complain(
                span,
                "an interval is a whole number of units, at least 1",
                _whole(-1 if minus else 1, float(count.text), scale),
            )
        elif float(count.text) * scale > LONGEST:
            longest = in_words(LONGEST)
            self.complain(span, f"an interval is at most {longest} long", "Choose a shorter one.")
        else:
            # By a float, which is exact here: of zeros that lead, any number may stand there.
            return Interval(int(float(count.text)) * scale, span=span)
        return _ANY_INTERVAL

    def _string(self, token: Token) -> str:
        def resolve(escape: re.Match[str]) -> str:
            code, char = escape.groups()
            if code:
                return chr(int(code, 16))
            if char not in _ESCAPED:
                self.complain(
                    token.span,
                    f"`\\{char}` means nothing in a text",
                    "Write `\\\\` for a backslash.",
                )
            return _ESCAPED.get(char, char)

        text = _ESCAPE.sub(resolve, token.text[1:-1])
        try:  # two escapes may make up one character, as in JSON; half of one is none
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self.complain(
                token.span,
                "this text contains half a character (a lone surrogate)",
                "Write both halves, as in `\\ud83d\\ude00`, or the character itself.",
            )
            return ""


def _hours(tree: Context, half: str) -> str:
    """Return how a time of twelve hours is written with those of a day."""
    hour, minute = tree.hour.text, tree.minute.text
    sound = all(part.isdigit() and len(part) <= 2 for part in (hour, minute))
    if not sound or not 1 <= int(hour) <= 12:
        return "Write, for example, `AT 20:30`."
    return f"Write `AT {int(hour) % 12 + 12 * (half == 'PM')}:{minute}`."


def _unit_hint(word: str) -> str:
    if points_per(word) is not None:
        return "Points are counted behind EVERY only."
    near = nearest_unit(word)
    return f"Did you mean `{near}`?" if near else f"The units are {', '.join(MILLIS)}."


def _whole(sign: int, count: float, scale: int) -> str:
    millis = sign * count * scale
    if 1 <= millis <= LONGEST and millis.is_integer():
        return f"Write `{in_words(int(millis))}`."
    return "Write, for example, `10 SECONDS`."


def span_of(tree: Context) -> Span:
    """Return where a part of the text stands."""
    first, last = tree.start, tree.stop
    length = last.offset + len(last.text) - first.offset
    return Span(first.line, first.column, first.offset, length)
