"""Thinning: which points of a sampled source go to its pane, and how many are left out.

Each point draws a lot (``mistbow.sampling.lots``), so that what is kept depends on neither
the order of points nor the bounds of batches. What is left out goes on as a number: a row without
a value for all that belong together.
"""

import math
from collections.abc import Callable, Mapping
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mistbow.plan.nodes import Pane
from mistbow.plan.sampling import Allotted, Even, Fixed
from mistbow.sampling.allotting import Allotment, Units, for_error, for_share
from mistbow.sampling.lots import Bools, Floats, Ints, Lots, lots, seed_of
from mistbow.streams.schemas import DRAW

Chances = Mapping[tuple[str, str], tuple[str, float]]
"""The stratum and the chance of what has a key and an entity."""

Earlier = Callable[[Pane, int], Chances]
"""What the points before the period that ends at a time tell of it; nothing where none are."""

_BELOW = 0.98
"""So much of a share is kept, for no more than the share to be kept whatever the lots."""
_GREATEST = 1e150


def nothing_earlier(_pane: Pane, _period: int) -> Chances:
    """Know nothing: what is allotted is kept whole, or by its share."""
    return {}


def thinned(routed: pa.Table, rows: pa.RecordBatch, pane: Pane, earlier: Earlier) -> pa.Table:
    """Return what is kept of a sampled pane's points, and rows for what is not.

    ``rows`` are the points as they came, and ``routed`` (``ROUTED``) the same ones.
    """
    sampling = pane.source.sampling
    ts = routed["ts"].to_numpy()
    drawn = _drawn(rows, pane.source.metric)
    strata = rows.column("entity").dictionary_decode()
    chance = np.ones(len(ts))
    match sampling:
        case Fixed():
            kept = _lowest(routed, rows, pane, sampling, drawn)
        case Even():
            chance = np.full(len(ts), sampling.share * _BELOW)
            kept = drawn < chance
        case Allotted():
            strata, chance = _allotted(routed, rows, pane, sampling, earlier)
            kept = (drawn < chance) | (chance >= 1)
        case _:
            raise TypeError(f"{pane.id} is not sampled")
    draw = pa.StructArray.from_arrays(
        [strata, pa.array(chance), pa.array(drawn), pa.repeat(pa.scalar(1, pa.int64()), len(ts))],
        fields=list(DRAW),
    )
    place = routed.schema.get_field_index("draw")
    whole = routed.set_column(place, routed.schema.field("draw"), draw)
    if kept.all():
        return whole
    return pa.concat_tables([whole.filter(kept), _left_out(whole.filter(~kept), pane)])


def chances_of(routed: pa.Table, pane: Pane, period: int) -> Chances:
    """Return the chances for an allotted period that follow from the points of an earlier one.

    ``routed`` are all of these, not thinned; ``period``: when the one to come ends, in ms.
    """
    sampling = cast("Allotted", pane.source.sampling)
    keys = routed["key"].combine_chunks().dictionary_encode()
    entities = routed["entity"].combine_chunks().dictionary_encode()
    pairs, units = np.unique(_paired(keys, entities), return_inverse=True)
    all_units = Units.of(units, routed["value"].to_numpy(), len(pairs))
    names, words = keys.dictionary.to_pylist(), entities.dictionary.to_pylist()
    of_key = pairs // max(len(words), 1)
    found: dict[tuple[str, str], tuple[str, float]] = {}
    for place, key in enumerate(names):
        mine = np.flatnonzero(of_key == place)
        mine = mine[np.argsort(all_units.means[mine], kind="stable")]
        allotment = _allotment(all_units.take(mine), sampling)
        for unit, stratum in zip(mine.tolist(), allotment.strata.tolist(), strict=True):
            entity = words[pairs[unit] % len(words)]
            name = _named(period, stratum, float(allotment.levels[stratum]))
            found[key, entity] = name, float(allotment.chances[stratum])
    return found


def _named(period: int, stratum: int, level: float) -> str:
    # Greater ones add up to no number.
    return f"{period}.{stratum}@{level:.9g}" if abs(level) < _GREATEST else f"{period}.{stratum}"


def level_of(stratum: str) -> float:
    """Return the mean that an allotted stratum was foretold to have, NaN if none was.

    >>> level_of("60000.3@12.5"), level_of("60000")
    (12.5, nan)
    """
    _, _, level = stratum.partition("@")
    return float(level) if level else math.nan


def _allotment(units: Units, sampling: Allotted) -> Allotment:
    """Return what meets the bound and spends the share, whichever are given."""
    found = []
    if sampling.max_error is not None:
        periods = sampling.periods
        found.append(for_error(units, sampling.max_error, sampling.confidence, periods))
    if sampling.share is not None:
        found.append(for_share(units, sampling.share * _BELOW))
    return max(found, key=lambda each: float((units.counts * each.chances[each.strata]).sum()))


