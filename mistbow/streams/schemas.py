"""The Arrow schemas of the streams that Mistbow itself keeps."""

import pyarrow as pa

RAW = "raw"
DEPLOYMENTS = "deployments"
METADATA = "metadata"
PLACEMENTS = "placements"
SCHEMAS = "schemas"

_WORDS = pa.dictionary(pa.int32(), pa.string())

POINTS = pa.schema(
    [
        pa.field("metric", _WORDS, nullable=False),
        pa.field("entity", _WORDS, nullable=False),
        # A flat JSON object with sorted keys: what BY, WHEN and IN may name.
        pa.field("attributes", _WORDS, nullable=False),
        pa.field("ts", pa.int64(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
    ]
)
"""Raw points; ``ts`` in milliseconds since the epoch."""

HORIZON = pa.field("horizon", pa.int64(), nullable=False)
"""Added to each row that a subscriber reads: rows with ``ts <= horizon`` came late."""

POINT = pa.struct(
    [
        pa.field("ts", pa.int64()),
        pa.field("value", pa.float64()),
        pa.field("entity", pa.string()),
    ]
)
"""A point inside a pane or a window."""

DRAW = pa.struct(
    [
        # What points have in common that are kept with the same chance.
        pa.field("stratum", pa.string()),
        pa.field("chance", pa.float64()),
        # In [0, 1]; where a number of points is kept, those with the lowest.
        pa.field("lot", pa.float64()),
        # 1 for a point that was kept, or how many were left out.
        pa.field("seen", pa.int64()),
    ]
)
"""How a point of a sampled source was drawn."""

DRAWN = pa.struct([pa.field("ts", pa.int64()), pa.field("value", pa.float64()), *DRAW])
"""A point that was kept or, without a value, some that were left out."""

CARRIED_BY_PANES = (
    # The sum of squared deviations from the mean.
    pa.field("moments", pa.float64()),
    # The sum of the natural logarithms of those values that are above zero.
    pa.field("logs", pa.float64()),
    pa.field("latest", POINT),
    pa.field("points", pa.list_(POINT)),
    pa.field("sample", pa.list_(DRAWN)),
)
"""What panes carry only where some function needs it; see ``mistbow.plan.contents``."""

PANES = pa.schema(
    [
        pa.field("pane", _WORDS, nullable=False),
        pa.field("key", _WORDS, nullable=False),
        pa.field("ts", pa.int64(), nullable=False),
        # When it closed: at ``ts``, or later for a pane of points that came late.
        pa.field("due", pa.int64(), nullable=False),
        pa.field("sum", pa.float64(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("min", pa.float64(), nullable=False),
        pa.field("max", pa.float64(), nullable=False),
        *CARRIED_BY_PANES,
    ]
)
"""Panes of one site: what the points in ``(ts - width, ts]`` with a key come to."""

RESULT_ROWS = pa.schema(
    [
        pa.field("insight", pa.string(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("ts", pa.int64(), nullable=False),
        # Neither a value nor a text: what lower revisions said is withdrawn.
        pa.field("value", pa.float64()),
        # All values, of functions that have several.
        pa.field("values", pa.list_(pa.float64())),
        pa.field("low", pa.float64()),
        pa.field("high", pa.float64()),
        pa.field("confidence", pa.float64()),
        # In place of a value, of insights whose values are texts.
        pa.field("text", pa.string()),
        pa.field("revision", pa.int64(), nullable=False),
        pa.field("computed_at", pa.int64(), nullable=False),
        # The sites whose points are not in it, with commas between; null if none is missing.
        pa.field("missing", pa.string()),
    ]
)
"""Results of insights: a row is identified by (insight, key, ts); the highest revision counts."""

EVENTS = pa.schema(
    [
        pa.field("ts", pa.int64(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("event", pa.string(), nullable=False),
    ]
)
"""Changes of a service's own state: what (``key``) and the change as JSON (``event``)."""

STATES = pa.schema(
    [
        pa.field("accumulator", _WORDS, nullable=False),
        # Empty: all keys that there are have a row at this tick.
        pa.field("key", _WORDS, nullable=False),
        pa.field("ts", pa.int64(), nullable=False),
        pa.field("revision", pa.int64(), nullable=False),
        # What ``mistbow.operators.accumulated`` keeps, as JSON.
        pa.field("state", pa.string(), nullable=False),
    ]
)
"""What accumulators know after a tick (``ts``): of (accumulator, key, ts), the highest revision
counts, and of equal ones the first.
"""

RECORDS = pa.schema(
    [
        pa.field("key", _WORDS, nullable=False),
        pa.field("ts", pa.int64(), nullable=False),
        # Any value, as JSON.
        pa.field("val", pa.string(), nullable=False),
        # The one that it was checked by.
        pa.field("schema", _WORDS),
    ]
)
"""Values that are no metrics: of equal keys and times the last counts."""


def results_stream(group: str) -> str:
    """Return the stream of the results of a group of insights, those that run together.

    >>> results_stream("all.fair")
    'results/all.fair'
    """
    return f"results/{group}"


def panes_stream(fragment_id: str) -> str:
    """Return the stream that a partial fragment writes, at its own site."""
    return f"panes/{fragment_id}"


def decisions_stream(group: str) -> str:
    """Return the stream that says which sites a group's results did without, and when."""
    return f"decisions/{group}"


def states_stream(results: str) -> str:
    """Return the stream of the states that a stream of results goes on from.

    >>> states_stream("results/all.fair")
    'states/all.fair'
    """
    return f"states/{results.removeprefix('results/')}"


def is_permanent(stream: str) -> bool:
    """Tell whether a stream of Mistbow's own says what stands until it is taken back.

    >>> [is_permanent(name) for name in ("raw", "replicas/edge/metadata", "decisions/all.fair")]
    [False, True, True]
    """
    standing = {METADATA, PLACEMENTS, DEPLOYMENTS, SCHEMAS}
    return stream.rpartition("/")[2] in standing or stream.startswith("decisions/")
