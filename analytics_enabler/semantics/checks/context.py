"""The context of checks: information that the bound tree does not contain."""

import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from analytics.plan.expressions import Scalar
from analytics_enabler.semantics.diagnostics import Suggestions
from analytics_enabler.semantics.expand.feeds import Schemas
from analytics_enabler.semantics.sites import Sites

Values = Mapping[str, Mapping[str, Collection[Scalar]]]
"""Metric -> attribute -> the different values that recent points have; empty: there are many."""

PointAttributes = Mapping[str, Scalar]
"""The attributes of a point: name -> value."""

Points = Mapping[str, Collection[PointAttributes]]
"""Metric -> the different attributes of its recent points."""

MAX_POINTS = 1000
"""The maximum number of different attributes of points that are retained for a metric."""


@dataclass(frozen=True, slots=True)
class Context:
    """The information that checks need in addition to the bound tree.

    ``metrics``: the names of the metrics that the insight may read. ``schemas``: stream -> columns,
    for the streams that feeds read. ``sites``: the sites in the fabric. ``suggestions``: finds
    similar names for hints. ``metrics`` and ``sites`` are None if unknown. ``values``: metric ->
    attribute -> all values that recent points have.
    ``attributes``: the attributes that points certainly have; None: unknown. ``points``: metric ->
    the attributes of its recent points. ``units``: metric -> unit, where it is known.
    """

    metrics: frozenset[str] | None
    schemas: Schemas
    sites: Sites | None
    suggestions: Suggestions
    values: Values = field(default_factory=dict)
    attributes: frozenset[str] | None = None
    points: Points = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)

    def attributes_of(self, metric: str) -> frozenset[str]:
        """Return the attributes of a metric's recent points; empty: unknown."""
        points = self.points.get(metric, ())
        # Of a metric with more points, another one may have further attributes.
        if len(points) >= MAX_POINTS:
            return frozenset()
        return frozenset(itertools.chain(self.values.get(metric, ()), *points))
