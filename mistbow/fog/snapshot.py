"""A fog at one moment: nodes, and the links between them and between their sites."""

import math
from collections.abc import Mapping
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that can run tasks, with operators of other packages; a clock of 0 is unknown.

    Free is what the tasks to be placed may take in all: those of them that run already here count
    as if they did not.
    """

    name: str
    site: str
    cores: float
    cores_free: float
    memory_mb: float
    memory_free_mb: float
    clock_mhz: float = 0.0
    region: str = ""
    labels: Mapping[str, str] = {}
    operators: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (0 <= self.cores_free <= self.cores and 0 < self.cores < math.inf):
            raise ValueError(f"node {self.name}: {self.cores_free} of {self.cores} cores free")
        if not (0 <= self.memory_free_mb <= self.memory_mb and 0 < self.memory_mb < math.inf):
            raise ValueError(
                f"node {self.name}: {self.memory_free_mb} of {self.memory_mb} MB of memory free"
            )

    @property
    def attributes(self) -> dict[str, str]:
        """By what a query can name this node: its labels, ``node``, ``site`` and ``region``."""
        return {**self.labels, "node": self.name, "site": self.site, "region": self.region}


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """One way from a site or node to another, as measured; bandwidth may be unknown."""

    source: str
    target: str
    latency_ms: float
    bandwidth_mbps: float | None = None
    loss: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.latency_ms < math.inf:
            raise ValueError(f"link {self.source} → {self.target}: latency {self.latency_ms} ms")
        if not 0 <= self.loss <= 1:
            raise ValueError(f"link {self.source} → {self.target}: loss {self.loss}")


class Fog(msgspec.Struct, frozen=True, dict=True):
    """All nodes that are alive, and all links that are known.

    A node without links of its own is at its site's door, 0 ms from it and from the others there;
    one with links is reached by these only. A name that is a site's and a node's is the site's.
    """

    nodes: tuple[Node, ...]
    links: tuple[Link, ...] = ()

    def __post_init__(self) -> None:
        if len(self.by_name) < len(self.nodes):
            raise ValueError("two nodes have the same name")

    @cached_property
    def by_name(self) -> dict[str, Node]:
        """Every node by its name, in the order of names."""
        return {node.name: node for node in sorted(self.nodes, key=lambda node: node.name)}

    def site_of(self, node: str) -> str:
        """Return a node's site; raises ``KeyError`` for an unknown node."""
        return self.by_name[node].site

    def latency_ms(self, source: str, target: str) -> float:
        """Return the latency of the best way between two sites or nodes; infinite if none is known.

        >>> edge = Node(name="e", site="edge", cores=1, cores_free=1, memory_mb=9, memory_free_mb=9)
        >>> fog = Fog((edge,), (Link(source="edge", target="cloud", latency_ms=20),))
        >>> fog.latency_ms("e", "cloud"), fog.latency_ms("cloud", "e"), fog.latency_ms("e", "edge")
        (20.0, inf, 0.0)
        """
        numbers, ways = self._ways
        start, end = self._place(source), self._place(target)
        if start == end:
            return 0.0
        if start not in numbers or end not in numbers:
            return math.inf
        return float(ways[numbers[start], numbers[end]])

    def _place(self, name: str) -> str:
        node = self.by_name.get(name)
        return name if node is None or name in self._ways[0] else node.site

    @cached_property
    def _ways(self) -> tuple[dict[str, int], NDArray[np.float64]]:
        # Floyd and Warshall's algorithm in NumPy: three lines, and no graph library is needed.
        places = {node.site for node in self.nodes}
        places.update(end for link in self.links for end in (link.source, link.target))
        numbers = {place: number for number, place in enumerate(sorted(places))}
        ways = np.full((len(numbers), len(numbers)), math.inf)
        np.fill_diagonal(ways, 0.0)
        for link in self.links:
            way = numbers[link.source], numbers[link.target]
            ways[way] = min(ways[way], link.latency_ms)
        for via in range(len(numbers)):
            np.minimum(ways, ways[:, via, None] + ways[via], out=ways)
        return numbers, ways
