"""What functions say of windows over a sampled source: estimates, with bounds where there are any.

The strata of a window are its entities, or what was kept with the same chance in a period, or the
parts of it that are in the window. How many points each had is known, whatever is kept of them; see
``mistbow.sampling.weighted``.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics_worker.finishing import Finished
from mistbow.panes.thinning import ends, level_of, lowest
from mistbow.plan.expressions import Function
from mistbow.plan.sampling import Allotted, ByLot, Fixed
from mistbow.sampling.allotting import LEAST
from mistbow.sampling.lots import Bools, Floats, Ints
from mistbow.sampling.weighted import Estimate, Sample, mean, total

_NOTHING = Estimate(math.nan, None, None, 0.0)
_SAYING = 2
"""With fewer kept points, a stratum does not say how it varies."""
_ENOUGH = 0.75 * LEAST
"""Of a whole period's stratum, as many as planned may be kept or, as points come, some fewer."""


@dataclass(frozen=True, slots=True, eq=False)
class _Drawn:
    """The rows (``DRAWN``) of one window; strata are numbers, and values NaN where left out.

    ``levels``: the mean that a row's stratum was foretold to have, NaN where none was.
    """

    ts: Ints
    values: Floats
    strata: Ints
    levels: Floats
    chances: Floats
    lots: Floats
    seen: Ints


def finish_sample(function: Function, rows: pa.Table, sampling: ByLot) -> Finished:
    """Return what a function of count, sum, least or greatest says of sampled windows."""
    said = [
        _estimate(function, _sample(drawn, sampling), sampling)
        for drawn in _windows(rows, sampling)
    ]
    return Finished(
        pa.array([one.value for one in said], pa.float64()),
        low=pa.array([one.low for one in said], pa.float64()),
        high=pa.array([one.high for one in said], pa.float64()),
        confidence=pa.array(
            [None if one.low is None else one.confidence for one in said], pa.float64()
        ),
    )


def _estimate(function: Function, sample: Sample, sampling: ByLot) -> Estimate:
    if function == "COUNT":
        return Estimate(sample.seen, sample.seen, sample.seen, sampling.confidence)
    if not len(sample.values):
        return _NOTHING
    match function:
        case "SUM":
            return total(sample, sampling.confidence)
        case "AVG":
            return mean(sample, sampling.confidence)
        case "MIN":
            return Estimate(float(sample.values.min()), None, None, sampling.confidence)
        case "MAX":
            return Estimate(float(sample.values.max()), None, None, sampling.confidence)
        case _:
            raise TypeError(f"{function} is not estimated")


def _sample(drawn: _Drawn, sampling: ByLot) -> Sample:
    """Return the points of a window that are kept in the end, by strata that say how they vary."""
    kept = ~np.isnan(drawn.values)
    if isinstance(sampling, Fixed):
        periods = ends(drawn.ts, sampling.period_ms)
        _, strata = np.unique(np.stack([periods, drawn.strata]), axis=1, return_inverse=True)
        places = np.flatnonzero(kept)
        groups = [strata.ravel()[places]]
        chosen = lowest(groups, drawn.lots[places], drawn.values[places], sampling.size)
        kept[places[~chosen]] = False
    else:
        strata = _told_apart(drawn, kept)
    strata = strata.ravel()
    counts = np.bincount(strata, weights=drawn.seen).astype(np.int64)
    levels = _levels(drawn, strata)
    return Sample(
        counts,
        strata[kept],
        drawn.values[kept],
        drawn.chances[kept],
        levels[kept],
        float(levels @ drawn.seen),
    )


