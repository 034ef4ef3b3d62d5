"""``INSIGHT name``: the symbols of referenced insights.

A reference is replaced by the current definition of the referenced insight. Therefore a deployed
insight does not depend on later changes of the referenced insight, and the optimizer lets the two
insights share common computations.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from analytics.plan.expressions import Reduction, TickSeries
from analytics.plan.functions import ACCUMULATED
from analytics.plan.sampling import ProbabilitySampling
from analytics.plan.ticks import Ticks
from analytics_enabler.limits import MAX_NODES_OF_REFERENCES
from analytics_enabler.semantics.bind.symbols import MAX_NODES, InsightSymbol, extent
from analytics_enabler.semantics.bind.trigger import ticks_of
from analytics_enabler.semantics.definition import Definition
from analytics_enabler.semantics.dependency_order import dependency_order
from analytics_enabler.semantics.diagnostics import (
    Diagnostics,
    Suggestions,
    did_you_mean,
    head,
)
from analytics_enabler.semantics.expand.expansion import ExpandedInsight
from grammar import ast
from grammar.units import in_words

Deployed = Mapping[str, Sequence[Definition]]
"""Name -> the definitions of all running insights with this name, in different deployments."""

MAX_DEPTH = 100
"""The maximum number of levels of a referenced insight, and of an insight with references.

