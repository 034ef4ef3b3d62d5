"""The names and Arrow schemas of Mistbow's own streams."""

import pyarrow as pa

from mistbow.domains import DEFAULT_DOMAIN

RAW = "raw"
DECISIONS = "decisions"
DEPLOYMENTS = "deployments"
FOG_HISTORY = "fog-history"
METADATA = "metadata"
PLACEMENTS = "placements"
SCHEMAS = "schemas"


def domain_stream(stream: str, domain: str) -> str:
    """Return the name of the stream of deployments or placements of a domain.

    >>> domain_stream(DEPLOYMENTS, "all"), domain_stream(DEPLOYMENTS, "north")
    ('deployments', 'deployments/north')
    """
    return stream if domain == DEFAULT_DOMAIN else f"{stream}/{domain}"


_TEXTS = pa.dictionary(pa.int32(), pa.string())

POINTS = pa.schema(
    [
        pa.field("metric", _TEXTS, nullable=False),
        pa.field("entity", _TEXTS, nullable=False),
        # A flat JSON object with sorted keys: the attributes that BY, WHEN and IN may name.
        pa.field("attributes", _TEXTS, nullable=False),
        pa.field("ts", pa.int64(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
    ]
)
"""The schema of raw points; ``ts`` in milliseconds since the epoch."""

ROW_FRONTIER = pa.field("horizon", pa.int64(), nullable=False)
"""The column that a subscription adds to each row: the frontier when the row was appended.

A row whose time is at or before this frontier is late.
"""

POINT = pa.struct(
    [
        pa.field("ts", pa.int64()),
        pa.field("value", pa.float64()),
        pa.field("entity", pa.string()),
    ]
)
"""The type of a point in a pane or a window."""

DRAW = pa.struct(
    [
        # The stratum: points with the same probability.
        pa.field("stratum", pa.string()),
        pa.field("chance", pa.float64()),
        # The sampling key, in [0, 1]; a sample of n points has the n lowest. Of points that were
        # left out: the greatest of their values or, if ``seen`` is 0, the least.
        pa.field("lot", pa.float64()),
        # 1 for a sampled point, or the number of points that were left out.
        pa.field("seen", pa.int64()),
    ]
)
"""The draw of a point from a sampled source: the probability and the sampling key."""

SAMPLED_POINT = pa.struct([pa.field("ts", pa.int64()), pa.field("value", pa.float64()), *DRAW])
"""The type of a sampled point; without a value: ``seen`` is the number of points left out."""

OPTIONAL_PANE_FIELDS = (
    # The sum of squared deviations from the mean.
    pa.field("moments", pa.float64()),
    # The sum of the natural logarithms of the values above zero.
    pa.field("logs", pa.float64()),
    pa.field("latest", POINT),
    pa.field("points", pa.list_(POINT)),
    pa.field("sample", pa.list_(SAMPLED_POINT)),
)
"""The fields of panes that only some functions need; see ``analytics.plan.functions``."""

PANES = pa.schema(
    [
        pa.field("pane", _TEXTS, nullable=False),
        pa.field("key", _TEXTS, nullable=False),
        pa.field("ts", pa.int64(), nullable=False),
        # When the pane closed: at ``ts``, or later for a pane of late points.
        pa.field("due", pa.int64(), nullable=False),
        pa.field("sum", pa.float64(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("min", pa.float64(), nullable=False),
        pa.field("max", pa.float64(), nullable=False),
        *OPTIONAL_PANE_FIELDS,
    ]
)
"""The schema of one site's panes: aggregates by key of the points in ``(ts - width, ts]``."""

RESULT_ROWS = pa.schema(
    [
        pa.field("insight", pa.string(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("ts", pa.int64(), nullable=False),
        # Without a value and a text: the lower revisions are withdrawn.
        pa.field("value", pa.float64()),
        # The values of functions with several. Of an estimate with a confidence: the number of
        # sampled points on which its bounds rest, if they are too few (``result_fields``).
        pa.field("values", pa.list_(pa.float64())),
        pa.field("low", pa.float64()),
        pa.field("high", pa.float64()),
        pa.field("confidence", pa.float64()),
        # The value of insights whose values are texts.
        pa.field("text", pa.string()),
        pa.field("revision", pa.int64(), nullable=False),
        pa.field("computed_at", pa.int64(), nullable=False),
        # The sites whose points are missing, comma-separated; null if none is.
        pa.field("missing", pa.string()),
    ]
)
"""The schema of results; of rows with equal (insight, key, ts), the highest revision is valid."""

EVENTS = pa.schema(
    [
        pa.field("ts", pa.int64(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("event", pa.string(), nullable=False),
    ]
)
"""The schema of changes in a service's own state: ``key`` has changed to ``event`` (JSON)."""

STATES = pa.schema(
    [
        pa.field("accumulator", _TEXTS, nullable=False),
        # Empty: every key has a row at this tick.
        pa.field("key", _TEXTS, nullable=False),
        pa.field("ts", pa.int64(), nullable=False),
        pa.field("revision", pa.int64(), nullable=False),
        # The state of ``analytics_worker.operators.accumulators``, as JSON.
        pa.field("state", pa.string(), nullable=False),
    ]
)
"""The schema of the states of accumulators after a tick (``ts``).

Of rows with the same (accumulator, key, ts), the row with the highest revision is valid; of rows
with equal revisions, the first row is valid.
"""

RECORDS = pa.schema(
    [
        pa.field("key", _TEXTS, nullable=False),
        pa.field("ts", pa.int64(), nullable=False),
        # Any value, as JSON.
        pa.field("val", pa.string(), nullable=False),
        # The name of the JSON Schema that the value satisfies.
        pa.field("schema", _TEXTS),
    ]
)
"""The schema of records; of rows with the same key and time, the last row is valid."""


QUALITY = pa.schema(
    [
        pa.field("metric", _TEXTS, nullable=False),
        # The worker that checked the points, and the fragment that reads them.
        pa.field("node", _TEXTS, nullable=False),
        pa.field("fragment", _TEXTS, nullable=False),
        pa.field("ts", pa.int64(), nullable=False),
        # The points that were checked since the previous row.
        pa.field("points", pa.int64(), nullable=False),
        # Shares from 0 to 1; null: unknown.
        pa.field("completeness", pa.float64()),
        pa.field("timeliness", pa.float64()),
        pa.field("accuracy", pa.float64()),
    ]
)
"""The schema of the quality of the points of a site, by metric; ``ts``: the end of a check."""


def quality_stream(site: str) -> str:
    """Return the name of the stream with the quality of the points of a site.

    >>> quality_stream("edge")
    'quality/edge'
    """
    return f"quality/{site}"


def results_stream(group: str) -> str:
    """Return the name of the stream with the results of a group of insights.

    >>> results_stream("all.fair")
    'results/all.fair'
    """
    return f"results/{group}"


def panes_stream(fragment_id: str) -> str:
    """Return the name of the stream with the panes that a partial fragment writes."""
    return f"panes/{fragment_id}"


def decisions_stream(group: str) -> str:
    """Return the name of the stream in which a group's merge records decisions about sites."""
    return f"decisions/{group}"


def states_stream(results: str) -> str:
    """Return the name of the stream with the accumulators' states that belong to a stream of
    results.

    >>> states_stream("results/all.fair")
    'states/all.fair'
    """
    return f"states/{results.removeprefix('results/')}"


_PERMANENT = frozenset((METADATA, DEPLOYMENTS, PLACEMENTS, f"records/{SCHEMAS}"))
_PERMANENT_PREFIXES = (
    *(f"{DEPLOYMENTS}/", f"{PLACEMENTS}/", f"{DECISIONS}/"),
    # A replica of records that were deleted and created again has a further part.
    f"records/{SCHEMAS}/",
)


def is_permanent(stream: str) -> bool:
    """Return whether the rows of a stream never expire, because they are Mistbow's own data.

    A replica is as permanent as its source.

    >>> [is_permanent(name) for name in ("raw", "metadata", "plant/metadata", "decisions/all.fair")]
    [False, True, False, True]
    >>> [is_permanent(f"replicas/edge/{name}") for name in ("raw", "metadata", "deployments/north")]
    [False, True, True]
    """
    source = stream.split("/", 2)[-1] if stream.startswith("replicas/") else stream
    return source in _PERMANENT or source.startswith(_PERMANENT_PREFIXES)
