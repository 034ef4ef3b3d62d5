"""The JSON bodies of the requests and responses of the records API."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from mistbow.client.fields import Id, Millis, Names, Text
from mistbow.client.record_model import RecordValue, RoutingTable

_Limit = Annotated[int, Meta(ge=1, le=1_000_000)]


class RecordItem(msgspec.Struct, frozen=True):
    """A record in a request: a key, a time, and any JSON value.

    ``schema``: the name of the schema that the value must match.
    """

    key: Id
    val: msgspec.Raw
    timestamp: Millis
    schema: Id | None = None


class AnalyticsBody(msgspec.Struct, frozen=True):
    """The body of a request to /analytics/put."""

    analytics: list[RecordItem]


class AppBody(msgspec.Struct, frozen=True):
    """The body of a request to /app/put; clients may write ``app`` instead of ``application``."""

    application: list[RecordItem] | None = None
    app: list[RecordItem] | None = None


class RecordReadBody(msgspec.Struct, frozen=True, rename={"since": "from", "until": "to"}):
    """The body of a request that reads records: keys, an inclusive time range, and a page.

    Without ``key``, all keys are read. A page begins at the key ``start`` and has at most ``limit``
    keys.
    """

    key: Names = None
    nodes: Names = None
    since: Millis | None = None
    until: Millis | None = None
    latest: bool | None = None
    start: Text | None = None
    limit: _Limit | None = None


class RecordDeleteBody(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    rename={"since": "from", "until": "to"},
):
    """The body of a request that deletes records: the keys, and an inclusive time range.

    Without a time range, records of all times are deleted. ``nodes`` and ``latest`` are rejected,
    because only reads accept these fields.
    """

    key: Names = None
    since: Millis | None = None
    until: Millis | None = None
    nodes: Names = None
    latest: bool | None = None


class RecordQueryBody(msgspec.Struct, frozen=True, rename={"since": "from", "until": "to"}):
    """The body of a request to /app/query.

    The request selects the latest records that have the schema ``schema`` and satisfy the
    conditions in ``where`` (field -> value or range).
    """

    schema: Id
    where: Annotated[dict[str, Any], Meta(max_length=64)] = {}
    nodes: Names = None
    since: Millis | None = None
    until: Millis | None = None
    limit: _Limit | None = None


class SchemaBody(msgspec.Struct, frozen=True):
    """The body of a request that registers a JSON Schema.

    ``indexed``: the names of the fields to index for /app/query.
    """

    schema: msgspec.Raw
    indexed: Annotated[tuple[Id, ...], Meta(max_length=16)] = ()


class RoutingBody(msgspec.Struct, frozen=True):
    """The body of a request to /routing/put."""

    routing: Annotated[list[RoutingTable], Meta(max_length=1000)]


class RoutingReadBody(msgspec.Struct, frozen=True, rename={"since": "from", "until": "to"}):
    """The body of a request to /routing/get."""

    nodes: Names = None
    since: Millis | None = None
    until: Millis | None = None
    latest: bool | None = None


class KeyValues(msgspec.Struct, frozen=True):
    """A key in a response, with the records of the key, sorted by time."""

    key: str
    values: list[RecordValue[msgspec.Raw]]
