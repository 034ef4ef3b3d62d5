"""Routing: which points go to which pane, and under which key."""

from collections.abc import Mapping, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from mistbow.panes.holding import held
from mistbow.panes.predicates import mask, parse_attributes
from mistbow.panes.thinning import Earlier, nothing_earlier, thinned
from mistbow.plan.expressions import Scalar
from mistbow.plan.nodes import Pane
from mistbow.plan.sampling import Adaptive, Allotted, Even, Fixed
from mistbow.streams.schemas import DRAW

ROUTED = pa.schema(
    [
        pa.field("route", pa.int32()),
        pa.field("key", pa.string()),
        pa.field("ts", pa.int64()),
        # The earliest event time at which the point may still count: later than ``ts`` for a
        # point that came late, whose windows up to the horizon are closed.
        pa.field("due", pa.int64()),
        pa.field("value", pa.float64()),
        # Only where the pane carries points.
        pa.field("entity", pa.string()),
        # Only where the source is sampled: there, a row without a value stands for those left out.
        pa.field("draw", DRAW),
    ]
)
"""Points on their way to panes; ``route`` is the pane's place in the plan."""

COLUMNS = ("metric", "entity", "attributes", "ts", "value", "horizon")
"""The columns of a raw stream that routing reads."""


def metrics_needed(panes: Sequence[Pane]) -> tuple[str, ...]:
    """Return the metrics that any of the panes reads, sorted."""
    return tuple(sorted({pane.source.metric for pane in panes}))


def route(
    rows: pa.RecordBatch, panes: Sequence[Pane], earlier: Earlier = nothing_earlier
) -> pa.Table:
    """Return a row for every pane that a point belongs to, or is counted in; shape ``ROUTED``.

    ``earlier`` tells sampled sources what points before these were like.
    """
    attributes = parse_attributes(rows)
    metrics = _places(rows.column("metric"))
    keys = {
        by: pa.array([key_of(one, by) for one in attributes], pa.string())
        for by in {pane.by for pane in panes}
    }
    routed = []
    for number, pane in enumerate(panes):
        place = metrics.get(pane.source.metric)
        if place is None:
            continue
        chosen = pc.equal(rows.column("metric").indices, place)
        if pane.source.entities:
            chosen = pc.and_(chosen, _is_entity(rows.column("entity"), pane.source.entities))
        if pane.source.predicate is not None:
            chosen = pc.and_(chosen, mask(pane.source.predicate, rows, attributes))
        kept = rows.filter(chosen)
        if kept.num_rows:
            part = _routed(number, keys[pane.by], kept, with_entity=bool(pane.contents))
            match pane.source.sampling:
                case Adaptive():
                    part = held(part, kept, attributes)
                case Fixed() | Even() | Allotted():
                    part = thinned(part, kept, pane, earlier)
            routed.append(part)
    return pa.concat_tables(routed) if routed else ROUTED.empty_table()


def key_of(attributes: Mapping[str, Scalar | None], by: Sequence[str]) -> str:
    """Return the key of a point: the attributes that ``by`` names, as JSON with sorted names.

    >>> key_of({"region": "north", "node": "a"}, ["region"])
    '{"region":"north"}'
    """
    return msgspec.json.encode({name: attributes.get(name) for name in sorted(by)}).decode()


def _places(column: pa.DictionaryArray) -> dict[str, int]:
    return {word: place for place, word in enumerate(column.dictionary.to_pylist())}


def _is_entity(column: pa.DictionaryArray, entities: tuple[str, ...]) -> pa.BooleanArray:
    wanted = pc.is_in(column.dictionary, pa.array(entities, pa.string()))
    return wanted.take(column.indices)


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
