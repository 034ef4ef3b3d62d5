"""Builds expressions and conditions from ANTLR's parse trees.

The grammar has one rule, ``term``, for both expressions and conditions.
"""

import re
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from itertools import pairwise

from grammar.ast import (
    AndCondition,
    Binary,
    Boolean,
    Comparator,
    Compare,
    Condition,
    Elided,
    Expression,
    FunctionCall,
    InsightReference,
    Interval,
    ListMembership,
    MetricStream,
    Name,
    Negate,
    NotCondition,
    OrCondition,
    Parameter,
    Scoped,
    Span,
    Text,
)
from grammar.comparison_hints import SIGNS
from grammar.diagnostics import clip
from grammar.functions import OPERATORS, SCALAR, WITH_PARAMETER, function_named
from grammar.generated.InsightsParser import InsightsParser as Tree
from grammar.literals import Context, LiteralBuilder, span_of
from grammar.number_hints import decimal_comma
from grammar.other_languages import (
    CONDITIONAL,
    CONDITIONAL_HINT,
    EACH_HINT,
    NULL_HINT,
    function_hint,
)
from grammar.scanner import LexicalToken
from grammar.term_trees import (
    bare_name,
    is_doubled_sign,
    is_interval,
    is_logical,
    is_number,
    joined_by_sign,
    joins_values,
)
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
_QUOTED_INTERVAL = re.compile(r"\d+ ?[a-zA-Z]+")
_CHAINED = "Comparisons do not chain: write `1 < x AND x < 5`."
_COMPARED_TOGETHER = (
    'Compare each value: `x > 5 AND y > 5`; one of several texts is `node IN ("a", "b")`.'
)
_IN_COMPUTE = "Write conditions after WHEN, as in `x WHEN > 90`."
_IN_CALL = "Write a condition on a metric after WHEN: `metric WHEN > 3`."


