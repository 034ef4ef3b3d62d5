"""What a fog is made of, in numbers: the words that plans and backends share."""

from dataclasses import dataclass
from typing import Literal

Way = Literal["up", "down"]


@dataclass(frozen=True, slots=True)
class Shape:
    """How packets of one direction fare: bits/s (None: unlimited), a part of one, milliseconds."""

    rate_bps: int | None = None
    loss: float = 0.0
    delay_ms: float = 0.0
    deviation_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Node:
    """One instance of a label; ``cores`` of the host, which may be a part of one."""

    name: str
    label: str
    service: str
    cores: float
    memory_bytes: int
    networks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Direction:
    """A node's packets to a network (``up``) or from it, to or from one ``peer`` or any node."""

    network: str
    node: str
    way: Way
    shape: Shape
    peer: str | None = None


@dataclass(frozen=True, slots=True)
class FogPlan:
    """A fog at its beginning."""

    networks: tuple[str, ...]
    nodes: tuple[Node, ...]
    directions: tuple[Direction, ...]

    def members(self, network: str) -> tuple[Node, ...]:
        """Return the nodes in a network."""
        return tuple(node for node in self.nodes if network in node.networks)

    def directions_of(self, node: str) -> tuple[Direction, ...]:
        """Return how a node is connected."""
        return tuple(each for each in self.directions if each.node == node)
