"""Samples of series, and time windows over the samples."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mistbow.streams.json_numbers import STALE
from storage_agent.promql.labels import Labels
from storage_agent.promql.vectors import Bools, Floats, Ints, Vector

LOOKBACK_MS = 5 * 60_000
_STALE_BITS = np.float64(STALE).view(np.int64)
_MAX_CHUNK_SAMPLES = 4_000_000
"""The number of samples that are evaluated between two checks of the deadline."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples, sorted by series and time.

    The samples of series i have the labels ``labels[i]`` and the indices from ``bounds[i]`` to
    ``bounds[i + 1] - 1``.
    """

    labels: list[Labels]
    bounds: Ints
    ts: Ints
    values: Floats


@dataclass(frozen=True, slots=True)
class UnsortedSamples:
    """Samples in any order.

    ``series``: for each sample, the index of its labels in ``labels``; -1: the sample is dropped.
    """

    labels: Sequence[Labels]
    series: Ints
    ts: Ints
    values: Floats


@dataclass(frozen=True, slots=True)
class Windows:
    """Time windows over samples; window i contains the samples ``low[i]:high[i]``.

    Window i ends at ``end[i]`` (ms) and has the length ``range_ms``. ``at[i]``: the timestamp (ms)
    at which the query is evaluated; ``@`` and ``offset`` shift the end but not this timestamp.
    ``params``: the scalar arguments of the function. ``check``: raises an error after the deadline.
    """

    ts: Ints
    values: Floats
    low: Ints
    high: Ints
    end: Ints
    at: Ints
    range_ms: int
    params: Sequence[Floats]
    check: Callable[[], None]

    @property
    def counts(self) -> Ints:
        """The number of samples in each window."""
        return self.high - self.low


def merge_samples(parts: Sequence[UnsortedSamples]) -> Samples:
    """Merge samples, and sort them by series and time.

    If a series has several samples with the same time, only the last of these samples is retained.
    """
    numbers: dict[Labels, int] = {}
    series = []
    for part in parts:
        indices = [numbers.setdefault(labels, len(numbers)) for labels in part.labels]
        series.append(np.array([*indices, -1], np.int64)[part.series])
    all_series = np.concatenate([np.empty(0, np.int64), *series])
    ts = np.concatenate([np.empty(0, np.int64), *(part.ts for part in parts)])
    values = np.concatenate([np.empty(0), *(part.values for part in parts)])
    order = np.lexsort((ts, all_series))
    order = order[all_series[order] >= 0]
    all_series, ts, values = all_series[order], ts[order], values[order]
    last = np.ones(len(ts), np.bool_)
    last[:-1] = (np.diff(all_series) != 0) | (np.diff(ts) != 0)
    bounds = np.searchsorted(all_series[last], np.arange(len(numbers) + 1))
    return Samples(list(numbers), bounds.astype(np.int64), ts[last], values[last])


def lookup_instant(samples: Samples, ends: Ints) -> tuple[Ints, Bools]:
    """Return the latest sample of each series at each timestamp.

    The result consists of two arrays of shape (series, timestamps): the index of the sample, and
    whether the sample is present. A sample is present if it is at most ``LOOKBACK_MS`` old and is
    not a staleness marker.
    """
    index = _search(samples, ends, "right") - 1
    found = index >= samples.bounds[:-1, None]
    if not len(samples.ts):
        return index, found
    index = np.maximum(index, 0)
    found &= samples.ts[index] >= ends - LOOKBACK_MS
    return index, found & ~_is_stale(samples.values)[index]


def without_stale(samples: Samples) -> Samples:
    """Return the samples that are not staleness markers; only these are in range vectors."""
    stale = _is_stale(samples.values)
    if not stale.any():
        return samples
    bounds = samples.bounds - np.concatenate([[0], np.cumsum(stale)])[samples.bounds]
    return Samples(samples.labels, bounds, samples.ts[~stale], samples.values[~stale])


def _is_stale(values: Floats) -> Bools:
    stale: Bools = values.view(np.int64) == _STALE_BITS
    return stale


@dataclass(frozen=True, slots=True)
class Ranges:
    """The time ranges of a range vector.

    Range i reaches from ``ends[i] - range_ms`` to ``ends[i]`` (ms, inclusive); the query is
    evaluated at the timestamp ``at[i]`` (ms).
    """

    ends: Ints
    at: Ints
    range_ms: int


def apply_range_function(
    samples: Samples,
    ranges: Ranges,
    function: Callable[[Windows], tuple[Floats, Bools]],
    params: Sequence[Floats],
    check: Callable[[], None],
) -> Vector:
    """Return the results of a function for the samples of each series in each range.

    ``params``: the function's scalar arguments. ``check``: raises an error after the deadline.
    """
    ends, range_ms = ranges.ends, ranges.range_ms
    low = _search(samples, ends - range_ms, "left")
    high = _search(samples, ends, "right")
    shape = low.shape
    values, present = np.zeros(low.size), np.zeros(low.size, np.bool_)
    low, high = low.ravel(), high.ravel()
    for part in _chunks(high - low) if len(samples.ts) else ():
        check()
        first, last = int(low[part].min()), int(high[part].max())
        times = np.arange(part.start, part.stop) % len(ends)
        values[part], present[part] = function(
            Windows(
                samples.ts[first : last + 1],
                samples.values[first : last + 1],
                low[part] - first,
                high[part] - first,
                ends[times],
                ranges.at[times],
                range_ms,
                [param[times] for param in params],
                check,
            )
        )
    return Vector(samples.labels, values.reshape(shape), present.reshape(shape))


def select_range(samples: Samples, end: int, range_ms: int) -> list[tuple[Labels, Ints, Floats]]:
    """Return (labels, times, values) of each series that has samples in a time range.

    The range reaches from ``end - range_ms`` to ``end`` (ms, inclusive).
    """
    low = _search(samples, np.array([end - range_ms]), "left")[:, 0]
    high = _search(samples, np.array([end]), "right")[:, 0]
    return [
        (labels, samples.ts[begin:stop], samples.values[begin:stop])
        for labels, begin, stop in zip(samples.labels, low, high, strict=True)
        if begin < stop
    ]


def _search(samples: Samples, times: Ints, side: str) -> Ints:
    """Return, for each series and time, the index of the first sample at or after the time.

    The shape of the result is (series, times). With ``side="right"``, the sample must be after the
    time. If there is no such sample, the index is the end of the series.
    """
    distinct, rank = np.unique(samples.ts, return_inverse=True)
    width = len(distinct) + 1
    # Series and time in a single number, so that a single search finds all.
    number = np.repeat(np.arange(len(samples.labels)), np.diff(samples.bounds))
    keys = number * width + rank
    ranks = np.searchsorted(distinct, times, "left" if side == "left" else "right")
    requested = np.arange(len(samples.labels))[:, None] * width + ranks[None, :]
    found: Ints = np.searchsorted(keys, requested, "left").astype(np.int64)
    return found


def _chunks(counts: Ints) -> Iterator[slice]:
    """Divide the windows into slices with a limited number of samples; yield each slice.

    The limit is about ``_MAX_CHUNK_SAMPLES``, but a slice has at least one window. ``counts``: the
    number of samples in each window.
    """
    upto = np.cumsum(counts + 1)
    begin = 0
    while begin < len(counts):
        done = upto[begin - 1] if begin else 0
        stop = max(begin + 1, int(np.searchsorted(upto, done + _MAX_CHUNK_SAMPLES, "right")))
        yield slice(begin, stop)
        begin = stop
