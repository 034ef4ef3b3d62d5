"""What a storage agent's clients give and get."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import msgspec
import pyarrow as pa

from mistbow.streams.wire import Position

Words = str | Sequence[str]
"""One value, or several of which any will do."""

_NAMES = {
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

    uuid: str | None = None
    name: str | None = None
    namespace: str | None = None


class Container(msgspec.Struct, frozen=True, omit_defaults=True):
    """The container that an entity runs in."""

    id: str | None = None
    name: str | None = None


class Point(msgspec.Struct, frozen=True, omit_defaults=True, rename=_NAMES):
    """One measurement and what is known of its series; ``ts`` in milliseconds since the epoch."""

    metric: str
    entity: str
    ts: int
    value: float
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
    labels: dict[str, str | int | float | bool] | None = None


class Value(msgspec.Struct, frozen=True, rename=_NAMES):
    """A value of a series; ``ts`` in milliseconds since the epoch."""

    ts: int
    value: float


class Series(msgspec.Struct, frozen=True, rename=_NAMES):
    """A series' values by time, and its metadata."""

    metric: str
    entity: str
    values: list[Value]
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


class NodeData(msgspec.Struct, frozen=True):
    """What one node has of what was asked for; ``missing`` says why a node does not answer."""

    node: str
    data: list[Series]
    missing: str | None = None


VALUES = pa.schema(
    [
        pa.field("node", pa.string(), nullable=False),
        pa.field("metric", pa.string(), nullable=False),
        pa.field("entity", pa.string(), nullable=False),
        pa.field("ts", pa.int64(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
    ]
)
"""Values as a table; ``ts`` in milliseconds since the epoch.

Its metadata have ``missing``, node to reason as JSON, where nodes do not answer.
"""

Aggregate = Literal["sum", "max", "min", "avg"]


@dataclass(frozen=True, slots=True)
class Aggregated:
    """What values come to, None if there are none; and which nodes have no part in it, and why."""

    value: float | None
    missing: Mapping[str, str]


class Node(msgspec.Struct, frozen=True, rename={"name": "hostname"}):
    """A node of the fog."""

    name: str
    cluster_head: bool


class StreamField(msgspec.Struct, frozen=True):
    """A column of a stream; ``type`` in Arrow's words."""

    name: str
    type: str


class StreamInfo(msgspec.Struct, frozen=True):
    """A stream: numbers from ``first`` to before ``head``, event time up to ``frontier``.

    ``late`` rows came late; ``lateness_ms`` is None where no clock moves the frontier. ``bytes``
    were appended, as they are kept, since the agent started. Kept are now so many ``segments``,
    ``rows`` and ``stored_bytes``, for ``retention_ms``; None: for ever.
    """

    name: str
    fields: list[StreamField]
    first: int
    head: int
    frontier: int
    epoch: int
    attributes: dict[str, Any]
    late: int
    lateness_ms: int | None
    bytes: int = 0
    segments: int = 0
    rows: int = 0
    stored_bytes: int = 0
    retention_ms: int | None = None


class StreamState(msgspec.Struct, frozen=True):
    """What a stream's writer has to know: its epoch, and where the stream is.

    ``bytes`` were appended, as they are kept, since the agent started.
    """

    epoch: int
    head: int
    frontier: int
    attributes: dict[str, Any]
    bytes: int = 0


class Appended(msgspec.Struct, frozen=True):
    """The rows of an append have the numbers ``first`` to before ``next``."""

    first: int
    next: int
    frontier: int


class Offset(msgspec.Struct, frozen=True):
    """How far a batch of a stream may go: to before ``next``, with event time ``frontier``."""

    next: int
    frontier: int
    head: int


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a stream, and the position after them."""

    table: pa.Table
    position: Position


class RowsPage(msgspec.Struct, frozen=True):
    """Rows as objects, where to go on, and how far the stream is."""

    rows: list[dict[str, Any]]
    next: int
    frontier: int
    head: int


@dataclass(frozen=True, slots=True)
class RowEvent:
    """A row that came; to go on after it, begin at ``next``."""

    row: dict[str, Any]
    next: int


class Selection(TypedDict, total=False):
    """Which rows and columns of a stream to read; what is left out or None asks for all.

    ``match``: column → values; times in milliseconds since the epoch, both inclusive. ``late``:
    only rows that came late, or only those that did not.
    """

    match: Mapping[str, Words] | None
    columns: Sequence[str] | None
    min_ts: int | None
    max_ts: int | None
    late: bool | None


class Filters(TypedDict, total=False):
    """Which series to get, beside their metrics and entities."""

    entity_type: Words
    group: Words
    pod_name: Words
    pod_namespace: Words
    container_name: Words
    nodes: Words