The number is limited because all passes over an insight recurse.
"""


@dataclass(slots=True)
class InsightTable:
    """The insights that a text can reference.

    ``deployed``: the running insights; None if unknown. ``add`` adds the insights of the text. A
    reference to an erroneous insight is unresolved, but is not reported as an error itself.
    """

    deployed: Deployed | None
    suggestions: Suggestions
    _symbols: dict[str, InsightSymbol | None] = field(default_factory=dict)
    _total: int = 0

    def add(self, name: str, definition: Definition | None) -> None:
        """Add an insight of the text; ``definition`` is None if the insight is erroneous."""
        symbol = None if definition is None else InsightSymbol(definition)
        self._symbols.setdefault(name, symbol)

    def resolve(
        self,
        insight: ast.InsightStatement,
        found: Sequence[ast.InsightReference],
        diagnostics: Diagnostics,
    ) -> dict[str, InsightSymbol | None]:
        """Return name -> symbol for an insight's references; the symbol is None if unresolved.

        Report errors. If the referenced insights have too many nodes in total, all symbols are
        None.
        """
        symbols = {node.name: self._resolve(node, insight, diagnostics) for node in found}
        if not found:
            return symbols
        fits = [symbols[node.name] for node in found]
        size = sum(symbol.extent[0] for symbol in fits if symbol is not None)
        if size > MAX_NODES:
            _report_size(insight, diagnostics)
            return dict.fromkeys(symbols)
        if None not in fits:
            self._total += size
        if self._total > MAX_NODES_OF_REFERENCES:
            diagnostics.error(
                head(insight.span, len(insight.name)),
                "the insights to which this text refers have over "
                f"{MAX_NODES_OF_REFERENCES:,} expression nodes",
                "Refer to smaller insights, or submit the insights in several texts.",
            )
            return dict.fromkeys(symbols)
        return symbols

    def _resolve(
        self, node: ast.InsightReference, insight: ast.InsightStatement, diagnostics: Diagnostics
    ) -> InsightSymbol | None:
        if node.name not in self._symbols:
            self._symbols[node.name] = self._deployed_symbol(node, diagnostics)
        symbol = self._symbols[node.name]
        if symbol is None:
            return None
        mismatch = _mismatch(symbol, insight)
        if mismatch is not None:
            diagnostics.error(node.span, *mismatch)
            return None
        if symbol.extent[1] > MAX_DEPTH:
            _report_size(insight, diagnostics)
            return None
        return symbol

    def _deployed_symbol(
        self, node: ast.InsightReference, diagnostics: Diagnostics
    ) -> InsightSymbol | None:
        if self.deployed is None:
            diagnostics.error(
                node.span,
                f"the running insights are unknown now, so `{node.name}` cannot be looked up",
                "Try again once the storage agent can be reached.",
            )
            return None
        found = self.deployed.get(node.name, ())
        if not found:
            others = {*self._symbols, *self.deployed} - {node.name}
            near = self.suggestions.nearest(node.name, others)
            diagnostics.error(
                node.span,
                f"there is no insight `{node.name}`",
                did_you_mean(near) if near else "Deploy it first, or define it in this text.",
            )
            return None
        if len(set(map(_identity, found))) > 1:
            diagnostics.error(
                node.span,
                f"{len(found)} deployments have different insights named `{node.name}`",
                "Define the desired insight in this text, or deploy it under another name.",
            )
            return None
        return InsightSymbol(found[0])


def in_dependency_order(
    insights: Iterable[ExpandedInsight], table: InsightTable, diagnostics: Diagnostics
) -> list[tuple[ExpandedInsight, ast.InsightStatement]]:
    """Return (insight, expansion) pairs, with referenced insights before referring insights.

    Insights without an expansion are omitted. A cycle of references is an error: references to
    insights in the cycle, or to insights that depend on the cycle, are unresolved.
    """
    by_name: dict[str, list[tuple[ExpandedInsight, ast.InsightStatement]]] = {}
    for each in insights:
        if each.expansion is not None:
            by_name.setdefault(each.expansion.name, []).append((each, each.expansion))
    uses = {
        name: [n.name for each, _ in same for n in each.references if n.name in by_name]
        for name, same in by_name.items()
    }
    order, cycles = dependency_order(uses)
    for cycle in cycles:
        first = by_name[cycle[0]][0][0].written
        diagnostics.error(
            head(first.span, len(first.name)),
            f"`{first.name}` refers to itself: {' → '.join(cycle)}",
            "Remove one of these references.",
        )
    cyclic = by_name.keys() - set(order)
    for name in cyclic:
        table.add(name, None)
    names = [*order, *(name for name in by_name if name in cyclic)]
    return [pair for name in names for pair in by_name[name]]


def check_depth(
    insight: ast.InsightStatement, definition: Definition, diagnostics: Diagnostics
) -> None:
    """Report an error if an insight and the insights that it references are nested too deeply."""
    if extent(definition)[1] > MAX_DEPTH:
        _report_size(insight, diagnostics)


def _mismatch(symbol: InsightSymbol, insight: ast.InsightStatement) -> tuple[str, str] | None:
    """Return (reason, hint) if an insight cannot reference ``symbol``; otherwise None."""
    definition = symbol.definition
    if definition.counted is not None:
        return (
            f"`{symbol.name}` has a value once in {definition.counted.every} points, rarely at a "
            "tick of this insight",
            f"Write an interval after the EVERY of `{symbol.name}`, or refer to another insight.",
        )
    mismatch = _trigger_mismatch(symbol, insight)
    if mismatch is not None:
        return mismatch
    signature = definition.options.signature
    if signature is not None and ast.Signature(signature) not in insight.options:
        return (
            f"`{symbol.name}` is signed with `{signature}`, but `{insight.name}` is not",
            f"Add `WITH SIGNATURE '{signature}'`: these results reveal signed results.",
        )
    return None


def _trigger_mismatch(
    symbol: InsightSymbol, insight: ast.InsightStatement
) -> tuple[str, str] | None:
    """Return (reason, hint) if ``symbol`` lacks values at times of ``insight``; otherwise None."""
    definition, every = symbol.definition, insight.every
    if not isinstance(every, ast.Interval | ast.Daily):
        return _mismatch_at_points(symbol)
    ticks = ticks_of(every)
    if ticks is None:  # an error of the trigger
        return None
    if not definition.each_point and not ticks.are_subset_of(definition.ticks):
        if _can_be_held(symbol, ticks):
            return None
        step = _words(definition.ticks)
        return (
            f"`{symbol.name}` has a value every {step}, but `{insight.name}` is computed "
            f"every {_words(ticks)}",
            f"Set the EVERY of `{insight.name}` to {step}, or to a multiple of {step}.",
        )
    if len(ticks.phases) > 1 and any(part.function in ACCUMULATED for part in symbol.aggregates):
        return (
            f"`{symbol.name}` accumulates from tick to tick, and where clocks change, days are "
            "not equally long",
            "Use a zone whose clocks never change, as in `EVERY 1 DAYS AT 23:59 GMT`.",
        )
    return None


def _can_be_held(symbol: InsightSymbol, ticks: Ticks) -> bool:
    """Return whether the last value of an insight is the value at other, more frequent ticks.

    Accumulated values are excluded, since they accumulate from tick to tick; so are samples, whose
    periods depend on the ticks, and values that are held already.
    """
    every = symbol.definition.ticks
    return (
        ticks.at is msgspec.UNSET
        and every.at is msgspec.UNSET
        and ticks.every_ms < every.every_ms
        and not any(
            part.function in ACCUMULATED
            or isinstance(part.source.sampling, ProbabilitySampling)
            or part.hold_ms is not msgspec.UNSET
            for part in symbol.aggregates
        )
    )


def _mismatch_at_points(symbol: InsightSymbol) -> tuple[str, str] | None:
    if any(isinstance(node, Reduction | TickSeries) for node in symbol.nodes()):
        reason = f"`{symbol.name}` reduces the values of several keys at a tick"
    elif any(isinstance(part.source.sampling, ProbabilitySampling) for part in symbol.aggregates):
        reason = f"`{symbol.name}` is computed from samples, at ticks"
    else:
        return None
    return f"{reason}, and this insight has values at each point", "Add an EVERY to the insight."


def _identity(definition: Definition) -> Hashable:
    """Return the properties that are equal for interchangeable insights with the same name."""
    d = definition
    return d.expression, d.by, d.ticks, d.each_point, d.filter, d.counted, d.feed


def _words(ticks: Ticks) -> str:
    at = "" if ticks.at is msgspec.UNSET else f" at {ticks.at}"
    return in_words(ticks.every_ms) + at


def _report_size(insight: ast.InsightStatement, diagnostics: Diagnostics) -> None:
    diagnostics.error(
        head(insight.span, len(insight.name)),
        f"`{insight.name}` and the insights it refers to have over {MAX_NODES:,} expression "
        f"nodes or {MAX_DEPTH} levels",
        "Refer to fewer insights, or to insights that have fewer references.",
    )