def _drawn(rows: pa.RecordBatch, metric: str) -> Floats:
    """Return each point's lot, in [0, 1]: from its metric, entity, attributes, time and value."""
    seeds = _of_words(rows.column("entity"), lambda entity: seed_of(metric, entity))
    others = _of_words(rows.column("attributes"), seed_of)
    values = rows.column("value").to_numpy().view(np.uint64)
    drawn = lots(seeds, rows.column("ts").to_numpy(), others ^ values)
    return drawn.astype(np.float64) / 2.0**64


def _of_words(column: pa.DictionaryArray, number: Callable[[str], int]) -> Lots:
    places = column.indices.to_numpy()
    used, found = np.unique(places, return_inverse=True)
    words = column.dictionary.take(pa.array(used)).to_pylist()
    return np.array([number(word) for word in words], np.uint64)[found]


def _lowest(
    routed: pa.Table, rows: pa.RecordBatch, pane: Pane, sampling: Fixed, drawn: Floats
) -> Bools:
    """Return which points may be among the lowest lots of their period, all of it together."""
    keys = routed["key"].combine_chunks().dictionary_encode()
    periods = ends(routed["ts"].to_numpy(), sampling.period_ms)
    # What comes late is not there yet when the others are cut.
    closing = np.maximum(periods, ends(routed["due"].to_numpy(), pane.width_ms))
    groups = [_paired(keys, rows.column("entity")), periods, closing]
    return lowest(groups, drawn, rows.column("value").to_numpy(), sampling.size)


def lowest(groups: list[Ints], drawn: Floats, values: Floats, size: int) -> Bools:
    """Return which points have the ``size`` lowest lots of their group; of equal lots, values."""
    order = np.lexsort((values, drawn, *groups))
    new = np.ones(len(order), np.bool_)
    if len(order) > 1:
        new[1:] = np.logical_or.reduce([np.diff(group[order]) != 0 for group in groups])
    starts = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    chosen = np.zeros(len(order), np.bool_)
    chosen[order] = np.arange(len(order)) - starts < size
    return chosen


def _allotted(
    routed: pa.Table, rows: pa.RecordBatch, pane: Pane, sampling: Allotted, earlier: Earlier
) -> tuple[pa.Array, Floats]:
    periods = ends(routed["ts"].to_numpy(), sampling.period_ms)
    keys = routed["key"].combine_chunks().dictionary_encode()
    entities = rows.column("entity")
    names, words = keys.dictionary.to_pylist(), entities.dictionary.to_pylist()
    pairs = _paired(keys, entities)
    strata = np.empty(len(pairs), object)
    chances = np.ones(len(pairs))
    for period in np.unique(periods).tolist():
        mine = np.flatnonzero(periods == period)
        # Of what is new, nothing is known: a bound needs all of it.
        otherwise = f"{period}", 1.0 if sampling.max_error else (sampling.share or 1.0) * _BELOW
        known = earlier(pane, period)
        used, found = np.unique(pairs[mine], return_inverse=True)
        told = [
            known.get((names[pair // len(words)], words[pair % len(words)]), otherwise)
            for pair in used.tolist()
        ]
        strata[mine] = np.array([stratum for stratum, _ in told], object)[found]
        chances[mine] = np.array([chance for _, chance in told])[found]
    return pa.array(strata, pa.string()), chances


def _paired(one: pa.DictionaryArray, other: pa.DictionaryArray) -> Ints:
    """Return a number for each pair of words."""
    first = one.indices.to_numpy().astype(np.int64)
    pairs: Ints = first * max(len(other.dictionary), 1) + other.indices.to_numpy()
    return pairs


def _left_out(rows: pa.Table, pane: Pane) -> pa.Table:
    """Return a row for all points that go to the same pane, close with it and are alike."""
    grouped = pa.table(
        {
            "route": rows["route"],
            "key": rows["key"],
            "stratum": pc.struct_field(rows["draw"], "stratum"),
            "chance": pc.struct_field(rows["draw"], "chance"),
            "pane": ends(rows["ts"].to_numpy(), pane.width_ms),
            "closing": ends(rows["due"].to_numpy(), pane.width_ms),
            "ts": rows["ts"],
            "due": rows["due"],
        }
    )
    by = ["route", "key", "stratum", "chance", "pane", "closing"]
    found = grouped.group_by(by, use_threads=False).aggregate(
        [("ts", "max"), ("due", "max"), ("ts", "count")]
    )
    number = found.num_rows
    draw = pa.StructArray.from_arrays(
        [
            found["stratum"].combine_chunks(),
            found["chance"].combine_chunks(),
            pa.nulls(number, pa.float64()),
            found["ts_count"].combine_chunks(),
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


def ends(times: Ints, width_ms: int | Ints) -> Ints:
    """Return the end of what lasts ``width_ms`` and holds each time.

    >>> ends(np.array([1000, 1001, 2000]), 1000).tolist()
    [1000, 2000, 2000]
    """
    return -(-times // width_ms) * width_ms
