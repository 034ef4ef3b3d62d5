"""Adaptive sampling: selects which collected points are sent."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import reduce
from operator import and_

from msgspec.structs import replace

from mistbow.client import Point
from mistbow.sampling.adaptive import HOLDS_MS, INTERVAL_MS, MAX_WEIGHT, SamplingRequest
from mistbow.streams.json_numbers import from_json
from monitoring_agent.adam import Adam, Settings

_SeriesKey = tuple[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class _LastSample:
    """The last sample of a series, taken at ``since`` (ms); the next sample is due at ``due`` (ms).

    ``adam``: the state of AdaM after this sample.
    """

    adam: Adam
    since: int
    due: int

    def holds(self, now: int) -> bool:
        """Return whether the sample is valid at ``now`` (ms): from ``since`` until before ``due``.

        If the clock was set back to a time before ``since``, the sample is not valid.
        """
        return self.since <= now < self.due


class AdaptiveSampler:
    """Selects the collected points to send.

    If a sampling request applies to the metric of a series, only samples of the series are sent,
    with the sampling period as a label. ``interval_ms``: the interval of collections. ``own``:
    pattern of metric names -> the sampling request from the settings of the monitoring agent.
    ``set_requests`` sets the sampling requests of insights.
    """

    def __init__(self, interval_ms: int, own: Mapping[str, SamplingRequest]) -> None:
        self._interval_ms = interval_ms
        self._own = own
        self._requests: Mapping[str, SamplingRequest] = {}
        self._samples: dict[_SeriesKey, _LastSample] = {}
        self._by_collector: dict[str, tuple[_LastSample, ...]] = {}

    def set_requests(self, requests: Mapping[str, SamplingRequest]) -> None:
        """Replace the sampling requests of insights; ``requests``: metric -> request.

        All points of a metric without a request are sent.
        """
        if requests != self._requests:
            self._requests = requests
            self._by_collector.clear()

    def skips(self, collector: str, now: int) -> bool:
        """Return whether a collector need not run at ``now`` (ms), since all samples are valid."""
        samples = self._by_collector.get(collector, ())
        return bool(samples) and all(sample.holds(now) for sample in samples)

    def sample(self, collector: str, points: Iterable[Point], now: int) -> list[Point]:
        """Return the points to send, with labels for the sampling period.

        ``collector``: the name of the collector. ``points``: the points of one collection. ``now``:
        the time of the collection (ms since the epoch).
        """
        sampled: list[Point] = []
        samples: list[_LastSample] = []
        may_skip = True
        for point in points:
            request = self._request(point)
            if request is None:
                self._samples.pop((point.metric, point.entity), None)
                sampled.append(point)
                may_skip = False
                continue
            sample, holds_ms = self._advance(point, request, now)
            if holds_ms or request.all_values:
                labels = {HOLDS_MS: holds_ms, INTERVAL_MS: self._interval_ms}
                sampled.append(replace(point, labels={**(point.labels or {}), **labels}))
            samples.append(sample)
            may_skip = may_skip and not request.all_values
        self._by_collector[collector] = tuple(samples) if may_skip else ()
        self._drop_ended(now)
        return sampled

    def _request(self, point: Point) -> SamplingRequest | None:
        if HOLDS_MS in (point.labels or {}):  # its source samples by itself
            return None
        own = [each for pattern, each in self._own.items() if fnmatchcase(point.metric, pattern)]
        requested = self._requests.get(point.metric)
        if not own:
            return requested
        # The agent's settings limit its own load: no insight undoes that.
        others = [] if requested is None else [replace(requested, all_values=False)]
        return reduce(and_, [*own, *others])

    def _advance(self, point: Point, request: SamplingRequest, now: int) -> tuple[_LastSample, int]:
        """Return (the last sample of the point's series, the sampling period in ms).

        If the previous sample is still valid, the point is not a sample: the previous sample and
        the period 0 are returned.
        """
        key = point.metric, point.entity
        last = self._samples.get(key)
        if last is not None and last.holds(now):
            return last, 0
        max_ms = max(self._interval_ms, min(request.max_holds_ms, MAX_WEIGHT * self._interval_ms))
        settings = Settings(self._interval_ms, max_ms, request.confidence)
        adam = Adam(settings, last.adam.state if last else None)
        weight = round(adam.advance(int(point.ts), from_json(point.value)) / self._interval_ms)
        holds_ms = min(max(1, weight), MAX_WEIGHT) * self._interval_ms
        # Half an interval early, for collections come a little sooner or later than planned.
        sample = _LastSample(adam, now, now + holds_ms - self._interval_ms // 2)
        self._samples[key] = sample
        return sample, holds_ms

    def _drop_ended(self, now: int) -> None:
        """Drop the state of series without recent points, for example of ended processes."""
        max_ms = MAX_WEIGHT * self._interval_ms
        ended = [
            key for key, sample in self._samples.items() if not -max_ms < now - sample.due < max_ms
        ]
        for key in ended:
            del self._samples[key]
