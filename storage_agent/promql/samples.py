"""Samples of some series, and which of them lie in windows of time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from storage_agent.promql.labels import Labels
from storage_agent.promql.vectors import Bools, Floats, Ints, Vector

LOOKBACK_MS = 5 * 60_000
_AT_ONCE = 4_000_000
"""Samples in windows that are looked at without asking whether there is time left."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples by series and time: those of series ``i`` are ``bounds[i]`` to ``bounds[i + 1]``."""

    labels: list[Labels]
    bounds: Ints
    ts: Ints
    values: Floats


@dataclass(frozen=True, slots=True)
class Rows:
    """Samples in any order; ``series`` says which of ``labels`` each is of, or -1 for none."""

    labels: Sequence[Labels]
    series: Ints
    ts: Ints
    values: Floats


@dataclass(frozen=True, slots=True)
class Windows:
    """Of series and times: window ``i`` has the samples ``low[i]`` to ``high[i]``, without it.

    It ends at ``end[i]`` and is ``range_ms`` long; ``param`` is the function's other argument.
    """

    ts: Ints
    values: Floats
    low: Ints
    high: Ints
    end: Ints
    range_ms: int
    param: Floats

    @property
    def counts(self) -> Ints:
        """How many samples are in each."""
        return self.high - self.low


def collected(parts: Sequence[Rows]) -> Samples:
    """Sort samples by series and time; of those of the same time the last counts."""
    numbers: dict[Labels, int] = {}
    series = []
    for part in parts:
        of_each = [numbers.setdefault(labels, len(numbers)) for labels in part.labels]
        series.append(np.array([*of_each, -1], np.int64)[part.series])
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


def at_times(samples: Samples, ends: Ints) -> tuple[Ints, Bools]:
    """Return which sample of each series counts at each time, and whether there is one."""
    index = _before(samples, ends, "right") - 1
    found = index >= samples.bounds[:-1, None]
    if not len(samples.ts):
        return index, found
    index = np.maximum(index, 0)
    return index, found & (samples.ts[index] >= ends - LOOKBACK_MS)


def over_windows(
    samples: Samples,
    ends: Ints,
    range_ms: int,
    function: Callable[[Windows], tuple[Floats, Bools]],
    param: Floats,
    check: Callable[[], None],
) -> Vector:
    """Return a function's values over the samples of each series in ``[end - range, end]``.

    ``check`` is called now and then, and raises when it has taken too long.
    """
    low = _before(samples, ends - range_ms, "left")
    high = _before(samples, ends, "right")
    shape = low.shape
    values, present = np.zeros(low.size), np.zeros(low.size, np.bool_)
    low, high = low.ravel(), high.ravel()
    for part in _parts(high - low) if len(samples.ts) else ():
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
                range_ms,
                param[times],
            )
        )
    return Vector(samples.labels, values.reshape(shape), present.reshape(shape))


def in_range(samples: Samples, end: int, range_ms: int) -> list[tuple[Labels, Ints, Floats]]:
    """Return the samples themselves, of series that have some in ``[end - range, end]``."""
    low = _before(samples, np.array([end - range_ms]), "left")[:, 0]
    high = _before(samples, np.array([end]), "right")[:, 0]
    return [
        (labels, samples.ts[begin:stop], samples.values[begin:stop])
        for labels, begin, stop in zip(samples.labels, low, high, strict=True)
        if begin < stop
    ]


def _before(samples: Samples, times: Ints, side: str) -> Ints:
    """Return of each series and time the number of the first sample that is not before it.

    With the side ``right``, of the first that is after it.
    """
    known, rank = np.unique(samples.ts, return_inverse=True)
    width = len(known) + 1
    # Numbers of series and of times, as one: a single search finds all.
    number = np.repeat(np.arange(len(samples.labels)), np.diff(samples.bounds))
    keys = number * width + rank
    asked = np.searchsorted(known, times, "left" if side == "left" else "right")
    wanted = np.arange(len(samples.labels))[:, None] * width + asked[None, :]
    found: Ints = np.searchsorted(keys, wanted, "left").astype(np.int64)
    return found


def _parts(counts: Ints) -> Iterator[slice]:
    """Yield spans of windows, each with not much more than so many samples at once."""
    upto = np.cumsum(counts + 1)
    begin = 0
    while begin < len(counts):
        done = upto[begin - 1] if begin else 0
        stop = max(begin + 1, int(np.searchsorted(upto, done + _AT_ONCE, "right")))
        yield slice(begin, stop)
        begin = stop
