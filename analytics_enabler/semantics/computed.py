"""What of the language is computed: one table, total; all else is refused where it stands."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

from analytics_enabler.semantics.trees import parts
from grammar import Span, ast
from grammar.functions import FUNCTIONS
from mistbow.plan.expressions import Function, Mathematical

COMPUTED_FUNCTIONS = (
    frozenset({*get_args(Function), *get_args(Mathematical), "GEOHASH"}) & FUNCTIONS
)

COMPUTED = frozenset({
    ast.Accuracy, ast.Adam, ast.Awareness, ast.Sample,
    ast.Allow, ast.And, ast.Binary, ast.Boolean, ast.Call, ast.Compare, ast.CostCap,
    ast.Daily, ast.Elided,
    ast.FunctionDefinition, ast.Insight, ast.InsightReference, ast.Interval, ast.Membership,
    ast.MetricStream, ast.Name, ast.Negate, ast.Not, ast.Number, ast.Or, ast.Outliers,
    ast.PlacementOn, ast.Points, ast.Salience, ast.Scheduler, ast.Scoped, ast.Script, ast.Setting,
    ast.Signature, ast.StreamDefinition, ast.Text,
})  # fmt: skip
"""The nodes that have a meaning, at least somewhere."""

NOT_COMPUTED: dict[type[ast.Node], str] = {}
"""The nodes that have none, and what people call them."""

_OMIT = "Leave it out for now."


@dataclass(frozen=True, slots=True)
class Refusal:
    """A part of a statement that is not computed."""

    span: Span
    what: str
    hint: str = _OMIT


def refusals(node: ast.Node) -> Iterator[Refusal]:
    """Yield the parts of a node that are not computed, the outermost only."""
    if isinstance(node, ast.Call) and node.function in FUNCTIONS - COMPUTED_FUNCTIONS:
        hint = f"For now there are {', '.join(sorted(COMPUTED_FUNCTIONS))}."
        yield Refusal(node.span, f"`{node.function}`", hint)
    elif type(node) in NOT_COMPUTED:
        yield Refusal(node.span, NOT_COMPUTED[type(node)])
    else:
        for part in parts(node):
            yield from refusals(part)
