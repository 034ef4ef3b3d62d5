"""Random streams of points: late, out of order, with pauses and bursts; keys appear and vanish."""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
from hypothesis import strategies as st

from mistbow.streams.json_numbers import STALE
from tests.oracle.sql import POINTS
from tests.support.points import Row, points

END_MS = 24_000
"""The greatest time (ms) of a point."""

UNTIL_MS = END_MS + 70_000
"""The last tick (ms) that is compared with the oracle: the greatest end of a window that contains a
point. Only functions of values of ticks have later results.
"""

_LATENESS_MS = 1000
_BATCH_MS = 4000

METRICS = ("x", "y", "z")
ENTITIES = ("e1", "e2", "e3", "e4")
ATTRIBUTES = frozenset({"rack", "zone", "spare"})
"""The attributes of points that are labels."""

Attributes = dict[str, str | float | bool]


@dataclass(frozen=True)
class Series:
    """The parameters of an entity's points: times, delays and values.

    The points are ``step_ms`` apart from ``start`` to ``end``, with a pause (``idle``). Some points
    are delayed by ``delay_ms``. At ``burst_at``, unless it is 0, twelve points follow closely.
    Finite values are multiples of 0.25, so that their sums are exact in any order.
    """

    entity: str
    attributes: tuple[tuple[str, str | float | bool], ...]
    metrics: tuple[str, ...]
    start: int
    end: int
    step_ms: int
    jitter_ms: int
    idle: tuple[int, int]
    burst_at: int
    delay_ms: int
    values: str
    seed: int


@dataclass(frozen=True)
class Arrival:
    """A point, and the time at which it arrives (ms)."""

    at: int
    row: Row


@dataclass(frozen=True)
class Stream:
    """The points of some series, in the order of their arrival."""

    series: tuple[Series, ...]

    @cached_property
    def arrivals(self) -> tuple[Arrival, ...]:
        """All points with their times of arrival, sorted by these times."""
        arrivals = [each for one in self.series for each in _arrivals(one)]
        return tuple(sorted(arrivals, key=lambda each: each.at))

    @property
    def rows(self) -> list[Row]:
        """All points in the order of their arrival."""
        return [each.row for each in self.arrivals]

    @property
    def come(self) -> list[Row]:
        """All points in the order of their arrival; a late point contains ``frontier_before``.

        The frontier before is the frontier that the stream had when the batch with the point
        arrived.
        """
        return [row for rows, _ in self.batches() for row in rows]

    def batches(self) -> Iterator[tuple[list[Row], int]]:
        """Yield batches: the points that arrive together, and the frontier (ms) after these points.

        ``frontier_before`` of a late point is the frontier that the stream had before the batch;
        other points have -1.
        """
        frontier, newest, waiting = -1, -1, list(self.arrivals)
        until = 0
        while waiting:
            until += _BATCH_MS
            come = [each.row for each in waiting if each.at <= until]
            waiting = [each for each in waiting if each.at > until]
            rows = [
                replace(row, frontier_before=frontier if row.ts <= frontier else -1) for row in come
            ]
            newest = max([newest, *(row.ts for row in rows)])
            frontier = max(frontier, newest - _LATENESS_MS)
            if rows:
                yield rows, frontier


def table(rows: list[Row]) -> pa.Table:
    """Return points as the table (``POINTS``) that the oracle reads."""
    return pa.Table.from_batches([points(rows)]).cast(POINTS)


def _values(kind: str, chance: random.Random) -> Iterator[float]:
    value = 0.0
    while True:
        match kind:
            case "constant":
                yield 7.0
            case "whole":
                yield float(chance.randint(-3, 9))
            case "positive":
                yield chance.randint(1, 400) / 4
            case "odd":
                odd = (math.nan, math.inf, -math.inf, STALE)
                yield chance.choice(odd) if chance.random() < 0.3 else chance.randint(-9, 9) / 4
            case "walk":
                value += chance.randint(-8, 8) / 4
                yield value
            case _:
                yield chance.randint(-1000, 1000) / 4


def _arrivals(series: Series) -> Iterator[Arrival]:
    chance = random.Random(series.seed)  # noqa: S311 - drawn by Hypothesis
    values = _values(series.values, chance)
    times = list(range(series.start, series.end, series.step_ms))
    times += [series.burst_at + 7 * number for number in range(12) if series.burst_at]
    first, last = series.idle
    for time in times:
        ts = time + chance.randint(0, series.jitter_ms)
        if first <= ts < last or not 0 < ts <= END_MS:
            continue
        delay = series.delay_ms if chance.random() < 0.3 else chance.randint(0, 400)
        for metric in series.metrics:
            if chance.random() < 0.9:
                row = Row(metric, series.entity, ts, next(values), -1, dict(series.attributes))
                yield Arrival(ts + delay, row)


_LOCATIONS: tuple[Attributes, ...] = (
    {"node": "n1", "site": "s1", "region": "north"},
    {"node": "n2", "site": "s1", "region": "north"},
    {"node": "n3", "site": "s2", "region": "south"},
)
_labels = st.fixed_dictionaries(
    {},
    optional={
        "rack": st.sampled_from([1.0, 2.0, 2.5, "r", "2", "2.0"]),
        "zone": st.sampled_from(["a", "b", "r"]),
        "spare": st.booleans(),
    },
)
_attributes = st.builds(
    lambda location, labels: tuple(sorted({**location, **labels}.items())),
    st.sampled_from(_LOCATIONS),
    _labels,
)
_half_seconds = st.integers(0, END_MS // 500).map(lambda number: 500 * number)
_series = st.builds(
    Series,
    entity=st.sampled_from(ENTITIES),
    attributes=_attributes,
    metrics=st.sampled_from([("x", "y"), ("x", "y", "z"), ("x",), ("y",), ("x", "z")]),
    start=st.sampled_from([0, 0, 250, 3000, 9001]),
    end=st.sampled_from([END_MS, END_MS, 8000, 15_500]),
    step_ms=st.sampled_from([250, 500, 1000, 1000, 1700, 6000]),
    jitter_ms=st.sampled_from([0, 0, 3, 240]),
    idle=st.tuples(_half_seconds, _half_seconds),
    burst_at=st.just(0) | _half_seconds,
    delay_ms=st.sampled_from([0, 0, 900, 3000, 9000]),
    values=st.sampled_from(["quarters", "constant", "whole", "positive", "walk", "odd"]),
    seed=st.integers(0, 2**32),
)
_steady = _series.map(
    lambda one: replace(one, start=0, end=END_MS, idle=(0, 0), metrics=METRICS, step_ms=1000)
)
streams = st.builds(
    lambda steady, others: Stream((*steady, *others)),
    st.lists(_steady, min_size=1, max_size=2),
    st.lists(_series, min_size=2, max_size=5),
)
"""A strategy of streams with some hundred points each, from 0 to ``END_MS``."""
