"""Parting a WHEN at its ANDs: conditions on points, and conditions on results."""

from collections.abc import Collection
from dataclasses import dataclass

from analytics_enabler.semantics.findings import Findings
from analytics_enabler.semantics.named import read_by_condition, read_by_value
from analytics_enabler.semantics.scopes import leaves
from grammar import ast
from mistbow.plan.attributes import canonical


@dataclass(frozen=True, slots=True)
class Parted:
    """The terms of a WHEN."""

    on_points: tuple[ast.Condition, ...] = ()
    on_results: tuple[ast.Condition, ...] = ()


def part(
    of: ast.Expression, when: ast.Condition | None, keys: Collection[str], findings: Findings
) -> Parted:
    """Part a condition on what has these keys: attributes that are none of them are of points."""
    on_points: list[ast.Condition] = []
    on_results: list[ast.Condition] = []
    for term in _terms(when):
        found = list(leaves(term))
        names = [leaf for leaf in found if isinstance(leaf, ast.Name)]
        of_points = [name for name in names if canonical(name.name) not in keys]
        if not of_points:
            on_results.append(term)
        elif len(of_points) == len(found):
            on_points.append(term)
        else:
            _refuse_mixture(of_points[0], findings)
    if on_points and not any(_reads_metrics(each) for each in (of, *on_results)):
        _refuse_unread(on_points[0], findings)
    return Parted(tuple(on_points), tuple(on_results))


def _reads_metrics(node: ast.Expression | ast.Condition) -> bool:
    read = read_by_condition if isinstance(node, ast.Condition) else read_by_value
    return next(read(node), None) is not None


def _refuse_unread(term: ast.Condition, findings: Findings) -> None:
    findings.error(
        term.span,
        "this condition is about points, and none are read here",
        "Put it into the insight that reads them, or add its attributes to the BY there.",
    )


def _refuse_mixture(name: ast.Name, findings: Findings) -> None:
    findings.error(
        name.span,
        f"`{name.name}` is an attribute of points; the rest of this condition is about results",
        f"Add `{name.name}` to BY, or make two conditions of it, joined by AND; "
        f"a metric needs an aggregate: `AVG({name.name})`.",
    )


def _terms(when: ast.Condition | None) -> tuple[ast.Condition, ...]:
    match when:
        case None:
            return ()
        case ast.And(terms):
            return terms
        case _:
            return (when,)
