"""What is expected to go along the edges of a group: to its fragments, between them, to results."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from msgspec import UNSET

from analytics_enabler.fragments import MERGE, Tasks, result_of
from analytics_enabler.placing.traffic import (
    POINT_BYTES,
    POINTS_PER_S,
    RESULT_BYTES,
    Series,
    expected_rate,
    kept_rate,
    matching,
    results_rate,
)
from mistbow.insights import ExplainedEdge
from mistbow.plan.fragments import Fragment, Merge, Partial, Place, Whole
from mistbow.plan.nodes import Pane


@dataclass(frozen=True, slots=True)
class Flows:
    """What is known of points, sites and fragments that run.

    ``series`` are those of raw points. ``rates``: the rows of streams of points that come each
    second, where that is known; ``site_of`` tells where a task runs, ``measured`` the bytes a
    second that a fragment writes.
    """

    series: Sequence[Series]
    rates: Mapping[Place, float]
    site_of: Callable[[str], str | None]
    measured: Callable[[str], float | None]

    def edges(self, tasks: Tasks) -> list[ExplainedEdge]:
        """Return the edges of a group, from points to results."""
        found: list[ExplainedEdge] = []
        for task, fragment in tasks.items():
            site = self.site_of(task)
            match fragment:
                case Partial():
                    found.append(self._points(fragment, fragment.panes, site))
                    found.append(self._panes(fragment, result_of(tasks).id, self.site_of(MERGE)))
                case Whole():
                    found.append(self._points(fragment, fragment.plan.panes, site))
                    found.append(self._results(fragment, (fragment.source,), site))
                case Merge():
                    found.append(self._results(fragment, _sources(tasks), site))
        return found

    def _points(
        self, fragment: Partial | Whole, panes: Sequence[Pane], site: str | None
    ) -> ExplainedEdge:
        place = fragment.source
        points = self.read(place, panes)
        return ExplainedEdge(
            source=told(place),
            target=fragment.id,
            carries="points",
            per_s=points,
            bytes_per_s=None if points is None else points * POINT_BYTES,
            is_local=site == place.site,
        )

    def _panes(self, partial: Partial, merge: str, merged_at: str | None) -> ExplainedEdge:
        each = self._each(partial.source)
        return ExplainedEdge(
            source=partial.id,
            target=merge,
            carries="panes",
            bytes_per_s=expected_rate(partial, self.series, POINTS_PER_S if each is None else each),
            measured=self.measured(partial.id),
            is_local=partial.source.site == merged_at,
        )

    def _results(
        self, fragment: Whole | Merge, sources: Sequence[Place], site: str | None
    ) -> ExplainedEdge:
        plan = fragment.plan
        read = [self.read(place, plan.panes) for place in sources]
        known = [one for one in read if one is not None]
        # Nobody keeps which series other streams have.
        series = None
        if all(place.feed is UNSET for place in sources):
            sites = {place.site for place in sources}
            series = [one for one in self.series if one.site in sites]
        points = sum(known) if len(known) == len(read) else None
        results = results_rate(plan, series, points)
        return ExplainedEdge(
            source=fragment.id,
            target=told(fragment.target),
            carries="results",
            per_s=results,
            bytes_per_s=None if results is None else results * RESULT_BYTES,
            measured=self.measured(fragment.id),
            is_local=site == fragment.target.site,
        )

    def read(self, place: Place, panes: Sequence[Pane]) -> float | None:
        """Return how many points a second panes read of a stream, at most."""
        rate = self.rates.get(place)
        if rate is None:
            return None
        if place.feed is not UNSET:
            # A row is a point of each column that is read, or of the metric that it names.
            return rate * (1 if place.feed.metric else len({pane.source.metric for pane in panes}))
        here = self._series_at(place.site)
        return rate * len(matching(panes, here)) / max(len(here), 1)

    def kept(self, place: Place, pane: Pane) -> float | None:
        """Return how many points a second a sampled pane keeps of a stream, at most."""
        each = self._each(place)
        return None if each is None else kept_rate(pane, self._series_at(place.site), each)

    def _each(self, place: Place) -> float | None:
        """Return how many points a second a series at a site has."""
        rate = self.rates.get(place)
        if rate is None or place.feed is not UNSET:
            return None
        return rate / max(len(self._series_at(place.site)), 1)

    def _series_at(self, site: str) -> list[Series]:
        return [one for one in self.series if one.site == site]


def _sources(tasks: Tasks) -> list[Place]:
    """Return the streams of points that a group reads."""
    return [each.source for each in tasks.values() if not isinstance(each, Merge)]


def sources_of(fragment: Fragment) -> tuple[Place, ...]:
    """Return the streams that a fragment reads."""
    return fragment.sources if isinstance(fragment, Merge) else (fragment.source,)


def told(place: Place) -> str:
    """Return a stream as ``site/stream``."""
    return f"{place.site}/{place.stream}"
