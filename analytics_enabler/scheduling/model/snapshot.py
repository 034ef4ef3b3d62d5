"""The snapshot of a fog: nodes, and the links between nodes or sites."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from mistbow.fabric import Position, Power, check_battery

RETRY_MS = 2000.0
"""The time (ms) after which a request counts as lost, and is repeated."""

_MAX_LOSS = 0.99


class Battery(msgspec.Struct, frozen=True, kw_only=True):
    """The battery of a node: its capacity and its charge (Wh).

    ``charging_w``: the power (W) with which the battery is charged now. ``next_charge_s``: the
    duration (s) until charging begins next; None: unknown.
    """

    capacity_wh: float
    charge_wh: float
    charging_w: float = 0.0
    next_charge_s: float | None = None

    def __post_init__(self) -> None:
        check_battery(self.capacity_wh, self.charge_wh, self.charging_w)


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that can run tasks.

    ``operators``: the installed operators from other packages. ``clock_mhz``: the clock speed; 0:
    unknown. The free capacity includes the capacity that tasks of the same scheduling request
    already use, because these tasks are placed again. ``suspected``: whether the node may have
    failed; its tasks stay there, but it gets no others. ``reliability``: from 0 to 1; each recent
    failure of the node lowers it. ``drained``: whether an operator has drained the node, so that
    schedulers do not receive it. ``own_site_only``: whether the node may read and write at its own
    site only.

    The other facts are None if they are unknown. ``price_per_core_hour``: the price of one core for
    an hour. ``price_per_gb``: the price of a GB (10^9 bytes) that leaves the site. Without these
    prices, the labels contain the prices (see ``prices``).
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
    suspected: bool = False
    reliability: float = 1.0
    power: Power | None = None
    battery: Battery | None = None
    price_per_core_hour: float | None = None
    price_per_gb: float | None = None
    position: Position | None = None
    drained: bool = False
    own_site_only: bool = False

    def __post_init__(self) -> None:
        if not (0 <= self.cores_free <= self.cores and 0 < self.cores < math.inf):
            raise ValueError(
                f"node {self.name}: the free cores must be from 0 to all of its cores "
                f"(got {self.cores_free} of {self.cores})"
            )
        if not (0 <= self.memory_free_mb <= self.memory_mb and 0 < self.memory_mb < math.inf):
            raise ValueError(
                f"node {self.name}: the free memory must be from 0 to all of its memory "
                f"(got {self.memory_free_mb} of {self.memory_mb} MB)"
            )
        if not 0 <= self.reliability <= 1:
            raise ValueError(
                f"node {self.name}: the reliability must be from 0 to 1 (got {self.reliability})"
            )

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes for constraints of queries: labels, ``node``, ``site`` and ``region``."""
        return {**self.labels, "node": self.name, "site": self.site, "region": self.region}


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """One direction of a measured connection between two sites or nodes.

    ``bandwidth_mbps``: in Mbit/s; None: unknown. ``loss``: the share of requests that are lost.
    """

    source: str
    target: str
    latency_ms: float
    bandwidth_mbps: float | None = None
    loss: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.latency_ms < math.inf:
            raise ValueError(
                f"link {self.source} → {self.target}: the latency must be at least 0 ms "
                f"(got {self.latency_ms})"
            )
        if not 0 <= self.loss <= 1:
            raise ValueError(
                f"link {self.source} → {self.target}: the loss must be from 0 to 1 "
                f"(got {self.loss})"
            )

    @property
    def delay_ms(self) -> float:
        """The latency (ms) with the expected time of the repetitions of lost requests.

        The number of repetitions has a geometric distribution.

        >>> [Link(source="a", target="b", latency_ms=20, loss=p).delay_ms for p in (0.0, 0.2, 1.0)]
        [20.0, 520.0, 198020.0]
        """
        loss = min(self.loss, _MAX_LOSS)
        return self.latency_ms + round(loss / (1 - loss) * RETRY_MS, 3)


