"""Routing: determines the panes to which a point belongs, and the key of the point in each pane."""

from collections.abc import Collection, Mapping, Sequence
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from analytics.plan.expressions import Scalar
from analytics.plan.nodes import Pane
from analytics.plan.sampling import Adaptive, Bernoulli, FixedSize, NeymanAllocation
from analytics_worker.panes.last_value import repeat_values
from analytics_worker.panes.predicates import mask, parse_attributes
from analytics_worker.sampling.point_sampling import (
    EarlierChances,
    no_earlier_chances,
    sample_points,
)
from mistbow.streams.schemas import DRAW

ROUTED = pa.schema(
    [
        pa.field("route", pa.int32()),
        pa.field("key", pa.string()),
        pa.field("ts", pa.int64()),
        # The earliest event time at which the point may still count: later than ``ts`` for a late
        # point, whose windows up to the frontier are closed.
        pa.field("due", pa.int64()),
        pa.field("value", pa.float64()),
        # Only where the pane carries points.
        pa.field("entity", pa.string()),
        # Only where the source is sampled; a row without a value stands for points left out.
        pa.field("draw", DRAW),
    ]
)
"""The schema of routed points, with a row for each pane of each point.

``route``: the index of the pane in the plan.
"""

COLUMNS = ("metric", "entity", "attributes", "ts", "value", "horizon")
"""The columns of a raw stream that routing reads."""


_MAX_SELECTION_BYTES = 32_768
"""The maximum size of selected metrics in a URL; an agent takes at most 64 KiB of URL and headers.
"""


def metrics_needed(panes: Sequence[Pane]) -> tuple[str, ...]:
    """Return the metrics that the panes read, sorted and without duplicates."""
    return tuple(sorted({pane.source.metric for pane in panes}))


def select_metrics(metrics: Collection[str]) -> dict[str, list[str]]:
    """Return the selection (column -> values) of the points of ``metrics``, for a request.

    The selection is empty, so that all points are read, if it is too long for a request: for
    example if 2,000 insights read different metrics. ``route`` omits the points of other metrics.
    """
    size = sum(len(quote(f"&match=metric:{metric}", safe="")) for metric in metrics)
    return {"metric": list(metrics)} if size <= _MAX_SELECTION_BYTES else {}


def route(
    rows: pa.RecordBatch, panes: Sequence[Pane], earlier: EarlierChances = no_earlier_chances
) -> pa.Table:
    """Return a row (``ROUTED``) for each point of each pane.

    NaN, infinities and staleness markers are no points. Points that sampling omits are counted in
    additional rows. ``earlier``: a function that returns the sampling probabilities computed from
    earlier points.
    """
    finite = pc.is_finite(rows.column("value"))
    if not pc.all(finite).as_py():
        rows = rows.filter(finite)
    attributes = parse_attributes(rows)
    metrics = _indices(rows.column("metric"))
    keys = {
        by: pa.array([key_of(one, by) for one in attributes], pa.string())
        for by in {pane.by for pane in panes}
    }
    routed = []
    for number, pane in enumerate(panes):
        index = metrics.get(pane.source.metric)
        if index is None:
            continue
        chosen = pc.equal(rows.column("metric").indices, index)
        if pane.source.entities:
            chosen = pc.and_(chosen, _is_entity(rows.column("entity"), pane.source.entities))
        if pane.source.predicate is not None:
            chosen = pc.and_(chosen, mask(pane.source.predicate, rows, attributes))
        kept = rows.filter(chosen)
        if kept.num_rows:
            part = _routed(number, keys[pane.by], kept, with_entity=bool(pane.contents))
            match pane.source.sampling:
                case Adaptive():
                    part = repeat_values(part, kept, attributes)
                case FixedSize() | Bernoulli() | NeymanAllocation():
                    part = sample_points(part, kept, pane, earlier)
            routed.append(part)
    return pa.concat_tables(routed) if routed else ROUTED.empty_table()


def key_of(attributes: Mapping[str, Scalar | None], by: Sequence[str]) -> str:
    """Return the key of a point: the JSON of the point's attributes ``by``, sorted by name.

    >>> key_of({"region": "north", "node": "a"}, ["region"])
    '{"region":"north"}'
    """
    return msgspec.json.encode({name: attributes.get(name) for name in sorted(by)}).decode()


def _indices(column: pa.DictionaryArray) -> dict[str, int]:
    return {word: index for index, word in enumerate(column.dictionary.to_pylist())}


def _is_entity(column: pa.DictionaryArray, entities: tuple[str, ...]) -> pa.BooleanArray:
    is_named = pc.is_in(column.dictionary, pa.array(entities, pa.string()))
    return is_named.take(column.indices)


def _routed(number: int, keys: pa.Array, rows: pa.RecordBatch, *, with_entity: bool) -> pa.Table:
    ts = rows.column("ts")
    entities = rows.column("entity").dictionary_decode() if with_entity else None
    return pa.table(
        {
            "route": pa.repeat(pa.scalar(number, pa.int32()), rows.num_rows),
            "key": keys.take(rows.column("attributes").indices),
            "ts": ts,
            "due": pc.max_element_wise(ts, pc.add(rows.column("horizon"), 1)),
            "value": rows.column("value"),
            "entity": entities if with_entity else pa.nulls(rows.num_rows, pa.string()),
            "draw": pa.nulls(rows.num_rows, DRAW),
        },
        schema=ROUTED,
    )
