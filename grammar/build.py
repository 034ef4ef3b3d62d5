"""From ANTLR's parse tree to the abstract syntax tree, and what is wrong in spite of the syntax."""

import math
import re
from collections.abc import Iterable
from typing import Any

from grammar.ast import (
    Aggregate,
    And,
    Binary,
    Boolean,
    Comparator,
    Compare,
    Condition,
    Elided,
    Expression,
    Insight,
    Interval,
    Membership,
    MetricStream,
    Name,
    Negate,
    Not,
    Number,
    Or,
    Span,
    Text,
    Value,
)
from grammar.generated.InsightsParser import InsightsParser as Tree
from grammar.problems import Problem, clip, problem_at
from grammar.scanner import Token
from grammar.units import LONGEST, MILLIS, in_words, millis_per, nearest_unit

Context = Any
"""A node of ANTLR's parse tree; the generated code has no types."""

_COMPARATORS: dict[str, Comparator] = {
    ">": ">",
    ">=": ">=",
    "<": "<",
    "<=": "<=",
    "==": "==",
    "=": "==",
    "!=": "!=",
    "<>": "!=",
}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"} | {c: c for c in "\"'\\/"}


class Builder:
    """Builds one insight; ``problems`` collects what is wrong, and the result is then void."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems
        self._conditions = 0  # how many conditions are around the place being built

    def insight(self, tree: Context) -> Insight:
        """Build the insight of a ``statement`` tree."""
        name: Token = tree.name
        if "." in name.text:
            self._complain(
                name.span,
                f"`{clip(name.text)}` cannot name an insight",
                f"Use letters, digits and underscores: `{clip(name.text.replace('.', '_'))}`.",
            )
        return Insight(
            name=name.text,
            expression=self._expression(tree.value),
            by=self._identifiers(tree.by.attributes) if tree.by else (),
            when=self._condition(tree.when) if tree.when else None,
            every=self._interval(tree.every) if tree.every else None,
            scheduler=self._scheduler(tree.options.chosen) if tree.options else None,
            span=_span(tree),
        )

    def _scheduler(self, options: Iterable[Context]) -> Text | None:
        chosen: Text | None = None
        for option in options:
            word: Token = option.name
            if word.text.upper() != "SCHEDULER":
                self._complain(
                    word.span,
                    f"there is no option `{clip(word.text)}`",
                    "The only option is SCHEDULER: `WITH SCHEDULER=latency`.",
                )
            elif chosen is not None:
                self._complain(word.span, "SCHEDULER is given twice", "Name one scheduler.")
            else:
                name: Token = option.value.name
                chosen = Text(self._identifier(name), span=name.span)
        return chosen

    def _expression(self, tree: Context, hint: str | None = None) -> Expression:
        node = self._term(tree)
        if isinstance(node, Expression):
            return node
        self._complain(
            node.span,
            "this is a condition, where a value is expected",
            hint or "Conditions stand behind WHEN.",
        )
        return Elided()

    def _condition(self, tree: Context) -> Condition:
        self._conditions += 1
        node = self._term(tree)
        self._conditions -= 1
        if isinstance(node, Condition):
            return node
        example = f"{node.name} == true" if isinstance(node, Name) else "> 100"
        self._complain(
            node.span,
            "this is a value, where a condition is expected",
            f"Compare it with something, for example `{example}`.",
        )
        return Not(Compare("==", Elided(), Elided()))

    def _term(self, tree: Context) -> Expression | Condition:
        match tree:
            case Tree.GroupContext():
                return self._term(tree.inner)
            case Tree.WordContext():
                return self._aggregate(tree) if tree.source else self._name(tree.word)
            case Tree.LiteralContext():
                return self._literal(tree.value)
            case Tree.NegationContext():
                return self._negation(tree)
            case Tree.ArithmeticContext():
                left, right = self._expression(tree.left), self._expression(tree.right)
                return Binary(tree.operator.text, left, right, span=_span(tree))
            case Tree.DenialContext():
                return self._denial(tree)
            case Tree.ConjunctionContext():
                return And(self._chain(tree, And), span=_span(tree))
            case Tree.DisjunctionContext():
                return Or(self._chain(tree, Or), span=_span(tree))
            case Tree.ComparisonContext():
                left, right = self._compared(tree.left), self._compared(tree.right)
                return Compare(_COMPARATORS[tree.operator.text], left, right, span=_span(tree))
            case Tree.ElidedComparisonContext():
                elided, right = _elided(tree), self._compared(tree.right)
                return Compare(_COMPARATORS[tree.operator.text], elided, right, span=_span(tree))
            case Tree.ChoiceContext():
                operand, members = self._compared(tree.operand), self._members(tree.choices)
                return Membership(operand, members, tree.negated is not None, span=_span(tree))
            case _:
                members = self._members(tree.choices)
                return Membership(_elided(tree), members, span=_span(tree))

    def _compared(self, tree: Context) -> Expression:
        return self._expression(tree, "Comparisons do not chain: write `1 < x AND x < 5`.")

    def _chain(self, tree: Context, kind: type[And] | type[Or]) -> tuple[Condition, ...]:
        """Return the terms of ``a AND b AND c``, however it is parenthesised, as one row."""
        rights = []
        while isinstance(tree, Tree.ConjunctionContext if kind is And else Tree.DisjunctionContext):
            rights.append(tree.right)
            tree = tree.left
        terms: list[Condition] = []
        for term in map(self._condition, [tree, *reversed(rights)]):
            terms.extend(term.terms if isinstance(term, kind) else [term])
        return tuple(terms)

    def _denial(self, tree: Context) -> Condition:
        if isinstance(tree.operand, Tree.ElidedChoiceContext):
            members = self._members(tree.operand.choices)
            return Membership(_elided(tree), members, negated=True, span=_span(tree))
        return Not(self._condition(tree.operand), span=_span(tree))

    def _negation(self, tree: Context) -> Expression:
        operand = tree.operand
        if isinstance(operand, Tree.LiteralContext) and operand.value.type == Tree.NUMBER:
            return self._number(operand.value, sign=-1, span=_span(tree))
        return Negate(self._expression(operand), span=_span(tree))

    def _name(self, token: Token) -> Name:
        if not self._conditions:
            self._refuse_bare(token)
        return Name(token.text, span=token.span)

    def _literal(self, token: Token) -> Value:
        if not self._conditions and token.type != Tree.NUMBER:
            self._refuse_bare(token)
        return self._value(token)

    def _refuse_bare(self, token: Token) -> None:
        self._complain(
            token.span,
            f"`{clip(token.text)}` alone has no value to compute with",
            None
            if token.type in (Tree.TRUE, Tree.FALSE)
            else f"Aggregate the metric: `AVG({clip(token.text)}, 10 SECONDS)`.",
        )

    def _aggregate(self, tree: Context) -> Aggregate:
        return Aggregate(
            function=tree.word.text.upper(),
            stream=self._stream(tree.source),
            window=self._interval(tree.window) if tree.window else None,
            span=_span(tree),
        )

    def _stream(self, tree: Context) -> MetricStream:
        return MetricStream(
            metric=self._identifier(tree.metric),
            members=self._identifiers(tree.from_.names) if tree.from_ else (),
            when=self._condition(tree.when) if tree.when else None,
            span=_span(tree),
        )

    def _identifiers(self, tokens: Iterable[Token]) -> tuple[str, ...]:
        return tuple(self._identifier(token) for token in tokens)

    def _identifier(self, token: Token) -> str:
        name = token.text if token.type == Tree.ID else self._string(token)
        if not name:
            self._complain(token.span, "a name cannot be empty")
        return name

    def _members(self, tree: Context) -> tuple[Value, ...]:
        return tuple(
            self._number(member.value, sign=-1, span=_span(member))
            if member.minus
            else self._value(member.value)
            for member in tree.values
        )

    def _value(self, token: Token) -> Value:
        if token.type == Tree.NUMBER:
            return self._number(token, sign=1, span=token.span)
        if token.type == Tree.STRING:
            return Text(self._string(token), span=token.span)
        return Boolean(token.type == Tree.TRUE, span=token.span)

    def _number(self, token: Token, sign: int, span: Span) -> Number:
        value = float(token.text)
        if math.isinf(value):
            self._complain(span, "this number is too large", "The largest is about 1.8e308.")
        return Number(sign * value, span=span)

    def _string(self, token: Token) -> str:
        def resolve(escape: re.Match[str]) -> str:
            code, char = escape.groups()
            if code:
                return chr(int(code, 16))
            if char not in _ESCAPED:
                self._complain(
                    token.span,
                    f"`\\{char}` means nothing in a text",
                    "Write `\\\\` for a backslash.",
                )
            return _ESCAPED.get(char, char)

        text = _ESCAPE.sub(resolve, token.text[1:-1])
        try:  # two escapes may make up one character, as in JSON; half of one is none
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self._complain(token.span, "this text contains half a character (a lone surrogate)")
            return ""

    def _interval(self, tree: Context) -> Interval:
        count, unit, span = tree.count.text, tree.unit.text, _span(tree)
        scale = millis_per(unit)
        if scale is None:
            message = f"`{clip(unit)}` is not a unit of time"
            self._complain(tree.unit.span, message, _unit_hint(unit))
        elif tree.minus or not count.isdigit() or float(count) == 0:
            self._complain(
                span,
                "an interval is a whole number of units, at least 1",
                _whole(-1 if tree.minus else 1, float(count), scale),
            )
        elif float(count) * scale > LONGEST:
            self._complain(span, f"an interval is at most {in_words(LONGEST)} long")
        else:
            return Interval(int(count) * scale, span=span)
        return Interval(1, span=span)

    def _complain(self, span: Span, message: str, hint: str | None = None) -> None:
        self._problems.append(problem_at(span, message, hint))


def _unit_hint(word: str) -> str:
    if word.upper() in ("POINT", "POINTS"):
        return "Intervals by data points are not supported yet."
    near = nearest_unit(word)
    return f"Did you mean `{near}`?" if near else f"The units are {', '.join(MILLIS)}."


def _whole(sign: int, count: float, scale: int) -> str | None:
    millis = sign * count * scale
    if 1 <= millis <= LONGEST and millis.is_integer():
        return f"Write `{in_words(int(millis))}`."
    return None


def _elided(tree: Context) -> Elided:
    first = tree.start.span
    return Elided(span=Span(first.line, first.column, first.offset, 0))


def _span(tree: Context) -> Span:
    first, last = tree.start, tree.stop
    length = last.offset + len(last.text) - first.offset
    return Span(first.line, first.column, first.offset, length)
