"""Estimates of the traffic that plans cause, computed from the series of each site."""

from collections.abc import Mapping, Sequence
from statistics import NormalDist

from analytics.plan.expressions import (
    Expression,
    Label,
    Measure,
    Reduction,
    TickSeries,
    children,
    is_condition,
    walk,
)
from analytics.plan.fragments import Partial
from analytics.plan.nodes import Insight, Pane, Plan
from analytics.plan.sampling import Bernoulli, FixedSize, NeymanAllocation
from analytics_enabler.catalogue import AnySeries, SeriesIndex, SiteMetric

PANE_BYTES = 56
"""The bytes of the fixed columns of a pane's row.

Strings are dictionary-encoded, and assumed to need no bytes.
"""

CARRIED_BYTES = 24
"""The bytes of a point in a pane."""

DRAWN_BYTES = 52
"""The bytes of a pane's data about the sampling of one point, such as the probability."""

POINT_BYTES = 36
"""The bytes of a raw point that a subscriber reads."""

RESULT_BYTES = 76
"""The bytes of the fixed columns in a row of results, for a function with one value."""

POINTS_PER_S = 1.0
"""The assumed points per second of a series whose rate was not measured."""

_VARIATION = 0.5
"""The assumed standard deviation of a metric, as a fraction of its mean."""

_SITE_ATTRIBUTES = {"node", "site", "region"}
"""The attributes that have the same value for all points of a site."""


def matching_series(panes: Sequence[Pane], series: AnySeries) -> dict[SiteMetric, int]:
    """Return the number of series of each site and metric that at least one pane reads.

    The panes' predicates are ignored.
    """
    index = SeriesIndex.of(series)
    entities: dict[str, set[str] | None] = {}
    for pane in panes:
        source = pane.source
        read = entities.setdefault(source.metric, set())
        if not source.entities:
            entities[source.metric] = None
        elif read is not None:
            read.update(source.entities)
    found: dict[SiteMetric, int] = {}
    for metric, read in entities.items():
        found |= index.count(metric, read or ())
    return found


def estimate_pane_bytes(
    partial: Partial,
    series: AnySeries,
    points_per_s: float = POINTS_PER_S,
) -> float:
    """Return the estimated bytes per second of the panes that a partial fragment writes.

    ``points_per_s``: the rate of each series.
    """
    here = SeriesIndex.of(series).at({partial.source.site})
    return sum(_pane_bytes(pane, here, points_per_s) for pane in partial.panes)


def estimate_sampled_points(pane: Pane, series: AnySeries, points_per_s: float) -> float:
    """Return the estimated points per second that the sampling of a pane selects.

    ``points_per_s``: the rate of each series.
    """
    index = SeriesIndex.of(series)
    points = sum(matching_series([pane], index).values()) * points_per_s
    return points * sampled_share(pane, points, key_count(pane, index), points_per_s)


def estimate_results(
    plan: Plan, series: SeriesIndex | None, points_per_s: float | None
) -> float | None:
    """Return the maximum number of results per second, as an estimate; None: unknown.

    ``series``: the series that the plan may read; None: unknown. ``points_per_s``: the total rate
    of these series; None: unknown.
    """
    rates = [_results(insight, plan, series, points_per_s) for insight in plan.insights]
    estimated = [rate for rate in rates if rate is not None]
    return sum(estimated) if len(estimated) == len(rates) else None


def _results(
    insight: Insight,
    plan: Plan,
    series: SeriesIndex | None,
    points_per_s: float | None,
) -> float | None:
    if insight.each_point:
        # An upper bound: each point that the plan reads counts for each insight.
        nth = 1 if insight.counted is None else insight.counted.every
        return None if points_per_s is None else points_per_s / nth
    panes = {pane.id: pane for pane in plan.panes}
    pane_of = {window.id: panes[window.pane] for window in plan.windows}
    by = _by(insight.expression, pane_of)
    if not by:
        keys = 1
    elif series is None:
        return None
    else:
        measures = (node for node in walk(insight.expression) if isinstance(node, Measure))
        read = matching_series([pane_of[node.window] for node in measures], series)
        by_site = _SITE_ATTRIBUTES.issuperset(by)
        keys = len({site for site, _ in read}) if by_site else sum(read.values())
    return keys * 1000 / insight.every_ms


def _by(node: Expression, pane_of: Mapping[str, Pane]) -> frozenset[str]:
    """Return the attributes that form the keys of an expression."""
    match node:
        case Measure(window=window):
            return frozenset(pane_of[window].by)
        case Reduction(by=by) | TickSeries(by=by) | Label(by=by):
            return frozenset(by)
        case _:
            values = [_by(each, pane_of) for each in children(node) if not is_condition(each)]
            return frozenset[str]().union(*values)


def _pane_bytes(pane: Pane, series: SeriesIndex, points_per_s: float) -> float:
    keys = key_count(pane, series)
    fixed = keys * 1000 / pane.width_ms * PANE_BYTES
    if not {"points", "sample"} & set(pane.contents):
        return fixed
    read = sum(matching_series([pane], series).values()) * points_per_s
    point = DRAWN_BYTES * ("sample" in pane.contents) + CARRIED_BYTES * ("points" in pane.contents)
    return fixed + read * sampled_share(pane, read, keys, points_per_s) * point


def sampled_share(pane: Pane, read: float, keys: int, points_per_s: float) -> float:
    """Return the share (0 to 1) of a pane's points that the sampling selects.

    ``read``: the points read per second. ``keys``: the number of keys of these points.
    ``points_per_s``: the rate of each series.
    """
    match pane.source.sampling:
        case Bernoulli(share):
            return share
        case FixedSize(size, period_ms):
            # ``size`` points of each entity, if its series has as many.
            return min(1.0, size * 1000 / (period_ms * max(points_per_s, 1e-9)))
        case NeymanAllocation() as allotted:
            points_of_key = read / max(keys, 1) * allotted.period_ms * allotted.periods / 1000
            share = 0.0 if allotted.share is None else allotted.share
            return max(share, _share_for_error(allotted, points_of_key))
        case _:
            return 1.0


def _share_for_error(allotted: NeymanAllocation, points: float) -> float:
    """Return the share (0 to 1) of a window's points to select for the requested error bound.

    ``points``: the number of points in the window. Without a requested bound, the share is 0.

    The standard deviation is assumed to be ``_VARIATION`` times the mean. The finite population
    correction is applied (Cochran, "Sampling Techniques", 1977, section 4.6).
    """
    if allotted.max_error is None:
        return 0.0
    quantile = NormalDist().inv_cdf((1 + allotted.confidence) / 2)
    needed = (quantile * _VARIATION / allotted.max_error) ** 2
    return needed / (needed + points)


def key_count(pane: Pane, series: AnySeries) -> int:
    """Return the maximum number of keys of a pane, as an estimate."""
    read = sum(matching_series([pane], series).values())
    # An upper bound: other attributes have one value for each series.
    return min(read, 1) if _SITE_ATTRIBUTES.issuperset(pane.by) else read
