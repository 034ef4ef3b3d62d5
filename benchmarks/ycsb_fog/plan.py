"""The plan of the experiment: the sizes of the fog, its links, the workloads and the runs."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

from benchmarks.storage.workloads import WORKLOADS, Workload
from fog_emulation.topology import Direction, EmulatedNode, FogPlan, Shape

T = TypeVar("T")

CLIENT = "client"
"""The node of the clients, with the same link as the others."""

NETWORK = "wide"
STORES = ("Redis", "Mistbow")
LINK = Shape(rate_bps=10_000_000_000, delay_ms=3.0)
"""The way out of each node, as in the specification: 10,000 Mbit/s and 3 ms."""

SUPPORTED = tuple(each for each in WORKLOADS if not each.shares.keys() & {"scan", "insert"})
"""The workloads without scans, which shards do not answer, and without inserts, since a client
could read a record that another client has not inserted yet.
"""

SPECIFIED_NODES = (6, 10, 14, 20)
SPECIFIED_OPERATIONS = (1000, 5000, 10_000, 20_000)
"""The sizes of the fog, and the numbers of operations of a run, in the specification."""

_MIN_NODES = 6
_MAX_NODES = 60


@dataclass(frozen=True)
class Plan:
    """What is measured.

    ``nodes``: the sizes of the fog. ``operations``: the numbers of operations of a run, and of the
    records. ``clients``: the concurrent clients; each sends an operation when the previous one is
    answered. ``runs``: the runs of each combination.
    """

    nodes: tuple[int, ...] = SPECIFIED_NODES
    operations: tuple[int, ...] = (1000, 2000)
    workloads: tuple[str, ...] = ("A", "B")
    stores: tuple[str, ...] = STORES
    clients: int = 8
    runs: int = 4

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value == () or value == 0:
                raise ValueError(f"{each.name}: give at least one")
        for count in self.nodes:
            if count % 2 or not _MIN_NODES <= count <= _MAX_NODES:
                raise ValueError(
                    f"nodes: {count}: give an even number from {_MIN_NODES} to {_MAX_NODES}: Redis "
                    f"needs 3 leaders, with a replica each"
                )
        unknown = {*self.workloads} - {each.name for each in SUPPORTED}
        if unknown:
            names = ", ".join(each.name for each in SUPPORTED)
            raise ValueError(f"workloads: {', '.join(sorted(unknown))}: use {names}")

    @property
    def chosen(self) -> tuple[Workload, ...]:
        """The workloads to run."""
        return tuple(each for each in SUPPORTED if each.name in self.workloads)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the fog, from the smallest: the fog only grows."""
        return tuple(sorted(set(self.nodes)))

    @property
    def counts(self) -> tuple[int, ...]:
        """The numbers of operations, from the smallest: records are only added."""
        return tuple(sorted(set(self.operations)))


def node_names(count: int) -> tuple[str, ...]:
    """Return the names of the first nodes.

    >>> node_names(2)
    ('n1', 'n2')
    """
    return tuple(f"n{number}" for number in range(1, count + 1))


def fog_plan(count: int) -> FogPlan:
    """Return the plan of a fog of ``count`` nodes and the client's, in one network.

    The whole delay is on the way out of a node. So a message takes 3 ms and a round trip 6 ms, and
    the delay line, whose clock has whole milliseconds, is exact.
    """
    names = (CLIENT, *node_names(count))
    nodes = tuple(EmulatedNode(name, name, "node", 1.0, 2**30, (NETWORK,)) for name in names)
    ways = [(Direction(NETWORK, name, "up", LINK), _down(name)) for name in names]
    return FogPlan((NETWORK,), nodes, tuple(each for pair in ways for each in pair))


def split(items: Sequence[T], clients: int) -> list[Sequence[T]]:
    """Return the items of each client: in turn, so that the numbers differ by at most one.

    >>> split("abcde", 2)
    ['ace', 'bd']
    """
    return [items[client::clients] for client in range(clients)]


def _down(node: str) -> Direction:
    return Direction(NETWORK, node, "down", Shape())
