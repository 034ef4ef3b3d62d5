"""Types of a storage agent's clients: records, their schemas, and routing tables."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta

from mistbow.client.fields import Id, Millis, Text

V = TypeVar("V")

Kind = Literal["analytics", "application"]

DEFAULT = "default"
"""The destination of the default route."""


class Record(msgspec.Struct, frozen=True, omit_defaults=True, rename={"value": "val"}):
    """A record: a JSON value with a key and a time; ``timestamp`` in milliseconds since the epoch.

    ``schema``: the name of the JSON Schema that the value must satisfy; only records of
    applications have schemas.
    """

    key: str
    value: Any
    timestamp: int
    schema: str | None = None


class RecordValue(msgspec.Struct, Generic[V], frozen=True, gc=False, rename={"value": "val"}):
    """A record's value and time (ms since the epoch), without the record's key.

    ``V`` is the type of the value; the agent uses ``msgspec.Raw``, which contains encoded JSON.
    """

    timestamp: int
    value: V


@dataclass(frozen=True, slots=True)
class Records:
    """The records that match a request: key → values in the order of time.

    ``missing``: node that did not answer → reason.
    """

    values: Mapping[str, list[RecordValue[Any]]]
    missing: Mapping[str, str]


class AppSchema(msgspec.Struct, frozen=True):
    """A JSON Schema for records of applications, and the names of the fields to index."""

    name: str
    schema: dict[str, Any]
    indexed: tuple[str, ...] = ()


class Route(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry of a routing table; ``destination``: a network, an address, or ``default``."""

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
                "destination: expected a network such as 10.0.0.0/8, an address, or "
                f"{DEFAULT!r}: {error}"
            ) from error


class RoutingTable(msgspec.Struct, frozen=True, omit_defaults=True):
    """The routing table of a node at one time.

    ``node``: None: the agent's own node. ``timestamp``: milliseconds since the epoch; None: the
    present time.
    """

    routes: Annotated[list[Route], Meta(max_length=100_000)]
    node: Id | None = None
    timestamp: Millis | None = None


@dataclass(frozen=True, slots=True)
class RoutingTables:
    """The latest routing tables: node → table.

    ``missing``: node that did not answer → reason.
    """

    tables: Mapping[str, RoutingTable]
    missing: Mapping[str, str]
