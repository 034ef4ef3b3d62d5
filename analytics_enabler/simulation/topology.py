"""The topologies of simulated fogs: a file, a matrix of latencies, or generated tiers."""

import math
import warnings
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from analytics_enabler.scheduling.driver.snapshot import without_drained
from analytics_enabler.scheduling.model.snapshot import Fog, Link, Node, SourceQuality
from analytics_enabler.simulation.equipment import cloud_node, edge_node, region_node
from mistbow.errors import InvalidRequestError

_CLOUD_SHARE = 0.02
_MOBILE_SHARE = 0.05
_MAX_REGIONS = 50
_SITES_PER_REGION = 5
_KM_PER_UNIT = 4000.0
_KM_PER_MS = 100.0  # light in fibre: 200 km per ms, on routes twice as long as the distance
_ACCESS_MS = (2.0, 15.0)
_MAX_ROUND_TRIP_MS = 1e6

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Topology:
    """The nodes of a simulated fog, and the links between its sites.

    ``regions``: region -> its sites with data. ``hubs``: region -> the site that receives the
    results of the region. ``mobile``: the nodes that move; each is a site of its own, and reaches
    the others through the site to which it is attached at the time. ``offsets_h``: site -> the
    difference (h) of its local time. ``sources``: the known qualities of sites' points.
    """

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    regions: Mapping[str, tuple[str, ...]]
    hubs: Mapping[str, str]
    mobile: tuple[str, ...] = ()
    offsets_h: Mapping[str, float] = field(default_factory=dict)
    sources: tuple[SourceQuality, ...] = ()


def load_topology(source: str, nodes: int, rng: np.random.Generator) -> Topology:
    """Return the topology ``tiers``, ``matrix:PATH``, or that of a file.

    ``nodes``: the number of generated nodes; a file has nodes of its own. Raises
    ``InvalidRequestError`` if the topology cannot be read.
    """
    if source == "tiers":
        return generated_tiers(nodes, rng)
    kind, _, path = source.partition(":")
    try:
        if kind == "matrix":
            return on_matrix(read_matrix(Path(path)), nodes, rng)
        return of_snapshot(Path(source).read_bytes())
    except (OSError, EOFError, ValueError, zlib.error, msgspec.MsgspecError) as error:
        raise InvalidRequestError(
            f"the topology {source} cannot be read: {error}",
            hint="Use `tiers`, matrix:PATH with a square CSV of round-trip times (ms), or a file "
            "that `mistbow fog show --json` printed.",
        ) from error


def read_matrix(path: Path) -> Matrix:
    """Return the one-way latencies (ms) in a CSV of round-trip times (ms), also if gzipped.

    A round-trip time of 0 between two sites means that it was not measured; the latency is then
    ``inf``. Sites without any measurement are omitted.
    """
    with warnings.catch_warnings(action="ignore"):
        # An empty file is an error below.
        times = np.loadtxt(path, delimiter=",", ndmin=2)
    if times.shape[0] != times.shape[1] or not ((times >= 0) & (times <= _MAX_ROUND_TRIP_MS)).all():
        raise ValueError(
            f"a matrix of latencies is square, with values from 0 to {_MAX_ROUND_TRIP_MS:,.0f} ms"
        )
    measured = (times > 0).any(axis=1)
    if not measured.any():
        raise ValueError("the matrix has no measured pair of sites")
    latencies = np.where(times > 0, times / 2, math.inf)[measured][:, measured]
    np.fill_diagonal(latencies, 0.0)
    return latencies


