"""The nodes of a fog as arrays, with the capacity that remains while jobs are placed."""

import math
from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from analytics_enabler.scheduling.builtin.capacity import UNRELIABILITY_COST
from analytics_enabler.scheduling.builtin.eligibility import eligible_nodes
from analytics_enabler.scheduling.model.jobs import Job, Task
from analytics_enabler.scheduling.model.snapshot import Fog

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Booleans = NDArray[np.bool_]

TOLERANCE = 1e-7
"""The tolerance of comparisons of capacities, which are added and subtracted."""

_UNKNOWN_FACTOR = 10.0
_UNKNOWN_MS = 1000.0
"""The latency of a path without measurements: 10 times the slowest path, and a second more."""


class NodesTable:
    """The nodes of a fog, ordered by name; each array has an element for each node.

    ``jobs``: the jobs whose sites ``from_site`` and ``to_site`` accept. ``cores_free``,
    ``memory_free``: the free capacity after the allocated tasks.
    """

    def __init__(self, fog: Fog, jobs: Iterable[Job]) -> None:
        self.fog = fog
        nodes = list(fog.by_name.values())
        self.nodes = nodes
        self.names = [node.name for node in nodes]
        self.index = {name: number for number, name in enumerate(self.names)}
        self.cores: Floats = np.array([node.cores for node in nodes], float)
        self.memory: Floats = np.array([node.memory_mb for node in nodes], float)
        self.cores_free: Floats = np.array([node.cores_free for node in nodes], float)
        self.memory_free: Floats = np.array([node.memory_free_mb for node in nodes], float)
        self.reliability: Floats = np.array([node.reliability for node in nodes], float)
        self.suspected: Booleans = np.array([node.suspected for node in nodes], bool)
        self.sites = np.array([node.site for node in nodes], dtype=object)
        self._vertices, self._paths = fog.paths_between(self.names)
        self._vertex_of: list[int] = self._vertices.tolist()
        sites = sorted({site for job in jobs for site in _sites_of(job)})
        self._site_index = {site: number for number, site in enumerate(sites)}
        self._from_sites = self._finite(fog.latencies_ms(sites, self.names))
        self._to_sites = self._finite(fog.latencies_ms(self.names, sites))

    def latency_ms(self, source: int, target: int) -> float:
        """Return the latency (ms) from a node to another; see ``latencies_ms``."""
        latency: float = self._paths.item(self._vertex_of[source], self._vertex_of[target])
        return latency if latency < math.inf else self._unknown_ms

    def latencies_ms(self, sources: int | Indices, targets: int | Indices) -> Floats:
        """Return the latencies (ms) between nodes; paths without measurements have a high latency.

        Arrays of nodes are paired as NumPy does, so the matrix of all nodes is never copied.
        """
        latencies: Floats = self._paths[self._vertices[sources], self._vertices[targets]]
        return self._finite(latencies)

    def from_site(self, site: str) -> Floats:
        """Return the latency (ms) from a site to each node."""
        latencies: Floats = self._from_sites[self._site_index[site]]
        return latencies

    def to_site(self, site: str) -> Floats:
        """Return the latency (ms) from each node to a site."""
        latencies: Floats = self._to_sites[:, self._site_index[site]]
        return latencies

    def nodes_of(self, task: Task) -> Indices:
        """Return the nodes that may run a task if their capacity suffices."""
        names = eligible_nodes(task, self.fog)
        if len(names) == len(self.names):
            return self._all
        return np.array([self.index[name] for name in names], np.intp)

    @cached_property
    def _all(self) -> Indices:
        return np.arange(len(self.names))

    def allocate(self, task: Task, node: int, share: float = 1.0) -> None:
        """Subtract a share of a task's demand from a node."""
        self.cores_free[node] -= share * task.cores
        self.memory_free[node] -= share * task.memory_mb

    def release(self, task: Task, node: int) -> None:
        """Return the demand of a task to the free capacity of a node."""
        self.allocate(task, node, -1.0)

    def fits(self, task: Task, nodes: Indices, current: int = -1) -> Booleans:
        """Return which of the nodes have capacity for a task.

        ``current``: the node that runs the task; no other task fits a suspected node.
        """
        fits: Booleans = (
            (self.cores_free[nodes] >= task.cores - TOLERANCE)
            & (self.memory_free[nodes] >= task.memory_mb - TOLERANCE)
            & (~self.suspected[nodes] | (nodes == current))
        )
        return fits

    def load(self, nodes: Indices) -> Floats:
        """Return the load of nodes, plus a cost for recent failures, as ``FreeCapacity.cost``."""
        free = np.minimum(
            self.cores_free[nodes] / self.cores[nodes], self.memory_free[nodes] / self.memory[nodes]
        )
        return np.asarray(1.0 - free + UNRELIABILITY_COST * (1.0 - self.reliability[nodes]))

    @cached_property
    def _unknown_ms(self) -> float:
        measured = self._paths[np.isfinite(self._paths)]
        return _UNKNOWN_FACTOR * float(measured.max(initial=0.0)) + _UNKNOWN_MS

    def _finite(self, latencies: Floats) -> Floats:
        finite = np.isfinite(latencies)
        return latencies if finite.all() else np.where(finite, latencies, self._unknown_ms)


def _sites_of(job: Job) -> Iterator[str]:
    yield job.sink
    yield from (task.pinned for task in job.tasks if task.pinned is not None)
