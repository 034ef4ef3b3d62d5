"""The parts of an emulated fog, which plans and backends share."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Way = Literal["up", "down"]

WAYS: tuple[Way, ...] = ("up", "down")

DirectionKey = tuple[str, Way, str | None]
"""The network, way and peer of a direction, which are unique among the directions of a node."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The traffic shape of one direction: rate, packet loss and delay.

    ``rate_bps``: None: the rate is unlimited. ``loss``: the share of lost packets, from 0 to 1.
    """

    rate_bps: int | None = None
    loss: float = 0.0
    delay_ms: float = 0.0
    deviation_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class EmulatedNode:
    """A node: one instance of a label.

    ``cores``: the number of the host's cores that the node may use, which can be a fraction.
    """

    name: str
    label: str
    service: str
    cores: float
    memory_bytes: int
    networks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Direction:
    """A direction between a node and a network, with the traffic shape of the packets.

    ``way``: ``up`` from the node to the network, ``down`` from the network to the node. ``peer``:
    only packets to or from this node; None: packets to or from any node.
    """

    network: str
    node: str
    way: Way
    shape: Shape
    peer: str | None = None


@dataclass(frozen=True, slots=True)
class FogPlan:
    """The plan of a fog: the networks, nodes and directions at the start."""

    networks: tuple[str, ...]
    nodes: tuple[EmulatedNode, ...]
    directions: tuple[Direction, ...]

    def members(self, network: str) -> tuple[EmulatedNode, ...]:
        """Return the nodes that are connected to a network."""
        return tuple(node for node in self.nodes if network in node.networks)

    def directions_of(self, node: str) -> tuple[Direction, ...]:
        """Return the directions between a node and the node's networks, also those for a single
        peer.
        """
        return tuple(each for each in self.directions if each.node == node)


def by_key(directions: Iterable[Direction]) -> dict[DirectionKey, Direction]:
    """Return key -> direction, for directions of one node."""
    return {(each.network, each.way, each.peer): each for each in directions}
