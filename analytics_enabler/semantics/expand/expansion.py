"""Expansion of insights: FUNCTION calls and STREAM names are replaced by their definitions."""

from dataclasses import dataclass
from functools import cached_property

from analytics.plan.feeds import Feed
from analytics_enabler.semantics.diagnostics import Diagnostics, Suggestions
from analytics_enabler.semantics.expand.feeds import Schemas
from analytics_enabler.semantics.expand.functions import functions_of
from analytics_enabler.semantics.expand.streams import ComputedStream, stream_names, streams_of
from analytics_enabler.semantics.expand.substitution import Substitution
from grammar import Script, ast
from grammar.trees import references


@dataclass(frozen=True)
class ExpandedInsight:
    """An insight as written, and the insight after the expansion of FUNCTIONs and STREAMs.

    ``expansion``: None after an error. ``feed``: the feed that the insight reads; None: the insight
    reads storage. ``computed``: the stream whose name stands after COMPUTE.
    """

    written: ast.InsightStatement
    expansion: ast.InsightStatement | None
    feed: Feed | None = None
    computed: ComputedStream | None = None

    @cached_property
    def references(self) -> tuple[ast.InsightReference, ...]:
        """The references to other insights, from left to right; empty after an error."""
        return () if self.expansion is None else tuple(references(self.expansion))


def expand(
    script: Script,
    schemas: Schemas,
    diagnostics: Diagnostics,
    suggestions: Suggestions,
    broken: frozenset[str] = frozenset(),
) -> list[ExpandedInsight]:
    """Return the expanded insights of a script; report errors in FUNCTIONs and STREAMs.

    An insight that uses an erroneous definition has no expansion; only the error in the definition
    is reported. ``broken``: the names that may be defined by statements with syntax errors.
    """
    functions = functions_of(script, diagnostics, suggestions, broken)
    substitution = Substitution(functions, diagnostics)
    called = [
        (each, substitution.apply(each))
        for each in script.statements
        if isinstance(each, ast.InsightStatement)
    ]
    used: frozenset[str] = frozenset()
    if any(isinstance(each, ast.StreamDefinition) for each in script.statements):
        used = stream_names(script, *(plain for _, plain in called if plain is not None))
    streams = streams_of(script, used, schemas, diagnostics, broken)
    insights: list[ExpandedInsight] = []
    for written, plain in called:
        found = None if plain is None else streams.apply(plain, diagnostics)
        expansion, feed = found or (None, None)
        computed = None if expansion is None else streams.computed(expansion)
        insights.append(ExpandedInsight(written, expansion, feed, computed))
    return insights
