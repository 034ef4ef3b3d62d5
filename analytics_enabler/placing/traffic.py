"""How much crosses between sites: what is expected, from the series that there are."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mistbow.plan.fragments import Partial
from mistbow.plan.nodes import Pane

PANE_BYTES = 56
"""The fixed columns of a row of panes; words are sent once and then by number."""

POINT_BYTES = 36
"""The same of a raw point as subscribers read it."""

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


def expected_rate(partial: Partial, series: Iterable[Series]) -> float:
    """Return how many bytes of panes a second a partial makes of its site's series at most."""
    here = [one for one in series if one.site == partial.source.site]
    keys_per_s = sum(_keys(pane, here) * 1000 / pane.width_ms for pane in partial.panes)
    return keys_per_s * PANE_BYTES


def _keys(pane: Pane, series: Sequence[Series]) -> int:
    read = len([one for one in series if _reads(pane, one)])
    # What else a key may name is one for each series at most.
    return min(read, 1) if _OF_A_SITE.issuperset(pane.by) else read


def _reads(pane: Pane, series: Series) -> bool:
    source = pane.source
    return series.metric == source.metric and (
        not source.entities or series.entity in source.entities
    )
