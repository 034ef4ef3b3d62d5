"""Types of a storage agent's clients: points, series, streams and their rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pyarrow as pa
from msgspec import UNSET, Meta, UnsetType

from mistbow.client.fields import Finite, Id, LabelValue, Millis, Text, Value
from mistbow.streams.wire import Position

Names = str | Sequence[str]
"""One name, or a sequence of alternative names."""

_WIRE_NAMES = {
    "metric": "metricID",
    "entity": "entityID",
    "ts": "timestamp",
    "value": "val",
    "entity_type": "entityType",
    "min_val": "minVal",
    "max_val": "maxVal",
    "higher_is_better": "higherIsBetter",
}


class Pod(msgspec.Struct, frozen=True, omit_defaults=True):
    """The pod that an entity runs in."""

    uuid: Text | None = None
    name: Text | None = None
    namespace: Text | None = None


class Container(msgspec.Struct, frozen=True, omit_defaults=True):
    """The container that an entity runs in."""

    id: Text | None = None
    name: Text | None = None


class Point(msgspec.Struct, frozen=True, omit_defaults=True, rename=_WIRE_NAMES):
    """A point with the metadata of its series.

    ``ts``: milliseconds since the epoch; the agent also accepts a float without a fraction.
    ``value``: a number, or the text of a number that JSON lacks: NaN, an infinity, or the staleness
    marker. The client sends such numbers as texts, and the agent's ``Point`` contains these texts.
    """

    metric: Id
    entity: Id
    ts: Millis
    value: Value
    entity_type: Text | None = None
    name: Text | None = None
    units: Text | None = None
    desc: Text | None = None
    group: Text | None = None
    min_val: Finite | None = None
    max_val: Finite | None = None
    higher_is_better: bool | None = None
    pod: Pod | None = None
    container: Container | None = None
    labels: Annotated[dict[Id, LabelValue], Meta(max_length=128)] | None = None


class SeriesPoint(msgspec.Struct, frozen=True, rename=_WIRE_NAMES):
    """A point of a ``Series``; ``ts`` in milliseconds since the epoch."""

    ts: int
    value: float


class Series(msgspec.Struct, frozen=True, rename=_WIRE_NAMES):
    """The points of a series in the order of time, and the metadata of the series."""

    metric: str
    entity: str
    values: list[SeriesPoint]
    entity_type: str | None = None
    name: str | None = None
    units: str | None = None
    desc: str | None = None
    group: str | None = None
    min_val: float | None = None
    max_val: float | None = None
    higher_is_better: bool | None = None
    pod: Pod | None = None
    container: Container | None = None


class Missing(msgspec.Struct, frozen=True):
    """A requested node whose data an answer lacks, and the reason."""

    node: str
    reason: str


class ReplicaSource(
    msgspec.Struct, frozen=True, kw_only=True, rename={"at": "from"}, omit_defaults=True
):
    """A node whose data was read from a copy at the site ``at``, in place of the node's own site.

    ``stale_ms``: the age of the data in milliseconds; None: the age is unknown.
    """

    node: str
    at: str
    stale_ms: int | None = None


class QueryAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to ``/query``: the value of an aggregate; None: no points match.

    ``replicas``: the nodes whose data was read from replicas. ``missing``: the nodes without data.
    """

    value: float | None
    replicas: tuple[ReplicaSource, ...] = ()
    missing: tuple[Missing, ...] = ()


class ListAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to ``/list``: the metadata of series, with the field names of the REST API.

    ``next``: the cursor of the next page; None: this is the last page; UNSET: the answer has no
    pages.
    """

    metric: tuple[dict[str, Any], ...]
    replicas: tuple[ReplicaSource, ...] = ()
    missing: tuple[Missing, ...] = ()
    next: str | UnsetType | None = UNSET


class NodeData(msgspec.Struct, frozen=True):
    """The series of one node.

    ``missing``: the reason why the node did not answer; None: the node answered.
    """

    node: str
    data: list[Series]
    missing: str | None = None


POINT_SCHEMA = pa.schema(
    [
        pa.field("node", pa.string(), nullable=False),
        pa.field("metric", pa.string(), nullable=False),
        pa.field("entity", pa.string(), nullable=False),
        pa.field("ts", pa.int64(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
    ]
)
"""The schema of a table of points; ``ts`` in milliseconds since the epoch.

If nodes did not answer, the table's metadata has the key ``missing``, whose value is a JSON object:
node → reason.
"""

Aggregate = Literal["sum", "max", "min", "avg"]


@dataclass(frozen=True, slots=True)
class Aggregated:
    """The value of an aggregate; None: no points match.

    ``missing``: node that did not answer → reason.
    """

    value: float | None
    missing: Mapping[str, str]


class SeriesPoints(msgspec.Struct, frozen=True, rename=_WIRE_NAMES):
    """A series, and the number of points that a deletion selects in this series."""

    metric: str
    entity: str
    points: int


class Deleted(msgspec.Struct, frozen=True):
    """The result of a deletion: the numbers of deleted points, or of a dry run's selected points.

    ``series``: the first 1,000 of the ``series_count`` series. ``missing``: nodes whose points
    could not be counted, but are deleted too.
    """

    points: int
    series_count: int
    series: list[SeriesPoints]
    missing: list[Missing] = []


class FogNode(msgspec.Struct, frozen=True, rename={"name": "hostname"}):
    """A node of the fog."""

    name: str
    cluster_head: bool


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a stream, and the position after the last row."""

    table: pa.Table
    position: Position


class RowsPage(msgspec.Struct, frozen=True):
    """A page of rows as JSON objects.

    ``next``: the position after the last row. ``frontier``, ``head``: of the stream.
    """

    rows: list[dict[str, Any]]
    next: int
    frontier: int
    head: int


@dataclass(frozen=True, slots=True)
class RowEvent:
    """A row of a stream, and the position after this row."""

    row: dict[str, Any]
    next: int


class Selection(TypedDict, total=False):
    """A selection of rows and columns of a stream; a field that is missing or None selects all.

    ``match``: column → values; a selected row has one of these values. ``min_ts``, ``max_ts``:
    milliseconds since the epoch, inclusive. ``late``: True selects late rows, False rows that are
    not late.
    """

    match: Mapping[str, Names] | None
    columns: Sequence[str] | None
    min_ts: int | None
    max_ts: int | None
    late: bool | None


class Filters(TypedDict, total=False):
    """Filters of series by metadata and node, in addition to metrics and entities."""

    entity_type: Names
    group: Names
    pod_name: Names
    pod_namespace: Names
    container_name: Names
    nodes: Names
