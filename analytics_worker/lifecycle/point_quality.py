"""The quality of points: completeness, timeliness and accuracy, from the points of a short period.

The dimensions are those of Michailidou et al., "EQUALITY: Quality-aware intensive analytics on the
edge", Information Systems 2022.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Series = tuple[str, str]
"""(metric, entity)"""

Ranges = Mapping[Series, tuple[float, float]]
"""Series -> its declared minimum and maximum; a side without a declaration is infinite."""

MAX_PERIODS = 6
"""The number of checked periods over which a quality is computed."""

MAX_GAPS = 32
"""The number of gaps between points from which the interval of a series is determined."""

MIN_GAPS = 5

FORGET_MS = 600_000
"""The time (ms) without points after which a series is not expected any more."""

_REGULAR = 0.8
"""The share of the gaps that must be near a multiple of the interval."""

_NEAR = 0.2


@dataclass(frozen=True, slots=True)
class Counts:
    """The points of a metric in a period; ``ranged``: the points with a declared range.

    ``regular``, ``expected``: the received and the expected points of series with an interval.
    """

    points: int = 0
    regular: int = 0
    expected: float = 0.0
    late: int = 0
    ranged: int = 0
    outside: int = 0


@dataclass(frozen=True, slots=True)
class Quality:
    """The quality of the points of a metric, in shares from 0 to 1; None: unknown.

    ``points``: the number of points of the last period. ``completeness``: the received of the
    expected points. ``timeliness``: the points that were not late. ``accuracy``: the points within
    the declared range of their series.
    """

    points: int
    completeness: float | None
    timeliness: float | None
    accuracy: float | None


@dataclass(slots=True)
class _Series:
    gaps: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_GAPS))
    last_ts: int = 0
    seen_at: int = 0
    interval_ms: float | None = None


class QualityMeter:
    """Computes the quality of the points of one source, period by period."""

    def __init__(self) -> None:
        self._series: dict[Series, _Series] = {}
        self._periods: dict[str, deque[Counts]] = {}

    def read(
        self, points: pa.Table, began: int, ended: int, ranges: Ranges
    ) -> Mapping[str, Quality]:
        """Add the points that arrived from ``began`` to ``ended`` (ms); return metric -> quality.

        ``points``: columns ``metric``, ``entity``, ``ts``, ``value`` and ``horizon``. A series
        without points in the period is expected too.
        """
        counts: dict[str, list[Counts]] = {}
        received: dict[Series, int] = {}
        for series, rows in _by_series(points):
            limits = ranges.get(series)
            values, times = rows["value"], rows["ts"]
            known = self._series.setdefault(series, _Series())
            received[series] = self._note(known, times, ended)
            counts.setdefault(series[0], []).append(
                Counts(
                    points=len(times),
                    late=int(np.count_nonzero(times <= rows["horizon"])),
                    ranged=0 if limits is None else len(values),
                    outside=0 if limits is None else _outside(values, limits),
                )
            )
        for series, expected in self._expected(ended - began, ended):
            regular = Counts(regular=received.get(series, 0), expected=expected)
            counts.setdefault(series[0], []).append(regular)
        return {metric: self._quality(metric, _sum(each)) for metric, each in counts.items()}

    def _note(self, series: _Series, times: NDArray[np.int64], now: int) -> int:
        """Update the interval of a series; return the number of its points with different times."""
        distinct = np.unique(times)
        fresh = distinct[distinct > series.last_ts]
        if series.last_ts:
            fresh = np.concatenate([[series.last_ts], fresh])
        series.gaps.extend(np.diff(fresh).tolist())
        series.last_ts, series.seen_at = max(series.last_ts, int(distinct[-1])), now
        series.interval_ms = interval_of(list(series.gaps))
        return len(distinct)

    def skip(self) -> None:
        """Record that the points of a period are not read; gaps then exclude the period."""
        for series in self._series.values():
            series.last_ts = 0

    def _expected(self, elapsed_ms: int, now: int) -> Iterator[tuple[Series, float]]:
        for name, series in list(self._series.items()):
            if now - series.seen_at > FORGET_MS:
                del self._series[name]
            elif series.interval_ms is not None:
                yield name, elapsed_ms / series.interval_ms

    def _quality(self, metric: str, counts: Counts) -> Quality:
        periods = self._periods.setdefault(metric, deque(maxlen=MAX_PERIODS))
        periods.append(counts)
        total = _sum(list(periods))
        complete = min(total.regular / total.expected, 1.0) if total.expected else None
        return Quality(
            points=counts.points,
            completeness=None if complete is None else round(complete, 4),
            timeliness=_rest(total.late, total.points),
            accuracy=_rest(total.outside, total.ranged),
        )


def interval_of(gaps: list[float]) -> float | None:
    """Return the interval (ms) of a series from the gaps between its points; None: irregular.

    A gap over lost points is a multiple of the interval, so up to three of four points may be lost.

    >>> interval_of([1000, 1000, 2000, 1010, 990, 3000, 1000])
    1000.0
    >>> interval_of([300, 1900, 450, 2600, 700, 1250]) is None
    True
    """
    if len(gaps) < MIN_GAPS:
        return None
    each = np.array(gaps)
    multiples = np.maximum(np.round(each / np.quantile(each, 0.25, method="lower")), 1.0)
    interval = float(np.median(each / multiples))
    is_near = np.abs(each / interval - np.round(each / interval)) < _NEAR
    return interval if is_near.mean() >= _REGULAR else None


def _by_series(points: pa.Table) -> Iterator[tuple[Series, dict[str, NDArray[np.int64]]]]:
    """Yield the points of each series as arrays."""
    if points.num_rows == 0:
        return
    names = [
        pc.dictionary_encode(pc.cast(points[name], pa.string())).combine_chunks()
        for name in ("metric", "entity")
    ]
    if isinstance(names[0], pa.ChunkedArray):
        names = [each.chunk(0) for each in names]
    metrics, entities = names
    width = max(len(entities.dictionary), 1)
    codes = metrics.indices.to_numpy() * width + entities.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    found, starts = np.unique(codes[order], return_index=True)
    columns = {name: points[name].to_numpy()[order] for name in ("ts", "value", "horizon")}
    for number, code in enumerate(found):
        rows = slice(starts[number], starts[number + 1] if number + 1 < len(starts) else None)
        series = (
            metrics.dictionary[code // width].as_py(),
            entities.dictionary[code % width].as_py(),
        )
        yield series, {name: column[rows] for name, column in columns.items()}


def _outside(values: NDArray[np.int64], limits: tuple[float, float]) -> int:
    """Return how many values are outside of a range; NaN is."""
    return int(np.count_nonzero(~((values >= limits[0]) & (values <= limits[1]))))


def _sum(counts: list[Counts]) -> Counts:
    return Counts(
        *(sum(getattr(each, name) for each in counts) for name in Counts.__dataclass_fields__)
    )


def _rest(bad: int, total: int) -> float | None:
    return round(1 - bad / total, 4) if total else None