def _told_apart(drawn: _Drawn, kept: Bools) -> Ints:
    """Return the stratum of each row: where few points should be kept, those alike are one.

    In windows that slide, there are parts of periods, and so of their strata. They are joined by
    level, be they of the same period or not; what has no level, if it has the same chance. By what
    should be kept, not by what is, since that would prefer some samples.
    """
    alike = np.stack([drawn.chances, drawn.strata.astype(np.float64)])
    told, first, strata = np.unique(alike, axis=1, return_index=True, return_inverse=True)
    strata = strata.ravel()
    levels = drawn.levels[first]
    expected = np.bincount(strata, weights=drawn.seen) * told[0]
    # What is whole comes first: it is no neighbour, and the last that others are joined to.
    groups = np.where(told[0] >= 1, -1 - np.arange(len(expected)), 0)
    unknown = np.flatnonzero((told[0] < 1) & np.isnan(levels))
    groups[unknown] = _pooled(told[0][unknown], expected[unknown])
    known = np.flatnonzero((told[0] < 1) & ~np.isnan(levels))
    known = known[np.argsort(levels[known], kind="stable")]
    groups[known] = 2 * len(expected) + _neighbours(levels[known], expected[known])
    _, groups = np.unique(groups, return_inverse=True)
    strata = groups[strata]
    counts = np.bincount(strata, weights=drawn.seen).astype(np.int64)
    numbers = np.bincount(strata[kept], minlength=len(counts)).astype(np.int64)
    return _joined(counts, numbers)[strata]


def _pooled(chances: Floats, expected: Floats) -> Ints:
    """Return a number for each part of a stratum: few points with the same chance have the same."""
    _, pools = np.unique(chances, return_inverse=True)
    return np.where(expected < LEAST, pools, len(pools) + np.arange(len(pools)))


def _neighbours(levels: Floats, expected: Floats) -> Ints:
    """Return a number for each part of a stratum, sorted by level: few points join the nearest."""
    groups = np.arange(len(levels))
    held = expected.copy()
    for place in np.argsort(np.diff(levels), kind="stable").tolist():
        low, high = groups[place], groups[place + 1]
        if min(held[low], held[high]) < _ENOUGH:
            groups[groups == high] = low
            held[low] += held[high]
    return groups


def _levels(drawn: _Drawn, strata: Ints) -> Floats:
    """Return what rows of mixed strata were foretold to be; 0 elsewhere, where it does not matter.

    How far values are from it is alike where values are not, in neighbouring strata and in those of
    periods that were divided otherwise: so little is lost where they are mixed.
    """
    size = int(strata.max(initial=-1)) + 1
    low, high = np.full(size, np.inf), np.full(size, -np.inf)
    np.fmin.at(low, strata, drawn.levels)
    np.fmax.at(high, strata, drawn.levels)
    known = ~np.isnan(drawn.levels)
    seen = np.bincount(strata[known], weights=drawn.seen[known], minlength=size)
    sums = np.bincount(strata[known], weights=(drawn.levels * drawn.seen)[known], minlength=size)
    means = sums / np.maximum(seen, 1)
    foretold = np.where(known, drawn.levels, means[strata])
    return np.where((low < high)[strata], foretold, 0.0)


def _joined(counts: Ints, kept: Ints) -> Ints:
    """Return a number for each stratum; that of which chance kept too few has that of the next."""
    found = np.zeros(len(counts), np.int64)
    number = seen = held = 0
    for place, (there, here) in enumerate(zip(counts.tolist(), kept.tolist(), strict=True)):
        found[place] = number
        seen, held = seen + there, held + here
        if held >= _SAYING or held == seen:
            number, seen, held = number + 1, 0, 0
    return np.minimum(found, max(number - 1, 0))


def _windows(rows: pa.Table, sampling: ByLot) -> Iterator[_Drawn]:
    lists = rows["sample"].combine_chunks()
    values = lists.values
    fields = {
        name: pc.struct_field(values, name) for name in ("ts", "value", "chance", "lot", "seen")
    }
    strata = pc.struct_field(values, "stratum").dictionary_encode()
    # By name, not as they come: the same rows in another order say the same.
    words, numbers = np.unique(np.array(strata.dictionary.to_pylist(), str), return_inverse=True)
    places = numbers.astype(np.int64)[strata.indices.to_numpy(zero_copy_only=False)]
    # Of others than these, strata are named after entities.
    told = isinstance(sampling, Allotted)
    levels = np.array([level_of(word) if told else math.nan for word in words.tolist()])
    columns = [
        fields["ts"].to_numpy(zero_copy_only=False),
        fields["value"].to_numpy(zero_copy_only=False),
        places,
        levels[places],
        fields["chance"].to_numpy(zero_copy_only=False),
        fields["lot"].to_numpy(zero_copy_only=False),
        fields["seen"].to_numpy(zero_copy_only=False),
    ]
    for start, end in itertools.pairwise(lists.offsets.to_numpy()):
        yield _Drawn(*(column[start:end] for column in columns))
