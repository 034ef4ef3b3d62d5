"""Bare names in conditions that are texts: ``region == east`` means ``region == "east"``.

The meaning of a bare name is determined here, before names are bound, and the stored text of an
insight contains the result. So later metrics and attributes do not change the insight.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from analytics.plan.attributes import canonical, is_of_all_points
from analytics_enabler.semantics.bind.names import metrics_read
from analytics_enabler.semantics.bind.symbols import is_of_attributes
from analytics_enabler.semantics.diagnostics import Diagnostics
from grammar import Script, ast
from grammar.trees import map_children, walk


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The names of metrics and of attributes that points have; None: unknown."""

    metrics: frozenset[str] | None = None
    attributes: frozenset[str] | None = None


def has_bare_names(statements: Collection[ast.Statement]) -> bool:
    """Return whether the attributes of points can decide what a bare name in a condition means.

    They decide it in comparisons of bare names by ``==`` or ``!=``, and in ALLOW.
    """
    return any(
        isinstance(option, ast.Allow)
        for statement in statements
        if isinstance(statement, ast.InsightStatement)
        for option in statement.options
    ) or any(
        isinstance(node, ast.Compare)
        and node.operator in ("==", "!=")
        and any(_may_be_text(*sides) for sides in _both_ways(node))
        for statement in statements
        for node in walk(statement)
    )


def resolve_texts(script: Script, known: KnownNames, diagnostics: Diagnostics) -> Script:
    """Return a script in which the bare names that mean texts are texts; report the decisions."""
    if not has_bare_names(script.statements):
        return script
    statements = tuple(
        _Resolution(known, _local_names(each), _metrics(each), diagnostics).of(each, points=False)
        for each in script.statements
    )
    return replace(script, statements=statements)


def _local_names(statement: ast.Statement) -> frozenset[str]:
    """Return the names that a statement itself uses for attributes or parameters."""
    names = [name for node in walk(statement) if isinstance(node, ast.Scoped) for name in node.by]
    match statement:
        case ast.InsightStatement():
            names += statement.by
        case ast.FunctionDefinition():
            names += statement.parameters
    return frozenset(map(canonical, names))


def _metrics(statement: ast.Statement) -> frozenset[str]:
    """Return the names that a statement itself uses for metrics."""
    if not isinstance(statement, ast.InsightStatement):
        return frozenset()
    return frozenset(canonical(stream.metric) for stream in metrics_read(statement))


@dataclass(frozen=True, slots=True)
class _Resolution:
    """The resolution of the bare names in one statement.

    ``local``: the names that the statement uses for attributes or parameters. ``read``: the names
    that it uses for metrics.
    """

    known: KnownNames
    local: frozenset[str]
    read: frozenset[str]
    diagnostics: Diagnostics

    def of(self, node: ast.SyntaxNode, *, points: bool) -> Any:
        """Return a node with its texts.

        ``points``: whether the node is in a condition whose elided side can be a text.
        """
        if isinstance(node, ast.Compare) and node.operator in ("==", "!="):
            return self._compared(node, points=points)
        match node:
            case ast.MetricStream():
                points = True
            case ast.InsightStatement(expression=value) | ast.Scoped(expression=value):
                points = isinstance(value, ast.FunctionCall) and value.function == "GEOHASH"
        return map_children(node, lambda child: self.of(child, points=points))

    def _compared(self, node: ast.Compare, *, points: bool) -> ast.SyntaxNode:
        left, right = node.left, node.right
        if isinstance(right, ast.Name) and _may_be_text(right, left, points=points):
            if self._is_text(right, left):
                return replace(node, right=self._text(right))
            if isinstance(left, ast.Name) and self._is_text(left, right):
                return replace(node, left=self._text(left))
            self._report_taken(right, left)
        elif (
            isinstance(left, ast.Name)
            and _may_be_text(left, right, points=points)
            and self._is_text(left, right)
        ):
            return replace(node, left=self._text(left))
        return map_children(node, lambda child: self.of(child, points=points))

    def _is_text(self, node: ast.Name, other: ast.Expression) -> bool:
        return not (
            self._is_metric(node.name)
            or self._is_attribute(node.name)
            or (isinstance(other, ast.Name) and self._is_only_metric(other.name))
        )

    def _is_metric(self, name: str) -> bool:
        return name in (self.known.metrics or ())

    def _is_only_metric(self, name: str) -> bool:
        """Return whether a name means numbers: points have no attribute with the metric's name."""
        return self._is_metric(name) and canonical(name) not in (self.known.attributes or ())

    def _is_attribute(self, name: str) -> bool:
        attribute = canonical(name)
        return (
            is_of_all_points(attribute)
            or attribute in self.local | self.read
            or attribute in (self.known.attributes or ())
        )

    def _text(self, node: ast.Name) -> ast.Text:
        self.diagnostics.warning(
            node.span,
            f"`{node.name}` is read as a text: no metric and no attribute has this name",
            f'In quotes, it is always a text: `"{node.name}"`.',
        )
        return ast.Text(node.name, span=node.span)

    def _report_taken(self, node: ast.Name, other: ast.Expression) -> None:
        """Report a name that is a metric or an attribute, although it could be meant as a text."""
        attribute = canonical(node.name)
        if is_of_all_points(attribute) or attribute in self.local:
            return
        if not isinstance(other, ast.Name):
            return
        if self._is_only_metric(other.name):  # numbers are compared
            return
        is_metric = self._is_metric(node.name) or attribute in self.read
        kind = "metric" if is_metric else "attribute"
        self.diagnostics.warning(
            node.span,
            f"`{node.name}` is read as the {kind} of this name, not as a text",
            f'If the text is meant, write `"{node.name}"`.',
        )


def _both_ways(node: ast.Compare) -> list[tuple[ast.Expression, ast.Expression]]:
    return [(node.left, node.right), (node.right, node.left)]


def _may_be_text(node: ast.Expression, other: ast.Expression, *, points: bool = True) -> bool:
    """Return whether a side of a comparison is a bare name, and the other side can be a text."""
    if not isinstance(node, ast.Name):
        return False
    match other:
        case ast.Name() | ast.FunctionCall("GEOHASH"):
            return True
        case ast.FunctionCall(function):
            return is_of_attributes(function)
        case ast.Elided():
            return points
        case _:
            return False
