"""The estimated traffic of a group.

The traffic consists of the points that fragments read, the panes that fragments send to each other,
and the results.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from msgspec import UNSET

from analytics.insight_models import ExplainedEdge
from analytics.plan.fragments import Merge, Partial, StreamLocation, Whole
from analytics.plan.nodes import Pane
from analytics_enabler.catalogue import SeriesIndex
from analytics_enabler.fragments import MERGE, Tasks, result_task
from analytics_enabler.scheduling.driver.traffic import (
    POINT_BYTES,
    POINTS_PER_S,
    RESULT_BYTES,
    estimate_pane_bytes,
    estimate_results,
    estimate_sampled_points,
    matching_series,
)


@dataclass(frozen=True, slots=True)
class TrafficEstimates:
    """Estimates the traffic of groups from measurements.

    ``series``: the series of raw points. ``rates``: stream -> rows per second; streams without a
    measurement are omitted. ``site_of``: task -> site; None: no worker runs the task. ``measured``:
    fragment id -> bytes per second that the fragment writes; None if unknown.
    """

    series: SeriesIndex
    rates: Mapping[StreamLocation, float]
    site_of: Callable[[str], str | None]
    measured: Callable[[str], float | None]

    def edges(self, tasks: Tasks) -> list[ExplainedEdge]:
        """Return the edges of a group's data flow: point streams → fragments → result stream."""
        edges: list[ExplainedEdge] = []
        for task, fragment in tasks.items():
            site = self.site_of(task)
            match fragment:
                case Partial():
                    merge = tasks[result_task(tasks)].id
                    edges.append(self._points(fragment, fragment.panes, site))
                    edges.append(self._panes(fragment, site, merge, self.site_of(MERGE)))
                case Whole():
                    edges.append(self._points(fragment, fragment.plan.panes, site))
                    edges.append(self._results(fragment, (fragment.source,), site))
                case Merge():
                    edges.append(self._results(fragment, _point_streams(tasks), site))
        return edges

    def _points(
        self, fragment: Partial | Whole, panes: Sequence[Pane], site: str | None
    ) -> ExplainedEdge:
        location = fragment.source
        points = self.points_read(location, panes)
        return ExplainedEdge(
            source=stream_label(location),
            target=fragment.id,
            carries="points",
            per_s=points,
            bytes_per_s=None if points is None else points * POINT_BYTES,
            is_local=site == location.site,
        )

    def _panes(
        self, partial: Partial, site: str | None, merge: str, merge_site: str | None
    ) -> ExplainedEdge:
        rate = self._series_rate(partial.source)
        return ExplainedEdge(
            source=partial.id,
            target=merge,
            carries="panes",
            bytes_per_s=estimate_pane_bytes(
                partial, self.series, POINTS_PER_S if rate is None else rate
            ),
            measured=self.measured(partial.id),
            is_local={partial.target.site, site or partial.target.site} == {merge_site},
        )

    def _results(
        self, fragment: Whole | Merge, sources: Sequence[StreamLocation], site: str | None
    ) -> ExplainedEdge:
        plan = fragment.plan
        read = [self.points_read(location, plan.panes) for location in sources]
        measured = [rate for rate in read if rate is not None]
        # The series of feeds are not catalogued.
        series = None
        if all(location.feed is UNSET for location in sources):
            sites = {location.site for location in sources}
            series = self.series.at(sites)
        points = sum(measured) if len(measured) == len(read) else None
        results = estimate_results(plan, series, points)
        return ExplainedEdge(
            source=fragment.id,
            target=stream_label(fragment.target),
            carries="results",
            per_s=results,
            bytes_per_s=None if results is None else results * RESULT_BYTES,
            measured=self.measured(fragment.id),
            is_local=site == fragment.target.site,
        )

    def points_read(self, location: StreamLocation, panes: Sequence[Pane]) -> float | None:
        """Return the maximum points per second that panes read from a stream; None if unknown."""
        rate = self.rates.get(location)
        if rate is None:
            return None
        if location.feed is not UNSET:
            # A row is a point of each column that is read, or of its metric.
            return rate * (
                1 if location.feed.metric else len({pane.source.metric for pane in panes})
            )
        here = self._series_at(location.site)
        return rate * sum(matching_series(panes, here).values()) / max(len(here), 1)

    def points_sampled(self, location: StreamLocation, pane: Pane) -> float | None:
        """Return the maximum points per second that a sampled pane draws from a stream.

        Return None if the maximum is unknown.
        """
        rate = self._series_rate(location)
        if rate is None:
            return None
        return estimate_sampled_points(pane, self._series_at(location.site), rate)

    def _series_rate(self, location: StreamLocation) -> float | None:
        """Return the mean points per second of one series of a stream.

        Return None if the rate is unknown, or if the stream is read as a feed.
        """
        rate = self.rates.get(location)
        if rate is None or location.feed is not UNSET:
            return None
        return rate / max(len(self._series_at(location.site)), 1)

    def _series_at(self, site: str) -> SeriesIndex:
        return self.series.at({site})


def _point_streams(tasks: Tasks) -> list[StreamLocation]:
    """Return the streams of points that a group reads."""
    return [each.source for each in tasks.values() if not isinstance(each, Merge)]


def stream_label(location: StreamLocation) -> str:
    """Return the label of a stream: ``site/stream``."""
    return f"{location.site}/{location.stream}"
