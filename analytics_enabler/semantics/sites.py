"""The sites that an insight reads: all sites, unless its conditions require a single site."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from analytics.plan.expressions import (
    Aggregate,
    Attribute,
    Comparison,
    Expression,
    Literal,
    Membership,
    Scalar,
    conjuncts,
    walk,
)
from analytics_enabler.optimizer.rules.fold_constants import fold
from analytics_enabler.semantics.definition import Definition
from mistbow.fabric import Fabric

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sites:
    """The names of the fabric's sites, the site of each node, and the enabler's own site.

    ``of_node``: node -> site. ``own``: None if unknown.
    """

    names: frozenset[str] = frozenset()
    of_node: Mapping[str, str] = field(default_factory=dict)
    own: str | None = None


def sites_of(fabric: Fabric) -> Sites:
    """Return the site names, the site of each node, and the own site of a fabric."""
    return Sites(
        frozenset(site.name for site in fabric.sites),
        {site.node: site.name for site in fabric.sites},
        fabric.site,
    )


def scope_of(definition: Definition, sites: Sites) -> str | None:
    """Return the only site that an insight reads; None: the insight reads all sites.

    If the conditions require a site that does not exist, return None.
    """
    if definition.feed is not None:
        return definition.feed.site or sites.own
    site = demanded_site(definition, sites)
    return site if site in sites.names else None


def demanded_site(definition: Definition, sites: Sites) -> str | None:
    """Return the only site whose points can satisfy an insight's conditions.

    Return None if the conditions require no single site. The returned site may not exist.
    """
    # A result with this site in its key depends on points of this site alone.
    filtered = _single(_named_sites(definition.filter, sites))
    if filtered is not None:
        return filtered
    parts = [part for part in (definition.expression, definition.filter) if part is not None]
    aggregates = [node for part in parts for node in walk(part) if isinstance(node, Aggregate)]
    demanded = {_single(_named_sites(node.source.predicate, sites)) for node in aggregates}
    return _single(demanded)


def _single(found: set[T]) -> T | None:
    return next(iter(found)) if len(found) == 1 else None


def _named_sites(condition: Expression | None, sites: Sites) -> set[str]:
    found: set[str] = set()
    for term in () if condition is None else conjuncts(fold(condition)):
        # The region is no proof: the labels of a point may contradict the region of its site.
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
