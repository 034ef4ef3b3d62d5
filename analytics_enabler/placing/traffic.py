"""How much crosses between sites: what is expected, from the series that there are."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from mistbow.plan.expressions import (
    Expression,
    Label,
    Measure,
    Reduction,
    children,
    is_condition,
    walk,
)
from mistbow.plan.fragments import Partial
from mistbow.plan.nodes import Insight, Pane, Plan
from mistbow.plan.sampling import Allotted, Even, Fixed

PANE_BYTES = 56
"""The fixed columns of a row of panes; words are sent once and then by number."""

CARRIED_BYTES = 24
"""A point that a pane carries."""

DRAWN_BYTES = 52
"""The same of a sampled source: how it was drawn goes with it."""

POINT_BYTES = 36
"""The same of a raw point as subscribers read it."""

RESULT_BYTES = 76
"""The fixed columns of a row of results, of a function of one value."""

POINTS_PER_S = 1.0
"""So often a series has a point, where nobody says."""

_VARIATION = 0.5
_OF_A_SITE = {"node", "site", "region"}


@dataclass(frozen=True, slots=True)
class Series:
    """A series that points have come of, and the site that has them."""

    site: str
    metric: str
    entity: str


def matching(panes: Sequence[Pane], series: Iterable[Series]) -> list[Series]:
    """Return the series that any of the panes reads; conditions on points are not looked at."""
    return [one for one in series if any(_reads(pane, one) for pane in panes)]


def expected_rate(
    partial: Partial, series: Iterable[Series], points_per_s: float = POINTS_PER_S
) -> float:
    """Return about how many bytes of panes a second a partial makes of its site's series.

    Each of them has so many points.
    """
    here = [one for one in series if one.site == partial.source.site]
    return sum(_rate(pane, here, points_per_s) for pane in partial.panes)


def kept_rate(pane: Pane, series: Iterable[Series], points_per_s: float) -> float:
    """Return about how many points a second a pane keeps of these series.

    Each of them has so many.
    """
    read = matching([pane], series)
    found = len(read) * points_per_s
    return found * _kept(pane, found, _keys(pane, read), points_per_s)


def results_rate(
    plan: Plan, series: Sequence[Series] | None, points_per_s: float | None
) -> float | None:
    """Return about how many results a second a plan has at most, None where nobody can say.

    Of these series (None: unknown), which have so many points together.
    """
    rates = [_results(insight, plan, series, points_per_s) for insight in plan.insights]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if len(known) == len(rates) else None


def _results(
    insight: Insight, plan: Plan, series: Sequence[Series] | None, points_per_s: float | None
) -> float | None:
    if insight.each_point:
        # Of all that is read, as it is hard to say which points are this insight's.
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
        measured = (node for node in walk(insight.expression) if isinstance(node, Measure))
        read = matching([pane_of[node.window] for node in measured], series)
        keys = len({one.site for one in read}) if _OF_A_SITE.issuperset(by) else len(read)
    return keys * 1000 / insight.every_ms


def _by(node: Expression, pane_of: Mapping[str, Pane]) -> frozenset[str]:
    """Return the attributes of the keys of what an expression has come to."""
    match node:
        case Measure(window=window):
            return frozenset(pane_of[window].by)
        case Reduction(by=by) | Label(by=by):
            return frozenset(by)
        case _:
            values = [_by(each, pane_of) for each in children(node) if not is_condition(each)]
            return frozenset[str]().union(*values)


def _rate(pane: Pane, series: Sequence[Series], points_per_s: float) -> float:
    keys = _keys(pane, series)
    found = keys * 1000 / pane.width_ms * PANE_BYTES
    if not {"points", "sample"} & set(pane.contents):
        return found
    read = sum(_reads(pane, one) for one in series) * points_per_s
    each = DRAWN_BYTES * ("sample" in pane.contents) + CARRIED_BYTES * ("points" in pane.contents)
    return found + read * _kept(pane, read, keys, points_per_s) * each


def _kept(pane: Pane, read: float, keys: int, points_per_s: float) -> float:
    """Return which share is kept of the points that a pane's source reads, ``read`` each second."""
    match pane.source.sampling:
        case Even(share):
            return share
        case Fixed(size, period_ms):
            # Of each entity: as many as the points of a series, or fewer.
            return min(1.0, size * 1000 / (period_ms * max(points_per_s, 1e-9)))
        case Allotted() as allotted:
            of_key = read / max(keys, 1) * allotted.period_ms * allotted.periods / 1000
            needed = 0.0 if allotted.share is None else allotted.share
            return max(needed, _share_for(allotted, of_key))
        case _:
            return 1.0


def _share_for(allotted: Allotted, points: float) -> float:
    """Return which share of the points of a window bounds its error.

    As if their deviation were half of their mean; with the finite population correction (Cochran,
    "Sampling Techniques", 1977, section 4.6).
    """
    if allotted.max_error is None:
        return 0.0
    quantile = NormalDist().inv_cdf((1 + allotted.confidence) / 2)
    needed = (quantile * _VARIATION / allotted.max_error) ** 2
    return needed / (needed + points)


def _keys(pane: Pane, series: Sequence[Series]) -> int:
    read = len([one for one in series if _reads(pane, one)])
    # What else a key may name is one for each series at most.
    return min(read, 1) if _OF_A_SITE.issuperset(pane.by) else read


def _reads(pane: Pane, series: Series) -> bool:
    source = pane.source
    return series.metric == source.metric and (
        not source.entities or series.entity in source.entities
    )
