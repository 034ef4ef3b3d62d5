"""Names in conditions that are taken for attributes, though a metric is probably meant."""

from analytics_enabler.semantics.findings import Findings, did_you_mean
from analytics_enabler.semantics.named import read_by
from analytics_enabler.semantics.references import References
from analytics_enabler.semantics.trees import references as referred_by
from analytics_enabler.semantics.trees import walk
from grammar import ast
from mistbow.plan.attributes import canonical

_KNOWN = ("node", "site", "region", "entityID", "entityType", "group")
"""Attributes that all points have."""


def warn_of_attributes(
    insight: ast.Insight, metrics: frozenset[str], references: References, findings: Findings
) -> None:
    """Warn of what is compared with a number and is no metric here, no key and no known attribute.

    The metrics of the conditions on results are told already; ``metrics`` are those that points
    have come of. Labels are as often numbers, so what merely equals one must look like a metric.
    """
    compared = [node for node in walk(insight) if isinstance(node, ast.Compare | ast.Membership)]
    names = {name: node for node in compared if (name := _name(node)) is not None}
    if not names:
        return
    expected = _keys(insight, references) | {stream.metric for stream in read_by(insight)}
    for name, node in names.items():
        if name.name in expected or canonical(name.name) in expected:
            continue
        if name.name in metrics:
            findings.warning(
                name.span,
                f"`{name.name}` is taken for an attribute of points: here, the metric of this name "
                "is not read",
                f"If the metric is meant, name it in a function, as in `MAX({name.name})`.",
            )
            continue
        near = findings.nearest(name.name, metrics)
        if near or (isinstance(node, ast.Compare) and node.operator not in ("==", "!=")):
            findings.warning(
                name.span,
                f"`{name.name}` is taken for an attribute: no point of a metric of this name has "
                "come yet",
                did_you_mean(near)
                if near
                else f"If it is a metric, name it in a function, as in `MAX({name.name})`.",
            )


def _name(node: ast.Compare | ast.Membership) -> ast.Name | None:
    """Return the name that is compared with a number, if one is."""
    match node:
        case ast.Compare(_, ast.Name() as name, ast.Number()):
            return name
        case ast.Compare(_, ast.Number(), ast.Name() as name):
            return name
        case ast.Membership(ast.Name() as name, (ast.Number(), *_)):
            return name
    return None


def _keys(insight: ast.Insight, references: References) -> set[str]:
    grouped = [*insight.by]
    for node in walk(insight):
        if isinstance(node, ast.Scoped):
            grouped += node.by
    for reference in referred_by(insight):
        grouped += references.keys(reference)
    return {*_KNOWN, *map(canonical, grouped)}
