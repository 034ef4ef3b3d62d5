"""The points that an insight may read, and those that bound nodes read."""

from collections.abc import Iterator
from dataclasses import dataclass

from analytics.plan.attributes import canonical, is_of_all_points
from analytics_enabler.semantics.bind.bound_tree import PointSource
from grammar import ast
from grammar.trees import walk


@dataclass(frozen=True, slots=True)
class PointSchema:
    """The metrics and the attributes of the points that an insight may read.

    ``metrics``: None if unknown. ``attributes``: the attributes that points certainly have; points
    may have further attributes.
    """

    metrics: frozenset[str] | None = None
    attributes: frozenset[str] = frozenset()

    def has_attribute(self, name: str) -> bool:
        """Return whether points certainly have an attribute of this name."""
        return canonical(name) in self.attributes or is_of_all_points(canonical(name))


def sources(*nodes: ast.SyntaxNode) -> Iterator[PointSource]:
    """Yield the points that bound nodes read directly, from left to right.

    The points that referenced insights read are omitted.
    """
    for root in nodes:
        yield from (node for node in walk(root) if isinstance(node, PointSource))
