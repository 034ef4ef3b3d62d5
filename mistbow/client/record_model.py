"""What the clients give and get of what a storage agent keeps by key."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

Kind = Literal["analytics", "application"]


class Record(msgspec.Struct, frozen=True, omit_defaults=True, rename={"value": "val"}):
    """A value (anything that JSON can say) by key and time.

    ``timestamp`` in milliseconds since the epoch; of an application it may name the schema that it
    must be valid by.
    """

    key: str
    value: Any
    timestamp: int
    schema: str | None = None


class RecordValue(msgspec.Struct, frozen=True, rename={"value": "val"}):
    """A value of a key."""

    timestamp: int
    value: Any


@dataclass(frozen=True, slots=True)
class Records:
    """The values of keys, each by time; which nodes have no part in it, and why."""

    values: Mapping[str, list[RecordValue]]
    missing: Mapping[str, str]


class AppSchema(msgspec.Struct, frozen=True):
    """A JSON Schema of records of applications, and the fields by which they are found fast."""

    name: str
    schema: dict[str, Any]
    indexed: tuple[str, ...] = ()


class Route(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a routing table; ``destination`` is a network, as 10.0.0.0/8."""

    destination: str
    gateway: str | None = None
    interface: str | None = None
    metric: int | None = None


class RoutingTable(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node's routing table; put, by default of the agent's own node, and of now."""

    routes: list[Route]
    node: str | None = None
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class RoutingTables:
    """The latest tables by node; which nodes have none, and why."""

    tables: Mapping[str, RoutingTable]
    missing: Mapping[str, str]
