"""The checks for positions and geohashes that no recent point can have."""

import math
from collections.abc import Iterator

from analytics.positions import position_of
from analytics.values_seen import values_seen
from analytics_enabler.semantics.bind.bound_tree import (
    BoundComparison,
    BoundInsight,
    Constant,
    LabelRead,
    ScalarCall,
)
from analytics_enabler.semantics.checks.context import Context
from analytics_enabler.semantics.diagnostics import warning
from grammar import Diagnostic

GEOHASH_LETTERS = frozenset("0123456789bcdefghjkmnpqrstuvwxyz")


def check_positions(insight: BoundInsight, context: Context) -> Iterator[Diagnostic]:
    """Yield a warning for each GEOHASH of a metric whose recent points have other texts only."""
    if insight.feed is not None:
        return
    for node in insight.nodes:
        match node:
            case ScalarCall("GEOHASH", (LabelRead(attribute, source, longitude=None),)):
                seen = context.values.get(source.metric, {}).get(attribute, ())
            case _:
                continue
        if seen and all(math.isnan(position_of(str(value))[0]) for value in seen):
            yield warning(
                node.span,
                f"no recent point of `{source.metric}` has a position, such as `35.1,33.4`; "
                f"{values_seen(seen)}",
                "The insight has no values until such points come in.",
            )


def check_geohashes(insight: BoundInsight, context: Context) -> Iterator[Diagnostic]:
    """Yield a warning for each comparison of a GEOHASH with a text that is no such geohash."""
    del context
    for node in insight.nodes:
        match node:
            case BoundComparison(
                "==" | "!=",
                ScalarCall("GEOHASH", _, (characters,)),
                Constant(str() as text),
            ) | BoundComparison(
                "==" | "!=",
                Constant(str() as text),
                ScalarCall("GEOHASH", _, (characters,)),
            ) if len(text) != characters or not GEOHASH_LETTERS.issuperset(text):
                yield warning(
                    node.span,
                    f"no position has the geohash `{text}` of {characters:.0f} characters",
                    f"A geohash has {characters:.0f} of the digits and lower-case letters except "
                    "a, i, l and o.",
                )
