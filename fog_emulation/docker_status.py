"""The emulated fogs on the Docker daemon of this machine, and the state of their nodes."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import docker  # type: ignore[import-untyped]
from rich.table import Table
from rich.text import Text

from fog_emulation.docker_backend import FOG_LABEL, NODE_LABEL, docker_errors
from fog_emulation.topology import FogPlan
from mistbow.errors import NotFoundError


@dataclass(frozen=True, slots=True)
class NodeState:
    """The state of a node: of its container, or that it does not exist.

    ``state``: a state of Docker, such as ``running`` or ``exited``; ``absent``: there is no
    container. ``cores``, ``memory_bytes``: the present limits; 0 without a container.
    ``addresses``: network -> the address at which this machine reaches the node; empty unless the
    node runs.
    """

    name: str
    state: str
    cores: float = 0.0
    memory_bytes: int = 0
    addresses: Mapping[str, str] = field(default_factory=dict)


def fogs() -> dict[str, list[NodeState]]:
    """Return the fogs that exist: name of the fog -> the nodes with a container."""
    found: dict[str, list[NodeState]] = {}
    with docker_errors(), closing(docker.from_env()) as engine:
        for container in engine.containers.list(all=True, filters={"label": FOG_LABEL}):
            found.setdefault(container.labels[FOG_LABEL], []).append(_state(container))
        for network in engine.networks.list(filters={"label": FOG_LABEL}):
            found.setdefault(network.attrs["Labels"][FOG_LABEL], [])
    return {name: sorted(found[name], key=lambda each: each.name) for name in sorted(found)}


def nodes_of(name: str, fog: FogPlan) -> list[NodeState]:
    """Return the state of each node of a plan, and of nodes that a scenario added.

    Raises ``NotFoundError`` if the fog does not exist.
    """
    nodes = fogs().get(name)
    if nodes is None:
        hint = "`mistbow fog up FILE` starts it; `mistbow fog list` lists the fogs."
        raise NotFoundError(f"there is no fog called {name}", hint=hint)
    present = {node.name for node in nodes}
    absent = [NodeState(node.name, "absent") for node in fog.nodes if node.name not in present]
    return sorted([*nodes, *absent], key=lambda each: each.name)


def list_table(found: dict[str, list[NodeState]]) -> Table:
    """Return a table of fogs."""
    table = Table("fog", "nodes", "running")
    for name, nodes in found.items():
        running = sum(node.state == "running" for node in nodes)
        table.add_row(Text(name), str(len(nodes)), str(running))
    return table


def status_table(nodes: list[NodeState]) -> Table:
    """Return a table of the nodes of one fog."""
    table = Table("instance", "state", "cores", "memory", "networks and addresses")
    for node in nodes:
        there = node.state != "absent"
        table.add_row(
            Text(node.name),
            node.state,
            f"{node.cores:g}" if there else "",
            f"{node.memory_bytes / 2**20:.0f} MB" if there else "",
            "\n".join(f"{name} {at}".strip() for name, at in node.addresses.items()),
        )
    return table


def _state(container: Any) -> NodeState:
    limits = container.attrs["HostConfig"]
    return NodeState(
        name=container.labels[NODE_LABEL],
        state=container.status,
        cores=_cores(limits),
        memory_bytes=limits.get("Memory") or 0,
        addresses=dict(_addresses(container)),
    )


def _cores(limits: Any) -> float:
    period = limits.get("CpuPeriod") or 0
    return round(float(limits["CpuQuota"]) / period, 3) if period else 0.0


def _addresses(container: Any) -> Iterator[tuple[str, str]]:
    prefix = container.name.removesuffix(container.labels[NODE_LABEL])
    for network, settings in sorted(container.attrs["NetworkSettings"]["Networks"].items()):
        yield network.removeprefix(prefix), settings.get("IPAddress") or ""