class ExpressionBuilder:
    """Builds expressions and conditions; errors are added to ``literals.problems``.

    ``defined``: a function that returns the names of the functions that the text defines.
    """

    def __init__(self, literals: LiteralBuilder, defined: Callable[[], Collection[str]]) -> None:
        self._literals = literals
        self._defined = defined
        self._quotes_texts = False  # in a condition, what is quoted is a text; elsewhere, a name

    def expression(self, tree: Context, hint: str = _IN_COMPUTE) -> Expression:
        """Return the expression of a ``term`` parse tree; report a condition as an error.

        ``hint``: the hint of this error.
        """
        if is_logical(tree):
            if joins_values(tree):
                hint = _COMPARED_TOGETHER if hint == _CHAINED else EACH_HINT
            self._literals.report(span_of(tree), "a value is expected here, not a condition", hint)
            return Elided()
        known = self._literals.count
        node = self._term(tree)
        if isinstance(node, Expression):
            return node
        if self._literals.count > known:
            return Elided()
        self._literals.report(node.span, "a value is expected here, not a condition", hint)
        return Elided()

    def condition(self, tree: Context) -> Condition:
        """Return the condition of a ``term`` parse tree; report a value as an error."""
        around, self._quotes_texts = self._quotes_texts, True
        known = self._literals.count
        node = self._term(tree)
        self._quotes_texts = around
        if isinstance(node, Condition):
            return node
        if self._literals.count > known:
            return NotCondition(Compare("==", Elided(), Elided()))
        hint = "Compare the value, as in `> 100`."
        if isinstance(node, FunctionCall) and node.function not in self._defined():
            hint = function_hint(node.function) or hint
        elif isinstance(node, Text):
            hint = f'One of several texts is `node IN ("a", "{clip(node.value)}")`.'
        elif isinstance(node, Name):
            hint = (
                f"Compare it, as in `{node.name} == true`; one of several texts is "
                f'`node IN ("a", "{node.name}")`.'
            )
        self._literals.report(node.span, "a condition is expected here, not a value", hint)
        return NotCondition(Compare("==", Elided(), Elided()))

    def scoped(self, tree: Context) -> Expression:
        """Return the expression of a ``scope`` parse tree."""
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
            case Tree.KeyedContext():
                by = self._literals.names(tree.attributes)
                return self._scope(tree.operand, by, None, span_of(tree))
            case Tree.ArithmeticContext():
                left, right = self.expression(tree.left), self.expression(tree.right)
                return Binary(tree.operator.text, left, right, span=span_of(tree))
            case _:
                return self._logic(tree)

    def _logic(self, tree: Context) -> Condition:
        match tree:
            case Tree.ConjunctionContext():
                return AndCondition(self._chain(tree, AndCondition), span=span_of(tree))
            case Tree.DisjunctionContext():
                return OrCondition(self._chain(tree, OrCondition), span=span_of(tree))
            case Tree.DenialContext():
                return self._denial(tree)
            case Tree.ComparisonContext() | Tree.ElidedComparisonContext() if is_doubled_sign(tree):
                return self._doubled(tree)
            case Tree.ComparisonContext():
                left, right = self._compared(tree.left), self._compared(tree.right)
                return Compare(_COMPARATORS[tree.operator.text], left, right, span=span_of(tree))
            case Tree.ElidedComparisonContext():
                elided, right = _elided(tree), self._compared(tree.right)
                return Compare(_COMPARATORS[tree.operator.text], elided, right, span=span_of(tree))
            case Tree.ChoiceContext():
                operand, negated = self._compared(tree.operand), tree.negated is not None
                return self._membership(operand, tree, negated, span_of(tree))
            case _:
                return self._membership(_elided(tree), tree, False, span_of(tree))

    def _compared(self, tree: Context) -> Expression:
        node = self.expression(tree, _CHAINED)
        if isinstance(node, Name) and not node.quoted and node.name.upper() == "NULL":
            self._literals.report(node.span, "NULL is not a value", NULL_HINT)
        return node

    def _doubled(self, tree: Context) -> Condition:
        """Report two signs in succession, such as `=>`."""
        first, second = tree.operator, tree.right.operator
        length = second.offset + len(second.text) - first.offset
        meant = SIGNS[first.text + second.text]
        self._literals.report(
            replace(first.span, length=length), "this sign is not a comparison", f"Write `{meant}`."
        )
        return Compare("==", Elided(), Elided())

    def _membership(
        self, operand: Expression, tree: Context, negated: bool, span: Span
    ) -> ListMembership:
        listing = tree.choices
        if listing.listed is not None:
            return ListMembership(
                operand, self._literals.members(listing.listed), negated, span=span
            )
        arguments = tuple(self._arguments(list(listing.pieces)))
        called = FunctionCall(listing.word.text.upper(), arguments, span=span_of(listing))
        return ListMembership(operand, (), negated, called, span=span)

    def _chain(
        self, tree: Context, kind: type[AndCondition] | type[OrCondition]
    ) -> tuple[Condition, ...]:
        """Return the terms of ``a AND b AND c`` as a flat tuple; parentheses make no difference."""
        rights = []
        while isinstance(
            tree, Tree.ConjunctionContext if kind is AndCondition else Tree.DisjunctionContext
        ):
            rights.append(tree.right)
            tree = tree.left
        terms: list[Condition] = []
        for term in map(self.condition, [tree, *reversed(rights)]):
            terms.extend(term.terms if isinstance(term, kind) else [term])
        return tuple(terms)

    def _denial(self, tree: Context) -> Condition:
        if isinstance(tree.operand, Tree.ElidedChoiceContext):
            return self._membership(_elided(tree), tree.operand, True, span_of(tree))
        return NotCondition(self.condition(tree.operand), span=span_of(tree))

    def _negation(self, tree: Context) -> Expression:
        operand = tree.operand
        if isinstance(operand, Tree.AmountContext) and operand.unit is None:
            return self._literals.number(operand.value, sign=-1, span=span_of(tree))
        return Negate(self.expression(operand), span=span_of(tree))

    def _amount(self, tree: Context) -> Expression:
        if tree.unit is not None:
            self._literals.report(
                span_of(tree),
                "a value is expected here, not an interval",
                "Write a window last in the parentheses of a function: `AVG(metric, 10 SECONDS)`. "
                "Compare a value with a number in the unit of its metric.",
            )
        return self._literals.number(tree.value, sign=1, span=tree.value.span)

    def _truth(self, token: LexicalToken) -> Boolean:
        if not self._quotes_texts:
            message = f"the boolean `{token.text}` cannot be part of a calculation"
            hint = "Compare a boolean with an attribute, as in `WHEN spare == true`."
            self._literals.report(token.span, message, hint)
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
        return Name(self._literals.name(tree.word), quoted=True, span=tree.word.span)

    def _members_of(self, tree: Context) -> MetricStream:
        members = self._literals.names(tree.from_.names)
        return MetricStream(self._literals.name(tree.word), members, span=span_of(tree))

    def _call(self, tree: Context) -> Expression:
        function = function_named(tree.word.text)
        if function in CONDITIONAL and function not in self._defined():
            message = f"there is no function `{clip(tree.word.text)}`"
            self._literals.report(tree.word.span, message, CONDITIONAL_HINT)
            return Elided()
        if self._misplaces_parameter(tree, function) or self._has_decimal_comma(tree, function):
            return Elided()
        pieces = list(tree.pieces)
        intervals = self._intervals(pieces)
        arguments = tuple(self._arguments(pieces))
        if function in OPERATORS:
            return self._operation(tree, function, arguments)
        foreign = function_hint(function)
        if not arguments and foreign is not None and function not in self._defined():
            message = f"there is no function `{clip(tree.word.text)}`"
            self._literals.report(tree.word.span, message, foreign)
        elif not arguments:
            word = clip(tree.word.text)
            self._literals.report(
                tree.word.span,
                f"`{word}` has no metric or value as its argument",
                f"Name a metric before the window: `{word}(metric, 10 SECONDS)`.",
            )
        elif self._takes_a_window(function) and len(pieces) > 1 and is_number(pieces[-1]):
            message = "a window needs a unit of time"
            hint = f"Write a unit after the number: {', '.join(MILLIS)}."
            if function in WITH_PARAMETER and not tree.in_:
                message = f"the parameter of {function} stands in brackets"
                number = _parameter_text(function, pieces[-1])
                hint = f"Write `{function}[{number}](…)`."
            self._literals.report(arguments[-1].span, message, hint)
        window, offset = (*intervals, None, None)[:2]
        parameters = self._parameters(tree.in_) if tree.in_ else ()
        return FunctionCall(function, arguments, parameters, window, offset, span=span_of(tree))

    def _takes_a_window(self, function: str) -> bool:
        foreign = function_hint(function) is not None
        return function not in SCALAR and function not in self._defined() and not foreign

    def _misplaces_parameter(self, tree: Context, function: str) -> bool:
        """Report a parameter that stands in parentheses, or a name without its quotes."""
        if function in self._defined() or function in SCALAR or function in OPERATORS:
            return False
        numbers = [piece for piece in tree.pieces if is_number(piece) and not is_interval(piece)]
        others = [piece for piece in tree.pieces if bare_name(piece) is not None]
        if function in WITH_PARAMETER and not tree.in_ and len(numbers) == len(others) == 1:
            number = _parameter_text(function, numbers[0])
            metric = clip(others[0].value.word.text)
            self._literals.report(
                span_of(numbers[0]),
                f"the parameter of {function} stands in brackets",
                f"Write `{function}[{number}]({metric})`.",
            )
            return True
        last = tree.pieces[-1].value
        if len(tree.pieces) > 1 and isinstance(last, Tree.QuotedContext) and last.from_ is None:
            length = last.word.text.strip("\"'")
            if _QUOTED_INTERVAL.fullmatch(length) is not None:
                message = "a window stands without quotes"
                self._literals.report(span_of(tree.pieces[-1]), message, f"Write `{length}`.")
                return True
        for piece in tree.pieces:
            name = joined_by_sign(piece.value)
            if name is not None:
                self._literals.report(
                    span_of(piece),
                    f"`{clip(name)}` is a subtraction here, and a function takes a metric",
                    f'If it is a name, write it in quotes: `"{clip(name)}"`.',
                )
                return True
        return False

    def _has_decimal_comma(self, tree: Context, function: str) -> bool:
        """Report a decimal comma, as in `AVG(x WHEN > 0,5)`."""
        if function in self._defined() or function in SCALAR or function in OPERATORS:
            return False
        for piece, part in pairwise(tree.pieces):
            whole = piece.stop
            if whole.type != Tree.NUMBER or is_number(piece) or not is_number(part):
                continue
            hint = decimal_comma(whole, part.start)
            if hint is not None:
                end = part.start.offset + len(part.start.text)
                span = replace(whole.span, length=end - whole.offset)
                self._literals.report(span, "a number has no comma", hint)
                return True
        return False

    def _operation(
        self, tree: Context, function: str, arguments: tuple[Expression, ...]
    ) -> Expression:
        if len(arguments) != 2 or len(tree.pieces) != len(arguments) or tree.in_:
            self._literals.report(
                tree.word.span,
                f"`{tree.word.text}` takes exactly two values",
                f"`{function}(a, b)` means `a {OPERATORS[function]} b`.",
            )
            return Elided()
        return Binary(OPERATORS[function], *arguments, span=span_of(tree))

    def _intervals(self, pieces: list[Context]) -> list[Interval]:
        """Return the intervals at the end of a call, and remove them from ``pieces``.

        The first interval is the window, the second interval is the offset.
        """
        trees: list[Context] = []
        while pieces and is_interval(pieces[-1]):
            trees.insert(0, pieces.pop())
        for excess in trees[2:3]:
            self._literals.report(
                span_of(excess),
                "a function takes at most two intervals",
                "The first is the window; the second is the offset of the window into the past.",
            )
        return [self._interval(tree.value) for tree in trees]

    def _interval(self, tree: Context) -> Interval:
        negative = isinstance(tree, Tree.NegationContext)
        amount = tree.operand if negative else tree
        return self._literals.interval(amount.value, negative, amount.unit, span_of(tree))

    def _arguments(self, pieces: list[Context]) -> Iterator[Expression]:
        """Yield the arguments of a call.

        All names after a BY, up to a WHEN or to an argument that is not only a name, are attributes
        of this BY.
        """
        rest = deque(pieces)
        while rest:
            piece = rest.popleft()
            attributes, last = [piece.by] if piece.by else [], piece
            while attributes and last.when is None and rest:
                attribute = bare_name(rest[0])
                if attribute is None:
                    break
                attributes.append(attribute)
                last = rest.popleft()
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


def _parameter_text(function: str, piece: Context) -> str:
    """Return a number as the parameter of a function; a share is a percentage for PERCENTILE."""
    text = str(piece.value.value.text)
    return f"{100 * float(text):g}" if function == "PERCENTILE" and 0 < float(text) < 1 else text


def _elided(tree: Context) -> Elided:
    first = tree.start.span
    return Elided(span=Span(first.line, first.column, first.offset, 0))
