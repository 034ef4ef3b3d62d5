"""Estimates of functions over windows of a sampled source, with bounds for some functions.

A stratum consists of the points of one entity in the window. With Neyman allocation, a stratum
consists of the window's points that were sampled in the same period with the same probability. The
number of points of each stratum is exact, whatever the size of the sample; see
``analytics_worker.sampling.estimators``.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.plan.functions import Function
from analytics.plan.sampling import FixedSize, NeymanAllocation, ProbabilitySampling
from analytics_worker.evaluate.finalize import FunctionValues
from analytics_worker.sampling.allocation import MIN_STRATUM_POINTS
from analytics_worker.sampling.estimators import Estimate, Sample, mean, total
from analytics_worker.sampling.point_sampling import period_ends, select_lowest_keys, stratum_level
from analytics_worker.sampling.sampling_keys import Bools, Floats, Ints

_NO_ESTIMATE = Estimate(math.nan, None, None, 0.0)
_MIN_SAMPLED = 2
"""The least number of sampled points from which the variance of a stratum can be estimated."""
_MIN_EXPECTED = 0.75 * MIN_STRATUM_POINTS
"""The least expected number of sampled points of a stratum; a smaller stratum is merged with a
stratum of similar level. The factor tolerates strata of complete periods that have slightly fewer
points than planned.
"""


@dataclass(frozen=True, slots=True, eq=False)
class _SampledWindow:
    """The rows (``SAMPLED_POINT``) of one window, as arrays.

    A row is a sampled point, or represents several points that were not sampled (``values``: NaN).
    ``strata``: the number of the row's stratum. ``levels``: the predicted mean of this stratum; NaN
    without a prediction. ``chances``: the sampling probabilities. ``seen``: the number of points
    that the row represents. ``lots``: the sampling key of a sampled point; otherwise the greatest
    value of the represented points, or, if ``seen`` is 0, the least value of those of another row.
    """

    ts: Ints
    values: Floats
    strata: Ints
    levels: Floats
    chances: Floats
    lots: Floats
    seen: Ints


def finalize_sample(
    function: Function, rows: pa.Table, sampling: ProbabilitySampling
) -> FunctionValues:
    """Return an estimate of a function (COUNT, SUM, AVG, MIN or MAX) for each sampled window.

    The list ``values`` contains ``few_points`` of the estimate, if it has a value.
    """
    estimates = [
        _estimate(function, _sample(window, sampling), sampling)
        for window in _windows(rows, sampling)
    ]
    return FunctionValues(
        pa.array([one.value for one in estimates], pa.float64()),
        values=pa.array(
            [None if one.few_points is None else [float(one.few_points)] for one in estimates],
            pa.list_(pa.float64()),
        ),
        low=pa.array([one.low for one in estimates], pa.float64()),
        high=pa.array([one.high for one in estimates], pa.float64()),
        confidence=pa.array(
            [None if one.low is None else one.confidence for one in estimates], pa.float64()
        ),
    )


def _estimate(function: Function, sample: Sample, sampling: ProbabilitySampling) -> Estimate:
    if function == "COUNT":
        return Estimate(sample.seen, sample.seen, sample.seen, sampling.confidence)
    if not len(sample.values):
        return _NO_ESTIMATE
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
            raise TypeError(f"there is no estimate of {function}")


def _sample(window: _SampledWindow, sampling: ProbabilitySampling) -> Sample:
    """Return the sampled points of a window.

    Strata with few sampled points are merged, since their variance could not be estimated.
    """
    # A window may omit points of the sample: the values of these points are extremes too.
    extremes = np.where(np.isnan(window.values), window.lots, window.values)
    kept = ~np.isnan(window.values)
    if isinstance(sampling, FixedSize):
        periods = period_ends(window.ts, sampling.period_ms)
        _, strata = np.unique(np.stack([periods, window.strata]), axis=1, return_inverse=True)
        indices = np.flatnonzero(kept)
        groups = [strata.ravel()[indices]]
        chosen = select_lowest_keys(
            groups, window.lots[indices], window.values[indices], sampling.size
        )
        kept[indices[~chosen]] = False
    else:
        strata = _merged_strata(window, kept)
    strata = strata.ravel()
    counts = np.bincount(strata, weights=window.seen).astype(np.int64)
    levels = _levels(window, strata)
    lows, highs = _extremes(extremes - levels, strata, kept)
    return Sample(
        counts,
        strata[kept],
        window.values[kept],
        window.chances[kept],
        levels[kept],
        float(levels @ window.seen),
        lows,
        highs,
    )


def _extremes(deviations: Floats, strata: Ints, kept: Bools) -> tuple[Floats, Floats]:
    """Return the least and the greatest deviation of the unused points of each stratum.

    NaN: the deviation is unknown, or all points of the stratum are used. ``deviations``: the
    deviation of the value of each row, or of the extreme value in ``lot`` if the row has no value.
    """
    size = int(strata.max(initial=-1)) + 1
    lows, highs = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(lows, strata[~kept], deviations[~kept])
    np.maximum.at(highs, strata[~kept], deviations[~kept])
    # A row of an earlier version has no extreme: then NaN, which these functions pass on.
    lows[~np.isfinite(lows)] = highs[~np.isfinite(highs)] = math.nan
    return lows, highs


def _merged_strata(window: _SampledWindow, kept: Bools) -> Ints:
    """Return the stratum of each row, after merging similar strata with few expected points.

    Sliding windows contain parts of periods, and therefore parts of the strata of the periods. A
    small part with a level is merged with the part of the nearest level, also across periods. Small
    parts without a level are merged if they have the same sampling probability. Whether a part is
    small depends on the expected number of points, since the actual number would bias the estimate.
    """
    parts = np.stack([window.chances, window.strata.astype(np.float64)])
    distinct, first, strata = np.unique(parts, axis=1, return_index=True, return_inverse=True)
    strata = strata.ravel()
    levels = window.levels[first]
    expected = np.bincount(strata, weights=window.seen) * distinct[0]
    # Complete strata come first: they have no neighbours, and are the last to be merged with.
    groups = np.where(distinct[0] >= 1, -1 - np.arange(len(expected)), 0)
    no_level = np.flatnonzero((distinct[0] < 1) & np.isnan(levels))
    groups[no_level] = _pool_by_chance(distinct[0][no_level], expected[no_level])
    known = np.flatnonzero((distinct[0] < 1) & ~np.isnan(levels))
    known = known[np.argsort(levels[known], kind="stable")]
    groups[known] = 2 * len(expected) + _pool_by_level(levels[known], expected[known])
    _, groups = np.unique(groups, return_inverse=True)
    strata = groups[strata]
    counts = np.bincount(strata, weights=window.seen).astype(np.int64)
    numbers = np.bincount(strata[kept], minlength=len(counts)).astype(np.int64)
    return _merge_small(counts, numbers)[strata]


def _pool_by_chance(chances: Floats, expected: Floats) -> Ints:
    """Return a group number for each part of a stratum.

    Small parts with equal sampling probabilities (``chances``) get the same number.
    """
    _, pools = np.unique(chances, return_inverse=True)
    return np.where(expected < MIN_STRATUM_POINTS, pools, len(pools) + np.arange(len(pools)))


def _pool_by_level(levels: Floats, expected: Floats) -> Ints:
    """Return a group number for each part of a stratum (see ``_merged_strata``).

    A small part gets the number of the part with the nearest level. ``levels``: the level of each
    part, in ascending order. ``expected``: the expected number of points of each part.
    """
    groups = np.arange(len(levels))
    sizes = expected.copy()
    for index in np.argsort(np.diff(levels), kind="stable").tolist():
        low, high = groups[index], groups[index + 1]
        if min(sizes[low], sizes[high]) < _MIN_EXPECTED:
            groups[groups == high] = low
            sizes[low] += sizes[high]
    return groups


def _levels(window: _SampledWindow, strata: Ints) -> Floats:
    """Return a prediction for each row: the level of the stratum from which the row was sampled.

    Merged strata have different means, but similar distances from their predictions, so merging
    loses little precision with predictions. If all rows of a merged stratum have the same level,
    the prediction is 0, since a constant prediction would have no effect.
    """
    size = int(strata.max(initial=-1)) + 1
    low, high = np.full(size, np.inf), np.full(size, -np.inf)
    np.fmin.at(low, strata, window.levels)
    np.fmax.at(high, strata, window.levels)
    known = ~np.isnan(window.levels)
    seen = np.bincount(strata[known], weights=window.seen[known], minlength=size)
    sums = np.bincount(strata[known], weights=(window.levels * window.seen)[known], minlength=size)
    means = sums / np.maximum(seen, 1)
    predicted = np.where(known, window.levels, means[strata])
    return np.where((low < high)[strata], predicted, 0.0)


def _merge_small(counts: Ints, kept: Ints) -> Ints:
    """Return a new number for each stratum; a small stratum shares the number of the next stratum.

    ``counts``, ``kept``: the number of all points and of sampled points of each stratum.
    """
    found = np.zeros(len(counts), np.int64)
    number = seen = sampled = 0
    for index, (there, here) in enumerate(zip(counts.tolist(), kept.tolist(), strict=True)):
        found[index] = number
        seen, sampled = seen + there, sampled + here
        if sampled >= _MIN_SAMPLED or sampled == seen:
            number, seen, sampled = number + 1, 0, 0
    return np.minimum(found, max(number - 1, 0))


def _windows(rows: pa.Table, sampling: ProbabilitySampling) -> Iterator[_SampledWindow]:
    lists = rows["sample"].combine_chunks()
    values = lists.values
    fields = {
        name: pc.struct_field(values, name) for name in ("ts", "value", "chance", "lot", "seen")
    }
    strata = pc.struct_field(values, "stratum").dictionary_encode()
    # Sorted by name: the same rows in another order yield the same.
    names, numbers = np.unique(np.array(strata.dictionary.to_pylist(), str), return_inverse=True)
    indices = numbers.astype(np.int64)[strata.indices.to_numpy(zero_copy_only=False)]
    # Strata of other kinds of sampling are named by entities.
    has_levels = isinstance(sampling, NeymanAllocation)
    levels = np.array([stratum_level(name) if has_levels else math.nan for name in names.tolist()])
    columns = [
        fields["ts"].to_numpy(zero_copy_only=False),
        fields["value"].to_numpy(zero_copy_only=False),
        indices,
        levels[indices],
        fields["chance"].to_numpy(zero_copy_only=False),
        fields["lot"].to_numpy(zero_copy_only=False),
        fields["seen"].to_numpy(zero_copy_only=False),
    ]
    for start, end in itertools.pairwise(lists.offsets.to_numpy()):
        yield _SampledWindow(*(column[start:end] for column in columns))
