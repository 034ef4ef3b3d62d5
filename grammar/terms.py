"""Expressions and conditions from ANTLR's parse tree, which has one rule for both."""

from collections.abc import Iterator
from dataclasses import replace

from grammar.ast import (
    And,
    Binary,
    Boolean,
    Call,
    Comparator,
    Compare,
    Condition,
    Elided,
    Expression,
    InsightReference,
    Interval,
    Membership,
    MetricStream,
    Name,
    Negate,
    Not,
    Or,
    Parameter,
    Scoped,
    Span,
    Value,
)
from grammar.functions import OPERATORS, WINDOWED, function_named
from grammar.generated.InsightsParser import InsightsParser as Tree
from grammar.literals import Context, Literals, span_of
from grammar.problems import clip
from grammar.scanner import Token
from grammar.units import MILLIS

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
_CHAINED = "Comparisons do not chain: write `1 < x AND x < 5`."
_IN_COMPUTE = "Conditions stand behind WHEN."
_IN_CALL = "A condition on a metric stands behind WHEN: `metric WHEN > 3`."


class Terms:
    """Builds expressions and conditions; ``literals`` collects what is wrong."""

    def __init__(self, literals: Literals) -> None:
        self._literals = literals
        self._quotes_texts = False  # in a condition, what is quoted is a text; elsewhere, a name

    def expression(self, tree: Context, hint: str = _IN_COMPUTE) -> Expression:
        """Return the value that a ``term`` tree is."""
        node = self._term(tree)
        if isinstance(node, Expression):
            return node
        self._literals.complain(node.span, "this is a condition, where a value is expected", hint)
        return Elided()

    def condition(self, tree: Context) -> Condition:
        """Return the condition that a ``term`` tree is."""
        around, self._quotes_texts = self._quotes_texts, True
        node = self._term(tree)
        self._quotes_texts = around
        if isinstance(node, Condition):
            return node
        example = f"{node.name} == true" if isinstance(node, Name) else "> 100"
        self._literals.complain(
            node.span,
            "this is a value, where a condition is expected",
            f"Compare it with something, for example `{example}`.",
        )
        return Not(Compare("==", Elided(), Elided()))

    def scoped(self, tree: Context) -> Expression:
        """Return the value of a ``scope`` tree."""
        by = self._literals.names(tree.by.attributes) if tree.by else ()
        return self._scope(tree.value, by, tree.when, span_of(tree))

    def _scope(
        self, value: Context, by: tuple[str, ...], when: Context | None, span: Span
    ) -> Expression:
        around, self._quotes_texts = self._quotes_texts, False
        node = self.expression(value, _IN_CALL)
        self._quotes_texts = around
        if not by and when is None:
            return node
        condition = self.condition(when) if when else None
        match node:
            case Name(metric) if not by:
                return MetricStream(metric, (), condition, span=span)
            case MetricStream(metric, members, None) if not by:
                return MetricStream(metric, members, condition, span=span)
            case _:
                return Scoped(node, by, condition, span=span)

    def _term(self, tree: Context) -> Expression | Condition:
        match tree:
            case Tree.WordContext():
                return self._word(tree)
            case Tree.QuotedContext():
                return self._quoted(tree)
            case Tree.AmountContext():
                return self._amount(tree)
            case Tree.GroupContext():
                inner = tree.inner
                bare = inner.by is None and inner.when is None
                return self._term(inner.value) if bare else self.scoped(inner)
            case Tree.ReferenceContext():
                return InsightReference(tree.name.text, span=span_of(tree))
            case Tree.TruthContext():
                return self._truth(tree.value)
            case Tree.NegationContext():
                return self._negation(tree)
            case Tree.ArithmeticContext():
                left, right = self.expression(tree.left), self.expression(tree.right)
                return Binary(tree.operator.text, left, right, span=span_of(tree))
            case _:
                return self._logic(tree)

    def _logic(self, tree: Context) -> Condition:
        match tree:
            case Tree.ConjunctionContext():
                return And(self._chain(tree, And), span=span_of(tree))
            case Tree.DisjunctionContext():
                return Or(self._chain(tree, Or), span=span_of(tree))
            case Tree.DenialContext():
                return self._denial(tree)
            case Tree.ComparisonContext():
                left, right = self._compared(tree.left), self._compared(tree.right)
                return Compare(_COMPARATORS[tree.operator.text], left, right, span=span_of(tree))
            case Tree.ElidedComparisonContext():
                elided, right = _elided(tree), self._compared(tree.right)
                return Compare(_COMPARATORS[tree.operator.text], elided, right, span=span_of(tree))
            case Tree.ChoiceContext():
                operand, members = self._compared(tree.operand), self._members(tree)
                return Membership(operand, members, tree.negated is not None, span=span_of(tree))
            case _:
                return Membership(_elided(tree), self._members(tree), span=span_of(tree))

    def _compared(self, tree: Context) -> Expression:
        return self.expression(tree, _CHAINED)

    def _members(self, tree: Context) -> tuple[Value, ...]:
        return self._literals.members(tree.choices)

    def _chain(self, tree: Context, kind: type[And] | type[Or]) -> tuple[Condition, ...]:
        """Return the terms of ``a AND b AND c``, however it is parenthesised, as one row."""
        rights = []
        while isinstance(tree, Tree.ConjunctionContext if kind is And else Tree.DisjunctionContext):
            rights.append(tree.right)
            tree = tree.left
        terms: list[Condition] = []
        for term in map(self.condition, [tree, *reversed(rights)]):
            terms.extend(term.terms if isinstance(term, kind) else [term])
        return tuple(terms)

    def _denial(self, tree: Context) -> Condition:
        if isinstance(tree.operand, Tree.ElidedChoiceContext):
            members = self._members(tree.operand)
            return Membership(_elided(tree), members, negated=True, span=span_of(tree))
        return Not(self.condition(tree.operand), span=span_of(tree))

    def _negation(self, tree: Context) -> Expression:
        operand = tree.operand
        if isinstance(operand, Tree.AmountContext) and operand.unit is None:
            return self._literals.number(operand.value, sign=-1, span=span_of(tree))
        return Negate(self.expression(operand), span=span_of(tree))

    def _amount(self, tree: Context) -> Expression:
        if tree.unit is not None:
            self._literals.complain(
                span_of(tree),
                "this is a stretch of time, where a value is expected",
                "A window stands last in the parentheses of a function: `AVG(metric, 10 SECONDS)`.",
            )
        return self._literals.number(tree.value, sign=1, span=tree.value.span)

    def _truth(self, token: Token) -> Boolean:
        if not self._quotes_texts:
            message = f"`{token.text}` alone has no value to compute with"
            hint = "Truth values are compared with attributes: `WHEN spare == true`."
            self._literals.complain(token.span, message, hint)
        return Boolean(token.type == Tree.TRUE, span=token.span)

    def _word(self, tree: Context) -> Expression:
        if tree.from_ is not None:
            return self._members_of(tree)
        return self._call(tree) if tree.pieces else Name(tree.word.text, span=tree.word.span)

    def _quoted(self, tree: Context) -> Expression:
        if tree.from_ is not None:
            return self._members_of(tree)
        if self._quotes_texts:
            return self._literals.text(tree.word)
        return Name(self._literals.name(tree.word), span=tree.word.span)

    def _members_of(self, tree: Context) -> MetricStream:
        members = self._literals.names(tree.from_.names)
        return MetricStream(self._literals.name(tree.word), members, span=span_of(tree))

    def _call(self, tree: Context) -> Expression:
        function = function_named(tree.word.text)
        pieces = list(tree.pieces)
        stretches = self._stretches(pieces)
        arguments = tuple(self._arguments(pieces))
        if function in OPERATORS:
            return self._operation(tree, function, arguments)
        if not arguments:
            word = clip(tree.word.text)
            self._literals.complain(
                tree.word.span,
                f"`{word}` has nothing to compute with",
                f"Name a metric before the window: `{word}(metric, 10 SECONDS)`.",
            )
        elif function in WINDOWED and len(pieces) > 1 and _is_number(pieces[-1]):
            self._literals.complain(
                arguments[-1].span,
                "a window needs a unit of time",
                f"Write a unit after the number: {', '.join(MILLIS)}.",
            )
        window, offset = (*stretches, None, None)[:2]
        parameters = self._parameters(tree.in_) if tree.in_ else ()
        return Call(function, arguments, parameters, window, offset, span=span_of(tree))

    def _operation(
        self, tree: Context, function: str, arguments: tuple[Expression, ...]
    ) -> Expression:
        if len(arguments) != 2 or len(tree.pieces) != len(arguments) or tree.in_:
            self._literals.complain(
                tree.word.span,
                f"`{tree.word.text}` takes two values and nothing else",
                f"`{function}(a, b)` is `a {OPERATORS[function]} b`.",
            )
            return Elided()
        return Binary(OPERATORS[function], *arguments, span=span_of(tree))

    def _stretches(self, pieces: list[Context]) -> list[Interval]:
        """Take the stretches of time at the end of a call's pieces: its window and offset."""
        trees: list[Context] = []
        while pieces and _is_stretch(pieces[-1]):
            trees.insert(0, pieces.pop())
        for excess in trees[2:3]:
            self._literals.complain(
                span_of(excess),
                "a function takes two stretches of time at most",
                "The first is the window, the second how far it is shifted into the past.",
            )
        return [self._stretch(tree.value) for tree in trees]

    def _stretch(self, tree: Context) -> Interval:
        negative = isinstance(tree, Tree.NegationContext)
        amount = tree.operand if negative else tree
        return self._literals.interval(amount.value, negative, amount.unit, span_of(tree))

    def _arguments(self, pieces: list[Context]) -> Iterator[Expression]:
        """Yield the values of a call: behind a BY, names belong to it up to a WHEN or the end."""
        rest = iter(pieces)
        for piece in rest:
            attributes, last = [piece.by] if piece.by else [], piece
            while attributes and last.when is None and (following := next(rest, None)):
                attribute = _bare(following)
                if attribute is None:
                    self._literals.complain(
                        span_of(following),
                        "the BY before goes on here, so an attribute is expected",
                        "Put the argument with the BY into parentheses: `f((x BY a), y)`.",
                    )
                    break
                attributes.append(attribute)
                last = following
            first, end = span_of(piece), span_of(last)
            span = replace(first, length=end.offset + end.length - first.offset)
            yield self._scope(piece.value, self._literals.names(attributes), last.when, span)

    def _parameters(self, tree: Context) -> tuple[Parameter, ...]:
        return tuple(map(self._parameter, tree.given))

    def _parameter(self, tree: Context) -> Parameter:
        number = tree.amount
        if number is None:
            return Name(tree.name.text, span=tree.name.span)
        if tree.unit is None:
            return self._literals.amount(number)
        return self._literals.interval(number.value, number.minus, tree.unit, span_of(tree))


def _is_stretch(piece: Context) -> bool:
    value = piece.value
    if isinstance(value, Tree.NegationContext):
        value = value.operand
    alone = piece.by is None and piece.when is None
    return alone and isinstance(value, Tree.AmountContext) and value.unit is not None


def _is_number(piece: Context) -> bool:
    return piece.by is None and isinstance(piece.value, Tree.AmountContext)


def _bare(piece: Context) -> Token | None:
    """Return the name that a piece consists of, but for a WHEN; None where it is more."""
    value = piece.value
    named = isinstance(value, Tree.WordContext | Tree.QuotedContext) and value.from_ is None
    called = isinstance(value, Tree.WordContext) and bool(value.pieces)
    return value.word if named and not called and piece.by is None else None


def _elided(tree: Context) -> Elided:
    first = tree.start.span
    return Elided(span=Span(first.line, first.column, first.offset, 0))