def on_matrix(latencies: Matrix, nodes: int, rng: np.random.Generator) -> Topology:
    """Return generated nodes at the sites of a matrix of latencies (ms).

    The cloud is at the site with the lowest median latency. Regions are clusters of sites around
    centres far from each other (Gonzalez, "Clustering to minimize the maximum intercluster
    distance", 1985).
    """
    mobile = int(nodes * _MOBILE_SHARE)
    clouds = max(1, int(nodes * _CLOUD_SHARE))
    count = min(len(latencies), max(nodes - mobile - clouds, 1))
    chosen = np.sort(rng.permutation(len(latencies))[:count])
    latencies = latencies[np.ix_(chosen, chosen)]
    sites = [f"site-{number:04d}" for number in chosen]
    cloud = int(np.argmin(np.median(latencies, axis=1)))
    centres, nearest = _clusters(latencies, cloud, max(1, min(_MAX_REGIONS, count // 5)))
    region_of = {sites[i]: f"region-{nearest[i]:02d}" for i in range(count)}
    hubs = {f"region-{number:02d}": sites[centre] for number, centre in enumerate(centres)}
    links = tuple(
        Link(source=sites[i], target=sites[j], latency_ms=float(latencies[i, j]))
        for i, j in np.argwhere(np.isfinite(latencies) & (latencies > 0))
    )
    return _with_nodes(sites, sites[cloud], region_of, hubs, links, nodes, mobile, rng)


def generated_tiers(nodes: int, rng: np.random.Generator) -> Topology:
    """Return a cloud, regions on a random geometric backbone, and edges around each region.

    The backbone is a minimum spanning tree of the regions with the edges of a Waxman graph
    (Waxman, "Routing of multipoint connections", 1988).
    """
    try:
        import networkx as nx
    except ImportError:
        raise InvalidRequestError(
            "the topology tiers needs networkx",
            hint="Install mistbow[simulation], or use another topology.",
        ) from None
    mobile = int(nodes * _MOBILE_SHARE)
    regions = max(1, min(_MAX_REGIONS, nodes // 10))
    edges = max(nodes - mobile - regions - max(1, int(nodes * _CLOUD_SHARE)), 1)
    hubs = {f"region-{number:02d}": f"hub-{number:02d}" for number in range(regions)}
    backbone = ["cloud", *hubs.values()]
    at = {name: tuple(rng.uniform(0, 1, 2)) for name in backbone}
    complete = nx.complete_graph(backbone)
    for one, other in complete.edges:
        complete.edges[one, other]["weight"] = math.dist(at[one], at[other])
    waxman = nx.waxman_graph(len(backbone), alpha=0.3, seed=int(rng.integers(2**31)))
    graph = nx.minimum_spanning_tree(complete)
    for one, other in waxman.edges:
        ends = backbone[one], backbone[other]
        graph.add_edge(*ends, weight=math.dist(at[ends[0]], at[ends[1]]))
    links = [
        each
        for one, other, weight in sorted(graph.edges.data("weight"))
        for each in _both(one, other, 0.5 + weight * _KM_PER_UNIT / _KM_PER_MS)
    ]
    region_of = {hub: region for region, hub in hubs.items()}
    names = sorted(hubs)
    for number in range(edges):
        region = names[number % regions]
        region_of[f"edge-{number:04d}"] = region
        links += _both(f"edge-{number:04d}", hubs[region], float(rng.uniform(*_ACCESS_MS)))
    sites = ["cloud", *region_of]
    return _with_nodes(sites, "cloud", region_of, hubs, tuple(links), nodes, mobile, rng)


def of_snapshot(document: bytes) -> Topology:
    """Return the fog in a file that ``mistbow fog show --json`` printed; its nodes do not move.

    As in operation, drained nodes receive no fragments.
    """
    fog = without_drained(msgspec.json.decode(document, type=Fog))
    sites: dict[str, set[str]] = {}
    for node in fog.nodes:
        sites.setdefault(node.region or "region", set()).add(node.site)
    regions = {region: tuple(sorted(names)) for region, names in sorted(sites.items())}
    if not regions:
        raise ValueError("the fog has no nodes that are not drained")
    hubs = {region: names[0] for region, names in regions.items()}
    return Topology(fog.nodes, fog.links, regions, hubs, sources=fog.sources)


def _with_nodes(
    sites: Sequence[str],
    cloud: str,
    region_of: Mapping[str, str],
    hubs: Mapping[str, str],
    links: tuple[Link, ...],
    count: int,
    mobile: int,
    rng: np.random.Generator,
) -> Topology:
    """Return a topology whose cloud, hubs, other sites and mobile nodes have ``count`` nodes."""
    edges = [site for site in sites if site != cloud]
    clouds = max(1, int(count * _CLOUD_SHARE))
    nodes = [
        cloud_node(f"cloud-node-{number:03d}", cloud, region_of.get(cloud, ""), rng)
        for number in range(clouds)
    ]
    for number in range(max(count - clouds - mobile, 0)):
        site = edges[number % len(edges)] if edges else cloud
        make = region_node if site in hubs.values() else edge_node
        nodes.append(make(f"node-{number:04d}", site, region_of[site], rng))
    attached = sorted(hubs)
    moving = [f"mobile-{number:03d}" for number in range(mobile)]
    for number, name in enumerate(moving):
        nodes.append(edge_node(name, name, attached[number % len(attached)], rng))
    data: dict[str, list[str]] = {region: [] for region in hubs}
    for node in nodes:
        if node.site != cloud and node.site not in data[node.region]:
            data[node.region].append(node.site)
    for region, hub in hubs.items():
        data[region] = data[region][:_SITES_PER_REGION] or [hub]
    # The local time of a region follows its number, so that the sun moves over the fog.
    hour = {region: 24.0 * number / len(hubs) for number, region in enumerate(sorted(hubs))}
    return Topology(
        tuple(nodes),
        links,
        {region: tuple(names) for region, names in data.items()},
        hubs,
        tuple(moving),
        {node.site: hour.get(node.region, 0.0) for node in nodes},
    )


def _clusters(latencies: Matrix, first: int, count: int) -> tuple[list[int], NDArray[np.int64]]:
    """Return (the centres of clusters, the number of the nearest centre of each site)."""
    finite = np.where(np.isfinite(latencies), latencies, 1e6)
    centres = [first]
    while len(centres) < count:
        centres.append(int(np.argmax(finite[centres].min(axis=0))))
    return centres, finite[centres].argmin(axis=0)


def _both(one: str, other: str, latency_ms: float) -> tuple[Link, Link]:
    return (
        Link(source=one, target=other, latency_ms=latency_ms),
        Link(source=other, target=one, latency_ms=latency_ms),
    )
