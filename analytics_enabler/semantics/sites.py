"""Which sites an insight is over: one, where its conditions demand that, or all."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from analytics_enabler.optimizer.rules.fold_constants import fold
from analytics_enabler.semantics.definition import Definition
from mistbow.fabric import Fabric
from mistbow.plan.expressions import (
    Aggregate,
    Attribute,
    Comparison,
    Expression,
    Literal,
    Membership,
    Scalar,
    terms,
    walk,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sites:
    """The names of the sites that are known, the site of each node, and the enabler's own."""

    names: frozenset[str] = frozenset()
    of_node: Mapping[str, str] = field(default_factory=dict)
    own: str | None = None


def sites_of(fabric: Fabric) -> Sites:
    """Return the sites of a fabric."""
    return Sites(
        frozenset(site.name for site in fabric.sites),
        {site.node: site.name for site in fabric.sites},
        fabric.site,
    )


def scope_of(definition: Definition, sites: Sites) -> str | None:
    """Return the site that an insight is over, None for all; so also if it is not known."""
    if definition.feed is not None:
        return definition.feed.site or sites.own
    site = demanded_site(definition, sites)
    return site if site in sites.names else None


def demanded_site(definition: Definition, sites: Sites) -> str | None:
    """Return the one site that all points of an insight must come from, known or not."""
    # Only results with this site in their key are kept, and these come of its points alone.
    kept = _only(_demanded(definition.filter, sites))
    if kept is not None:
        return kept
    parts = [part for part in (definition.expression, definition.filter) if part is not None]
    aggregates = [node for part in parts for node in walk(part) if isinstance(node, Aggregate)]
    demanded = {_only(_demanded(node.source.predicate, sites)) for node in aggregates}
    return _only(demanded)


def _only(found: set[T]) -> T | None:
    return next(iter(found)) if len(found) == 1 else None


def _demanded(condition: Expression | None, sites: Sites) -> set[str]:
    found: set[str] = set()
    for term in () if condition is None else terms(fold(condition)):
        # Only these two: a point's own labels may say otherwise of its region.
        match _equality(term):
            case ("site", str(site)):
                found.add(site)
            case ("node", str(node)) if node in sites.of_node:
                found.add(sites.of_node[node])
    return found


def _equality(term: Expression) -> tuple[str, Scalar] | None:
    match term:
        case Comparison("==", Attribute(name), Literal(value)):
            return name, value
        case Comparison("==", Literal(value), Attribute(name)):
            return name, value
        case Membership(Attribute(name), (value,)):
            return name, value
        case _:
            return None
