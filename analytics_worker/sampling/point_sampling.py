"""Sampling: selects the points that the pane of a sampled source receives; counts all other points.

Each point has a sampling key (``analytics_worker.sampling.sampling_keys``), so that a sample
depends on neither the order of points nor the bounds of batches. Points that are not selected are
counted: for each pane and stratum, a row without a value contains their number.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.plan.nodes import Pane
from analytics.plan.sampling import Bernoulli, FixedSize, NeymanAllocation
from analytics_worker.sampling.allocation import (
    Allocation,
    SamplingUnits,
    allocate_between,
    allocate_for_error,
    allocate_for_share,
)
from analytics_worker.sampling.sampling_keys import (
    Bools,
    Floats,
    Ints,
    SamplingKeys,
    sampling_keys,
    seed,
)
from mistbow.streams.schemas import DRAW


@dataclass(frozen=True, slots=True)
class UnitChance:
    """The stratum and the sampling probability of the points of a key and an entity.

    Points with values below ``low`` or above ``high`` are all selected.
    """

    stratum: str
    chance: float
    low: float = -math.inf
    high: float = math.inf


Chances = Mapping[tuple[str, str], UnitChance]
"""(key, entity) -> the chance of the points."""

EarlierChances = Callable[[Pane, int], Chances]
"""A function (pane, period) that returns the chances for the period that ends at ``period`` (ms).

