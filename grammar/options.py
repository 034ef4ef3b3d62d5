"""Builds the options after WITH from ANTLR's parse trees."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from grammar.ast import (
    Accuracy,
    AdamOption,
    Allow,
    Awareness,
    CostCapOption,
    Number,
    Option,
    Outliers,
    PlacementOn,
    Salience,
    SampleOption,
    SchedulerOption,
    Signature,
    Span,
)
from grammar.diagnostics import clip
from grammar.expressions import ExpressionBuilder
from grammar.generated.InsightsParser import InsightsParser as Tree
from grammar.literals import Context, LiteralBuilder, span_of
from grammar.scanner import LexicalToken

MAX_WHOLE_NUMBER = 1_000_000_000
"""The greatest integer that an option accepts."""

_COMPLETED: dict[type[Context], tuple[str, tuple[type[Option], ...]]] = {
    Tree.ConfidenceContext: ("confidence", (Accuracy, AdamOption)),
    Tree.NeighboursContext: ("k", (Outliers,)),
    Tree.RangeContext: ("r", (Outliers,)),
}
"""Completing option -> the field that it sets, and the options that have this field."""


class OptionBuilder:
    """Builds the options of one insight; errors are added to ``literals.problems``."""

    def __init__(self, literals: LiteralBuilder, terms: ExpressionBuilder) -> None:
        self._literals = literals
        self._terms = terms
        self._built: list[Option] = []

    def build(self, trees: Iterable[Context]) -> tuple[Option, ...]:
        """Return the options in the order of the text."""
        completing: list[Context] = []
        for tree in trees:
            if type(tree) in _COMPLETED:
                completing.append(tree)
            else:
                self._built.append(self._option(tree))
        for tree in completing:
            self._complete(tree)
        return tuple(self._built)

    def _option(self, tree: Context) -> Option:
        span = span_of(tree)
        match tree:
            case Tree.SalienceContext():
                return Salience(self._whole(tree.level, least=0), span=span)
            case Tree.SampleContext():
                return self._sample(self._literals.amount(tree.amount), span)
            case Tree.MaxErrorContext():
                return Accuracy(self._share(tree.share, "an error"), span=span)
            case Tree.AwarenessContext():
                return Awareness(self._aim(tree.what), span=span)
            case Tree.AdamContext():
                return AdamOption(span=span)
            case Tree.AlgorithmContext():
                return Outliers(self._literals.name(tree.name), span=span)
            case Tree.SchedulerContext():
                settings = self._literals.settings(tree.given)
                return SchedulerOption(self._literals.name(tree.name), settings, span=span)
            case Tree.CostCapContext():
                return self._cost_cap(tree, span)
            case Tree.PlacementOnContext():
                return self._placement(tree, span)
            case Tree.AllowContext():
                return Allow(self._terms.condition(tree.when), span=span)
            case _:
                return Signature(self._literals.name(tree.name), span=span)

    def _complete(self, tree: Context) -> None:
        """Merge a completing option, such as CONFIDENCE, into the option that it belongs to."""
        field, owners = _COMPLETED[type(tree)]
        found = [index for index, each in enumerate(self._built) if isinstance(each, owners)]
        if not found:
            self._refuse_alone(tree)
            return
        lacking = [index for index in found if getattr(self._built[index], field) is None]
        match tree:
            case Tree.ConfidenceContext():
                value: float = self._share(tree.share, "a confidence")
            case Tree.NeighboursContext():
                value = self._whole(tree.count, least=1)
            case _:
                value = self._distance(tree.range_)
        if not lacking:
            word = tree.start.text.upper()
            self._literals.report(
                tree.start.span, f"{word} is given twice", f"Write only one {word}."
            )
            return
        # The nearest option before the word, or else the first option after it.
        where = tree.start.offset
        before = [index for index in lacking if self._built[index].span.offset < where]
        chosen = before[-1] if before else lacking[0]
        option = self._built[chosen]
        end = max(option.span.offset + option.span.length, _end(tree))
        span = replace(option.span, length=end - option.span.offset)
        self._built[chosen] = replace(option, **{field: value}, span=span)  # type: ignore[arg-type]

    def _refuse_alone(self, tree: Context) -> None:
        confident = isinstance(tree, Tree.ConfidenceContext)
        owner = "MAX_ERROR or ADAM" if confident else "ALGORITHM"
        self._literals.report(
            tree.start.span,
            f"{tree.start.text.upper()} needs {owner}",
            "Write, for example, `MAX_ERROR 0.05 AND CONFIDENCE 0.95`."
            if confident
            else "Write, for example, `ALGORITHM pmcod AND K=50 AND R=0.5`.",
        )

    def _sample(self, amount: Number, span: Span) -> SampleOption:
        if 0 < amount.value < 1:
            return SampleOption(share=amount.value, span=span)
        if not (1 <= amount.value <= MAX_WHOLE_NUMBER and amount.value.is_integer()):
            self._literals.report(
                amount.span,
                "a sample must be a share between 0 and 1, or a whole number of points",
                "Write `SAMPLE 0.2` for a fifth, or `SAMPLE 100`.",
            )
            return SampleOption(size=1)
        return SampleOption(size=int(amount.value), span=span)

    def _aim(self, token: LexicalToken) -> Literal["COMPUTATIONS", "ACCURACY"]:
        word = token.text.upper()
        if word not in ("COMPUTATIONS", "ACCURACY"):
            message = f"`{clip(token.text)}` is not an aim of AWARENESS"
            self._literals.report(token.span, message, "Write COMPUTATIONS or ACCURACY.")
        return "ACCURACY" if word == "ACCURACY" else "COMPUTATIONS"

    def _cost_cap(self, tree: Context, span: Span) -> CostCapOption:
        amount = self._literals.amount(tree.amount)
        if amount.value < 0:
            self._literals.report(
                amount.span,
                "a cost cap must be at least 0",
                "Write, for example, `COST_CAP 2.5 PER 1 DAY`.",
            )
        number = tree.per.amount
        per = self._literals.interval(number.value, number.minus, tree.per.unit, span_of(tree.per))
        return CostCapOption(amount.value, per, span=span)

    def _placement(self, tree: Context, span: Span) -> PlacementOn:
        return PlacementOn(
            self._literals.name(tree.key),
            self._literals.member(tree.value),
            self._whole(tree.count, least=1) if tree.count else None,
            tree.own is not None,
            span=span,
        )

    def _whole(self, tree: Context, least: int) -> int:
        number = self._literals.amount(tree)
        if least <= number.value <= MAX_WHOLE_NUMBER and number.value.is_integer():
            return int(number.value)
        likely = round(min(max(number.value, least), MAX_WHOLE_NUMBER))
        self._literals.report(
            number.span,
            f"a whole number is expected here, from {least} to {MAX_WHOLE_NUMBER:,}",
            f"Write, for example, {likely}.",
        )
        return least

    def _share(self, tree: Context, what: str) -> float:
        number = self._literals.amount(tree)
        if not 0 < number.value < 1:
            self._literals.report(
                number.span, f"{what} must be a share between 0 and 1", "Write 5 percent as 0.05."
            )
        return number.value

    def _distance(self, tree: Context) -> float:
        number = self._literals.amount(tree)
        if number.value <= 0:
            self._literals.report(
                number.span, "a distance must be more than 0", "Write, for example, `R=0.5`."
            )
        return number.value


def _end(tree: Context) -> int:
    span = span_of(tree)
    return span.offset + span.length