class SourceQuality(msgspec.Struct, frozen=True, kw_only=True):
    """The quality of the points that a site stores, each from 0 to 1; None: unknown.

    ``completeness``: the share of the expected points that were received. ``timeliness``: the share
    of the received points that were not late. ``accuracy``: the share of the points within the
    declared range of their metric.
    """

    site: str
    completeness: float | None = None
    timeliness: float | None = None
    accuracy: float | None = None

    def __post_init__(self) -> None:
        for dimension in ("completeness", "timeliness", "accuracy"):
            value = getattr(self, dimension)
            if value is not None and not 0 <= value <= 1:
                raise ValueError(
                    f"site {self.site}: the {dimension} must be from 0 to 1 (got {value})"
                )

    @property
    def goodness(self) -> float:
        """The product of the known figures: 1 if nothing bad is known.

        >>> SourceQuality(site="edge", completeness=0.5, accuracy=0.9).goodness
        0.45
        """
        figures = (self.completeness, self.timeliness, self.accuracy)
        return math.prod(1.0 if figure is None else figure for figure in figures)


class Fog(msgspec.Struct, frozen=True, dict=True):
    """The nodes that are alive, the measured links, and the known qualities of sites' data.

    A node without links has the latencies of its site. A node with links is reachable only through
    these links. If a site and a node have the same name, the name refers to the site.
    """

    nodes: tuple[Node, ...]
    links: tuple[Link, ...] = ()
    sources: tuple[SourceQuality, ...] = ()

    def __post_init__(self) -> None:
        if len(self.by_name) < len(self.nodes):
            counts = Counter(node.name for node in self.nodes)
            names = ", ".join(sorted(name for name, count in counts.items() if count > 1))
            raise ValueError(f"several nodes of the fog have the same name: {names}")

    @cached_property
    def by_name(self) -> dict[str, Node]:
        """Name -> node, in the order of names."""
        return {node.name: node for node in sorted(self.nodes, key=lambda node: node.name)}

    @cached_property
    def has_confined_nodes(self) -> bool:
        """Whether some node may read and write at its own site only."""
        return any(node.own_site_only for node in self.nodes)

    @cached_property
    def quality_by_site(self) -> dict[str, SourceQuality]:
        """Site -> the quality of its points; sites of unknown quality are missing."""
        return {source.site: source for source in self.sources}

    @cached_property
    def by_site(self) -> dict[str, tuple[Node, ...]]:
        """Site -> its nodes, in the order of names."""
        by_site: dict[str, list[Node]] = {}
        for node in self.by_name.values():
            by_site.setdefault(node.site, []).append(node)
        return {site: tuple(nodes) for site, nodes in by_site.items()}

    def with_nodes(self, nodes: Iterable[Node]) -> "Fog":
        """Return this fog with other nodes.

        The latencies are not computed again if they include the sites of the nodes: in a fog of 700
        sites, the computation takes a second.
        """
        fog = msgspec.structs.replace(self, nodes=tuple(nodes))
        paths = self.__dict__.get("_shortest_paths")
        if paths is not None and all(node.site in paths[0] for node in fog.nodes):
            fog.__dict__["_shortest_paths"] = paths
        return fog

    def site_of(self, node: str) -> str:
        """Return the site that a node belongs to; raises ``KeyError`` for an unknown node."""
        return self.by_name[node].site

    def with_attached(self, attached: Mapping[str, tuple[str, float]]) -> "Fog":
        """Return a fog in which further sites or nodes are each linked to one other.

        ``attached``: a site without links -> (the site to which it is linked, the latency in ms in
        both directions). Only the paths to and from these sites are computed.
        """
        ends = [(name, site, latency) for name, (site, latency) in attached.items()]
        links = [Link(source=one, target=other, latency_ms=ms) for one, other, ms in ends]
        links += [Link(source=other, target=one, latency_ms=ms) for one, other, ms in ends]
        indices, latencies = self._shortest_paths
        latencies = latencies.copy()
        for one, other, latency in ends:
            new, old = indices[one], indices[other]
            latencies[new] = latencies[old] + latency
            latencies[:, new] = latencies[:, old] + latency
            latencies[new, new] = 0.0
        fog = msgspec.structs.replace(self, links=(*self.links, *links))
        fog.__dict__["_shortest_paths"] = indices, latencies
        return fog

    def latency_ms(self, source: str, target: str) -> float:
        """Return the latency in ms of the fastest path from a node or site to another.

        It is the sum of the delays of the links, with the repetitions of lost requests. Without a
        path, the latency is ``inf``.

        >>> edge = Node(name="e", site="edge", cores=1, cores_free=1, memory_mb=9, memory_free_mb=9)
        >>> fog = Fog((edge,), (Link(source="edge", target="cloud", latency_ms=20),))
        >>> fog.latency_ms("e", "cloud"), fog.latency_ms("cloud", "e"), fog.latency_ms("e", "edge")
        (20.0, inf, 0.0)
        """
        indices, latencies = self._shortest_paths
        start, end = self._vertex(source), self._vertex(target)
        if start == end:
            return 0.0
        if start not in indices or end not in indices:
            return math.inf
        return float(latencies[indices[start], indices[end]])

    def latencies_ms(self, sources: Sequence[str], targets: Sequence[str]) -> NDArray[np.float64]:
        """Return ``latency_ms`` for all pairs of nodes or sites, with a row for each source.

        >>> edge = Node(name="e", site="edge", cores=1, cores_free=1, memory_mb=9, memory_free_mb=9)
        >>> fog = Fog((edge,), (Link(source="edge", target="cloud", latency_ms=20),))
        >>> fog.latencies_ms(["e", "far"], ["edge", "cloud", "far"]).tolist()
        [[0.0, 20.0, inf], [inf, inf, 0.0]]
        """
        indices, latencies = self._shortest_paths
        ends = [[self._vertex(name) for name in names] for names in (sources, targets)]
        rows, columns = (np.array([indices.get(end, -1) for end in each], int) for each in ends)
        pairs: NDArray[np.float64] = latencies[np.ix_(rows, columns)]
        pairs[rows < 0, :] = math.inf
        pairs[:, columns < 0] = math.inf
        for row in np.flatnonzero(rows < 0):
            pairs[row, [end == ends[0][row] for end in ends[1]]] = 0.0
        return pairs

    def paths_between(self, nodes: Sequence[str]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return (the vertex of each node, the latencies in ms between all vertices).

        ``latencies[vertices[i], vertices[j]]`` is ``latency_ms(nodes[i], nodes[j])``.
        """
        indices, latencies = self._shortest_paths
        return np.array([indices[self._vertex(name)] for name in nodes], np.intp), latencies

    def _vertex(self, name: str) -> str:
        node = self.by_name.get(name)
        return name if node is None or name in self._shortest_paths[0] else node.site

    @cached_property
    def _shortest_paths(self) -> tuple[dict[str, int], NDArray[np.float64]]:
        """Return (site or linked node -> index, matrix of the latencies in ms by index)."""
        vertices = {node.site for node in self.nodes}
        vertices.update(end for link in self.links for end in (link.source, link.target))
        indices = {vertex: index for index, vertex in enumerate(sorted(vertices))}
        latencies = np.full((len(indices), len(indices)), math.inf)
        np.fill_diagonal(latencies, 0.0)
        sources = [indices[link.source] for link in self.links]
        targets = [indices[link.target] for link in self.links]
        np.minimum.at(latencies, (sources, targets), [link.delay_ms for link in self.links])
        return indices, _all_pairs(latencies)


def _all_pairs(latencies: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the shortest paths between all vertices of a graph; ``inf``: no edge, or no path."""
    # The import takes 0.3 s, and most processes need no path.
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    edges = np.nonzero(np.isfinite(latencies))
    # In a dense matrix, SciPy takes a latency of 0 for a missing edge.
    paths: NDArray[np.float64] = shortest_path(
        csr_array((latencies[edges], edges), shape=latencies.shape)
    )
    return paths
