"""The sites whose points an insight can read."""

from analytics.plan.expressions import (
    Aggregate,
    Attribute,
    Comparison,
    Expression,
    Literal,
    Membership,
    conjuncts,
    walk,
)
from analytics_enabler.optimizer.rules.fold_constants import fold
from analytics_enabler.semantics import Definition, Sites


def sources_of(definition: Definition, sites: Sites) -> frozenset[str] | None:
    """Return the sites that an insight reads; None: all sites.

    An insight reads only the sites that its conditions name (``site`` or ``node``, by ``==`` or
    IN), and that exist. The region is no proof: labels of points may contradict it.
    """
    if definition.feed is not None:
        site = definition.feed.site or sites.own
        return None if site is None else frozenset({site})
    filtered = _named(definition.filter, sites)
    if filtered:
        return filtered
    parts = [part for part in (definition.expression, definition.filter) if part is not None]
    predicates = [
        source.predicate
        for part in parts
        for node in walk(part)
        if isinstance(node, Aggregate)
        for source in node.sources
    ]
    named = [_named(predicate, sites) for predicate in predicates]
    if not named or not all(named):
        return None
    return frozenset().union(*(each or () for each in named))


def _named(condition: Expression | None, sites: Sites) -> frozenset[str] | None:
    """Return the existing sites to which a condition limits points; None: all sites."""
    found: frozenset[str] | None = None
    for term in () if condition is None else conjuncts(fold(condition)):
        match term:
            case Comparison("==", Attribute(name), Literal(value)):
                values: tuple[object, ...] = (value,)
            case Comparison("==", Literal(value), Attribute(name)):
                values = (value,)
            case Membership(Attribute(name), values):
                pass
            case _:
                continue
        if name == "site":
            named = frozenset(str(value) for value in values) & sites.names
        elif name == "node" and all(value in sites.of_node for value in values):
            named = frozenset(sites.of_node[str(value)] for value in values)
        else:
            continue
        found = named if found is None else found & named
    return found
