"""What functions say of windows over a sampled source: estimates, with bounds where there are any.

The strata of a window are its entities, or what was kept with the same chance in a period. How many
points each had is known, whatever is kept of them; see ``mistbow.sampling.weighted``.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics_worker.finishing import Finished
from mistbow.panes.thinning import ends, lowest
from mistbow.plan.expressions import Function
from mistbow.plan.sampling import ByLot, Fixed
from mistbow.sampling.allotting import LEAST
from mistbow.sampling.lots import Bools, Floats, Ints
from mistbow.sampling.weighted import Estimate, Sample, mean, total

_NOTHING = Estimate(math.nan, None, None, 0.0)
_SAYING = 2
"""With fewer kept points, a stratum does not say how it varies."""


@dataclass(frozen=True, slots=True, eq=False)
class _Drawn:
    """The rows (``DRAWN``) of one window; strata are numbers, and values NaN where left out."""

    ts: Ints
    values: Floats
    strata: Ints
    chances: Floats
    lots: Floats
    seen: Ints


def finish_sample(function: Function, rows: pa.Table, sampling: ByLot) -> Finished:
    """Return what a function of count, sum, least or greatest says of sampled windows."""
    said = [_estimate(function, _sample(drawn, sampling), sampling) for drawn in _windows(rows)]
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
    return Sample(counts, strata[kept], drawn.values[kept])


def _told_apart(drawn: _Drawn, kept: Bools) -> Ints:
    """Return the stratum of each row: of what was kept with the same chance, few points are one."""
    alike = np.stack([drawn.chances, drawn.strata.astype(np.float64)])
    told, strata = np.unique(alike, axis=1, return_inverse=True)
    strata = strata.ravel()
    counts = np.bincount(strata, weights=drawn.seen)
    few = counts * told[0] < LEAST
    _, pools = np.unique(told[0], return_inverse=True)
    _, strata = np.unique(
        np.where(few, pools, len(pools) + np.arange(len(counts)))[strata], return_inverse=True
    )
    counts = np.bincount(strata, weights=drawn.seen).astype(np.int64)
    numbers = np.bincount(strata[kept], minlength=len(counts)).astype(np.int64)
    return _joined(counts, numbers)[strata]


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


def _windows(rows: pa.Table) -> Iterator[_Drawn]:
    lists = rows["sample"].combine_chunks()
    values = lists.values
    fields = {
        name: pc.struct_field(values, name) for name in ("ts", "value", "chance", "lot", "seen")
    }
    strata = pc.struct_field(values, "stratum").dictionary_encode().indices
    columns = [
        fields["ts"].to_numpy(zero_copy_only=False),
        fields["value"].to_numpy(zero_copy_only=False),
        strata.to_numpy(zero_copy_only=False),
        fields["chance"].to_numpy(zero_copy_only=False),
        fields["lot"].to_numpy(zero_copy_only=False),
        fields["seen"].to_numpy(zero_copy_only=False),
    ]
    for start, end in itertools.pairwise(lists.offsets.to_numpy()):
        yield _Drawn(*(column[start:end] for column in columns))
