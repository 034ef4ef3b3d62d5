"""The JSON bodies of the records API, and what its answers are made of."""

import ipaddress
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from storage_agent.monitoring.bodies import Id, Millis, Some, Text

DEFAULT = "default"
"""The destination of the route that is taken where no other is."""

_Limit = Annotated[int, Meta(ge=1, le=1_000_000)]


class Item(msgspec.Struct, frozen=True):
    """A record: any JSON value by key and time; ``schema`` is the one that it must be valid by."""

    key: Id
    val: msgspec.Raw
    timestamp: Millis
    schema: Id | None = None


class AnalyticsBody(msgspec.Struct, frozen=True):
    """The body of an /analytics/put."""

    analytics: list[Item]


class AppBody(msgspec.Struct, frozen=True):
    """The body of an /app/put; ``app`` is another word for ``application``."""

    application: list[Item] | None = None
    app: list[Item] | None = None


class ReadBody(msgspec.Struct, frozen=True, rename={"since": "from", "until": "to"}):
    """The body of a read: keys or none for all, times, inclusive, and where to scan from."""

    key: Some = None
    nodes: Some = None
    since: Millis | None = None
    until: Millis | None = None
    latest: bool | None = None
    start: Text | None = None
    limit: _Limit | None = None


class DeleteBody(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    rename={"since": "from", "until": "to"},
):
    """The body of a delete: keys, and times, inclusive, or none for all of them.

    ``nodes`` and ``latest``, which reads take, are refused.
    """

    key: Some = None
    since: Millis | None = None
    until: Millis | None = None
    nodes: Some = None
    latest: bool | None = None


class QueryBody(msgspec.Struct, frozen=True, rename={"since": "from", "until": "to"}):
    """The body of an /app/query: what fields of the latest records of a schema must be."""

    schema: Id
    where: Annotated[dict[str, Any], Meta(max_length=64)] = {}
    nodes: Some = None
    since: Millis | None = None
    until: Millis | None = None
    limit: _Limit | None = None


class SchemaBody(msgspec.Struct, frozen=True):
    """A JSON Schema, and the fields that /app/query is to find records by fast."""

    schema: msgspec.Raw
    indexed: Annotated[tuple[Id, ...], Meta(max_length=16)] = ()


class Route(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a routing table; ``destination`` is a network or an address, or ``default``."""

    destination: Id
    gateway: Text | None = None
    interface: Text | None = None
    metric: Annotated[int, Meta(ge=0, le=2**32 - 1)] | None = None

    def __post_init__(self) -> None:
        if self.destination == DEFAULT:
            return
        try:
            ipaddress.ip_network(self.destination, strict=False)
        except ValueError as error:
            raise ValueError(
                f"destination: Expected a network (10.0.0.0/8), an address or {DEFAULT!r}: {error}"
            ) from error


class Table(msgspec.Struct, frozen=True):
    """A node's routing table; by default of the agent's own node, and of now."""

    routes: Annotated[list[Route], Meta(max_length=100_000)]
    node: Id | None = None
    timestamp: Millis | None = None


class RoutingBody(msgspec.Struct, frozen=True):
    """The body of a /routing/put."""

    routing: Annotated[list[Table], Meta(max_length=1000)]


class RoutingReadBody(msgspec.Struct, frozen=True, rename={"since": "from", "until": "to"}):
    """The body of a /routing/get."""

    nodes: Some = None
    since: Millis | None = None
    until: Millis | None = None
    latest: bool | None = None


class Value(msgspec.Struct, frozen=True, gc=False):
    """A record as it is answered."""

    timestamp: int
    val: msgspec.Raw


class KeyValues(msgspec.Struct, frozen=True):
    """The records of a key, by time."""

    key: str
    values: list[Value]