The chances are computed from earlier points; the mapping is empty if there are no earlier points.
"""

_MARGIN = 0.98
"""The fraction of a share that is selected on average, to prevent random keys from exceeding the
share.
"""
_MAX_LEVEL = 1e150
_UNUSUAL = "unusual"
_FENCES = 3.0
_MIN_SPREAD = 0.01
"""The least interquartile range, relative to the median: a constant series has no fences at 0."""

_MIN_USUAL = 8
"""The least number of points from which a usual range is computed."""


def no_earlier_chances(_pane: Pane, _period: int) -> Chances:
    """Return an empty mapping: no sampling probabilities are known from an earlier period.

    Neyman allocation then selects every point, or each point with the probability ``share``.
    """
    return {}


def sample_points(
    routed: pa.Table, rows: pa.RecordBatch, pane: Pane, earlier: EarlierChances
) -> pa.Table:
    """Return the sample of a pane's points, and rows with the numbers of points not selected.

    ``rows``: the received points; ``routed``: the same points as ``ROUTED``.
    """
    sampling = pane.source.sampling
    ts = routed["ts"].to_numpy()
    point_keys = _keys_of_points(rows, pane.source.metric)
    strata = rows.column("entity").dictionary_decode()
    chance = np.ones(len(ts))
    match sampling:
        case FixedSize():
            kept = _select_lowest(routed, rows, pane, sampling, point_keys)
        case Bernoulli():
            chance = np.full(len(ts), sampling.share * _MARGIN)
            kept = point_keys < chance
        case NeymanAllocation():
            strata, chance = _allocated(routed, rows, pane, sampling, earlier)
            kept = (point_keys < chance) | (chance >= 1)
        case _:
            raise TypeError(f"{pane.id} is not sampled")
    draw = pa.StructArray.from_arrays(
        [
            strata,
            pa.array(chance),
            pa.array(point_keys),
            pa.repeat(pa.scalar(1, pa.int64()), len(ts)),
        ],
        fields=list(DRAW),
    )
    index = routed.schema.get_field_index("draw")
    whole = routed.set_column(index, routed.schema.field("draw"), draw)
    if kept.all():
        return whole
    return pa.concat_tables([whole.filter(kept), _count_left_out(whole.filter(~kept), pane)])


def stratum_chances(routed: pa.Table, pane: Pane, period: int) -> Chances:
    """Return the sampling probabilities for a period, computed from points of an earlier period.

    ``routed``: all points of the earlier period, without sampling; ``period``: the end (ms) of the
    period whose probabilities are returned.
    """
    sampling = cast("NeymanAllocation", pane.source.sampling)
    keys = routed["key"].combine_chunks().dictionary_encode()
    entities = routed["entity"].combine_chunks().dictionary_encode()
    pairs, units = np.unique(_paired(keys, entities), return_inverse=True)
    values = routed["value"].to_numpy()
    lows, highs = usual_ranges(units, values, len(pairs))
    # All unusual values are selected, so the usual ones alone determine the chances.
    usual = np.clip(values, lows[units], highs[units])
    all_units = SamplingUnits.of(units, usual, len(pairs))
    names, words = keys.dictionary.to_pylist(), entities.dictionary.to_pylist()
    key_numbers = pairs // max(len(words), 1)
    of_key = [
        indices[np.argsort(all_units.means[indices], kind="stable")]
        for indices in (np.flatnonzero(key_numbers == index) for index in range(len(names)))
    ]
    allocations = [_allocation(all_units.take(indices), sampling) for indices in of_key]
    if sampling.share is not None and sampling.max_error is None:
        units_of_key = [all_units.take(indices) for indices in of_key]
        allocations = _divided_between(allocations, units_of_key, sampling.share * _MARGIN)
    found: dict[tuple[str, str], UnitChance] = {}
    for key, indices, allocation in zip(names, of_key, allocations, strict=True):
        for unit, stratum in zip(indices.tolist(), allocation.strata.tolist(), strict=True):
            entity = words[pairs[unit] % len(words)]
            name = _stratum_name(period, stratum, float(allocation.levels[stratum]))
            found[key, entity] = UnitChance(
                name, float(allocation.chances[stratum]), float(lows[unit]), float(highs[unit])
            )
    return found


def _divided_between(
    allocations: Sequence[Allocation], units: Sequence[SamplingUnits], share: float
) -> list[Allocation]:
    """Return the allocations of several keys with more points for the keys that vary more.

    ``units``: the sampling units of each key.
    """
    strata = [
        each.merge(allocation.strata, len(allocation.chances))
        for each, allocation in zip(units, allocations, strict=True)
    ]
    together = SamplingUnits(
        *(
            np.concatenate([getattr(each, name) for each in strata])
            for name in ("counts", "means", "variances")
        )
    )
    chances = allocate_between(together, share)
    if chances is None:
        return list(allocations)
    ends = np.cumsum([len(each.counts) for each in strata])[:-1]
    parts = np.split(chances, ends)
    return [replace(each, chances=part) for each, part in zip(allocations, parts, strict=True)]


def _stratum_name(period: int, stratum: int, level: float) -> str:
    # Sums of greater levels overflow.
    return f"{period}.{stratum}@{level:.9g}" if abs(level) < _MAX_LEVEL else f"{period}.{stratum}"


def stratum_level(stratum: str) -> float:
    """Return the predicted mean of a stratum, which the stratum's name contains; NaN: no
    prediction.

    >>> stratum_level("60000.3@12.5"), stratum_level("60000")
    (12.5, nan)
    """
    _, _, level = stratum.partition("@")
    return float(level) if level else math.nan


def _allocation(units: SamplingUnits, sampling: NeymanAllocation) -> Allocation:
    """Return the allocation for ``max_error`` or for ``share``; if both are set, the larger one.

    The larger allocation selects more points.
    """
    found = []
    if sampling.max_error is not None:
        periods = sampling.periods
        found.append(allocate_for_error(units, sampling.max_error, sampling.confidence, periods))
    if sampling.share is not None:
        found.append(allocate_for_share(units, sampling.share * _MARGIN))
    return max(found, key=lambda each: float((units.counts * each.chances[each.strata]).sum()))


def _keys_of_points(rows: pa.RecordBatch, metric: str) -> Floats:
    """Return the sampling key of each point, in [0, 1]."""
    seeds = _by_word(rows.column("entity"), lambda entity: seed(metric, entity))
    others = _by_word(rows.column("attributes"), seed)
    values = rows.column("value").to_numpy().view(np.uint64)
    point_keys = sampling_keys(seeds, rows.column("ts").to_numpy(), others ^ values)
    return point_keys.astype(np.float64) / 2.0**64


def _by_word(column: pa.DictionaryArray, number: Callable[[str], int]) -> SamplingKeys:
    indices = column.indices.to_numpy()
    used, found = np.unique(indices, return_inverse=True)
    words = column.dictionary.take(pa.array(used)).to_pylist()
    return np.array([number(word) for word in words], np.uint64)[found]


def _select_lowest(
    routed: pa.Table, rows: pa.RecordBatch, pane: Pane, sampling: FixedSize, point_keys: Floats
) -> Bools:
    """Return a mask of the points with the lowest sampling keys among the given points.

    The fixed number of points is selected for each key, entity, period and closing time. Points of
    other batches may have lower keys.
    """
    keys = routed["key"].combine_chunks().dictionary_encode()
    periods = period_ends(routed["ts"].to_numpy(), sampling.period_ms)
    # Late points arrive after the sample of the other points was drawn.
    closing = np.maximum(periods, period_ends(routed["due"].to_numpy(), pane.width_ms))
    groups = [_paired(keys, rows.column("entity")), periods, closing]
    return select_lowest_keys(groups, point_keys, rows.column("value").to_numpy(), sampling.size)


def select_lowest_keys(groups: list[Ints], point_keys: Floats, values: Floats, size: int) -> Bools:
    """Return a mask of the ``size`` points with the lowest sampling keys in each group.

    Rows with equal integers in all arrays of ``groups`` are a group. Equal keys are ordered by
    value.
    """
    order = np.lexsort((values, point_keys, *groups))
    new = np.ones(len(order), np.bool_)
    if len(order) > 1:
        new[1:] = np.logical_or.reduce([np.diff(group[order]) != 0 for group in groups])
    starts = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    chosen = np.zeros(len(order), np.bool_)
    chosen[order] = np.arange(len(order)) - starts < size
    return chosen


def _allocated(
    routed: pa.Table,
    rows: pa.RecordBatch,
    pane: Pane,
    sampling: NeymanAllocation,
    earlier: EarlierChances,
) -> tuple[pa.Array, Floats]:
    periods = period_ends(routed["ts"].to_numpy(), sampling.period_ms)
    values = routed["value"].to_numpy()
    keys = routed["key"].combine_chunks().dictionary_encode()
    entities = rows.column("entity")
    names, words = keys.dictionary.to_pylist(), entities.dictionary.to_pylist()
    pairs = _paired(keys, entities)
    strata = np.empty(len(pairs), object)
    chances = np.ones(len(pairs))
    for period in np.unique(periods).tolist():
        indices = np.flatnonzero(periods == period)
        # Nothing is known of a new entity: a bound needs all of its points.
        otherwise = UnitChance(
            f"{period}", 1.0 if sampling.max_error else (sampling.share or 1.0) * _MARGIN
        )
        known = earlier(pane, period)
        used, found = np.unique(pairs[indices], return_inverse=True)
        units = [
            known.get((names[pair // len(words)], words[pair % len(words)]), otherwise)
            for pair in used.tolist()
        ]
        strata[indices] = np.array([unit.stratum for unit in units], object)[found]
        chances[indices] = np.array([unit.chance for unit in units])[found]
        lows, highs = (np.array(each)[found] for each in _bounds(units))
        unusual = indices[(values[indices] < lows) | (values[indices] > highs)]
        strata[unusual], chances[unusual] = f"{period}.{_UNUSUAL}", 1.0
    return pa.array(strata, pa.string()), chances


def _bounds(units: Sequence[UnitChance]) -> tuple[list[float], list[float]]:
    return [unit.low for unit in units], [unit.high for unit in units]


def usual_ranges(units: Ints, values: Floats, number: int) -> tuple[Floats, Floats]:
    """Return the least and the greatest usual value of each of ``number`` sampling units.

    ``units``: the unit of each value; each unit has a value. A usual value is within Tukey's outer
    fences, at most three interquartile ranges outside the quartiles (Tukey, "Exploratory Data
    Analysis", 1977), but at least ``_MIN_SPREAD``. Units with few values have no bounds.
    """
    counts = np.bincount(units, minlength=number)
    ordered = values[np.lexsort((values, units))]
    starts = np.cumsum(counts) - counts

    def quantiles(share: float) -> Floats:
        found: Floats = ordered[starts + np.floor(share * (counts - 1)).astype(np.int64)]
        return found

    first, middle, third = quantiles(0.25), quantiles(0.5), quantiles(0.75)
    reach = _FENCES * np.maximum(third - first, np.abs(middle) * _MIN_SPREAD)
    has_range = counts >= _MIN_USUAL
    lows = np.where(has_range, first - reach, -np.inf)
    highs = np.where(has_range, third + reach, np.inf)
    return lows, highs


def _paired(one: pa.DictionaryArray, other: pa.DictionaryArray) -> Ints:
    """Return an integer for each row; rows with equal pairs of values have equal integers."""
    first = one.indices.to_numpy().astype(np.int64)
    pairs: Ints = first * max(len(other.dictionary), 1) + other.indices.to_numpy()
    return pairs


def _count_left_out(rows: pa.Table, pane: Pane) -> pa.Table:
    """Return rows with the numbers and the extreme values of unselected points.

    There are two rows for each pane, key, stratum, chance and closing time. In the row with the
    number (``seen``), ``lot`` is the greatest value; in the row without points, it is the least.
    """
    grouped = pa.table(
        {
            "route": rows["route"],
            "key": rows["key"],
            "stratum": pc.struct_field(rows["draw"], "stratum"),
            "chance": pc.struct_field(rows["draw"], "chance"),
            "pane": period_ends(rows["ts"].to_numpy(), pane.width_ms),
            "closing": period_ends(rows["due"].to_numpy(), pane.width_ms),
            "ts": rows["ts"],
            "due": rows["due"],
            "value": rows["value"],
        }
    )
    by = ["route", "key", "stratum", "chance", "pane", "closing"]
    found = grouped.group_by(by, use_threads=False).aggregate(
        [("ts", "max"), ("due", "max"), ("ts", "count"), ("value", "max"), ("value", "min")]
    )
    greatest = _left_out(rows, found, found["value_max"], found["ts_count"])
    none_seen = pa.repeat(pa.scalar(0, pa.int64()), found.num_rows)
    return pa.concat_tables([greatest, _left_out(rows, found, found["value_min"], none_seen)])


def _left_out(
    rows: pa.Table, found: pa.Table, extreme: pa.ChunkedArray, seen: pa.Array
) -> pa.Table:
    """Return rows that represent ``seen`` unselected points each; ``extreme``: their ``lot``."""
    number = found.num_rows
    draw = pa.StructArray.from_arrays(
        [
            found["stratum"].combine_chunks(),
            found["chance"].combine_chunks(),
            _combined(extreme),
            _combined(seen),
        ],
        fields=list(DRAW),
    )
    columns = {
        "route": found["route"],
        "key": found["key"],
        "ts": found["ts_max"],
        "due": found["due_max"],
        "value": pa.nulls(number, pa.float64()),
        "entity": pa.nulls(number, pa.string()),
        "draw": draw,
    }
    return pa.table([columns[name] for name in rows.column_names], schema=rows.schema)


def _combined(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def period_ends(times: Ints, width_ms: int | Ints) -> Ints:
    """Return, for each time, the end of the period of ``width_ms`` that contains the time.

    >>> period_ends(np.array([1000, 1001, 2000]), 1000).tolist()
    [1000, 2000, 2000]
    """
    return -(-times // width_ms) * width_ms
