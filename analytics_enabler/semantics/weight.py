"""How large an insight's meaning is, by its tree: each WHEN reads again what it is about."""

from collections.abc import Callable

from analytics_enabler.limits import MOST_MEANT
from analytics_enabler.semantics.findings import Findings, beginning
from analytics_enabler.semantics.trees import extent, parts
from grammar import ast

Size = Callable[[ast.InsightReference], int]
"""Returns how many parts an insight has that is referred to."""


def check_weight(insight: ast.Insight, size: Size, findings: Findings) -> bool:
    """Return whether an insight's meaning has no more parts than it may, and say where it has."""
    value = _weight(insight.expression, 1, size)
    whole = value if insight.when is None else value + _weight(insight.when, value, size)
    # A long list is long as it is written, too: that much is the text's own affair.
    if whole <= MOST_MEANT or whole <= 4 * extent(insight, whole)[0]:
        return True
    findings.error(
        beginning(insight.span, len(insight.name)),
        f"`{insight.name}` comes to over {MOST_MEANT:,} parts: each WHEN reads again what it is "
        "about, and what is in that",
        "Write fewer WHENs inside of each other, or put their conditions together by AND.",
    )
    return False


def _weight(node: ast.Node, elided: int, size: Size) -> int:
    """Return how many parts a tree means, if a side that is left out means ``elided`` of them."""
    match node:
        case ast.Elided():
            return elided
        case ast.InsightReference():
            return size(node)
        case ast.Scoped(expression, _, when):
            value = _weight(expression, elided, size)
            return value if when is None else value + _weight(when, value, size)
        case ast.MetricStream():
            return 1 + sum(_weight(part, 1, size) for part in parts(node))
        case _:
            return 1 + sum(_weight(part, elided, size) for part in parts(node))
