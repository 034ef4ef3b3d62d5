"""A fog of network namespaces: one namespace for each node, and one namespace for all bridges."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from fog_emulation import traffic_control
from fog_emulation.backend import check_fog_name
from fog_emulation.delay_line import line_shapes, peer_addresses, set_shapes
from fog_emulation.host import (
    KernelFeatures,
    command,
    in_namespace,
    kill_with_argument,
    namespaces,
    probe_kernel,
    shape_device,
)
from fog_emulation.timetable import LimitNode, ScenarioStep, shaped_directions
from fog_emulation.topology import WAYS, Direction, EmulatedNode, FogPlan, Way, by_key
from mistbow.errors import InvalidRequestError, NotFoundError, UnavailableError

_PREFIX = "mistbow-fog-"
_SUBNET = "10.77"
_NETNS = Path("/run/netns")
_MAX_NETWORKS = 200
_HOSTS = range(2, 250)
_NO_LIMITS = "network namespaces do not limit processors and memory"


class NamespaceBackend:
    """Carries out a plan in network namespaces, for processes that a caller starts by ``spawn``.
    The *switch* is the namespace that contains the bridges of all networks.

    Processor and memory limits are refused, because only the network is isolated. The state of the
    fog is read from the kernel, so that another process can continue with the same fog.
    """

    def __init__(self, name: str, fog: FogPlan) -> None:
        check_fog_name(name)
        if len(fog.networks) > _MAX_NETWORKS:
            raise InvalidRequestError(
                f"a fog has at most {_MAX_NETWORKS} networks, not {len(fog.networks)}"
            )
        self.name = name
        self._switch = f"{_PREFIX}{name}"
        self._fog = fog
        self._number = {network: number for number, network in enumerate(fog.networks)}
        self._directions = {node.name: by_key(fog.directions_of(node.name)) for node in fog.nodes}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._linked_networks = traffic_control.networks_of_shaped_links(fog.directions)

    def refusals(self, steps: Sequence[ScenarioStep] = ()) -> tuple[str, ...]:
        """Return the settings that this machine does not support, as texts with reasons."""
        directions = [*self._fog.directions, *shaped_directions(steps)]
        return (
            *self._limit_refusals(steps),
            *traffic_control.refusals(directions, self._features.supported_shapes),
        )

    def up(self) -> None:
        """Create the fog, except for the settings that this machine does not support."""
        command(["ip", "netns", "add", self._switch])
        for number in self._number.values():
            bridge = f"br{number}"
            self._ip(self._switch, "link", "add", bridge, "type", "bridge", "forward_delay", "0")
            self._ip(self._switch, "link", "set", bridge, "up")
        # Loss rules contain the addresses of nodes, so all nodes exist first.
        for node in self._fog.nodes:
            self._create_node(node)
        for node in self._fog.nodes:
            self._shape_node(node.name)

    def down(self) -> None:
        """Remove all objects that were created under the name of this fog."""
        for namespace in namespaces():
            if namespace == self._switch or namespace.startswith(f"{self._switch}."):
                self._remove(namespace)
        while self._processes:
            self._processes.pop().wait()

    def connect(self, direction: Direction) -> None:
        """Change the traffic shape of one direction between a node and a network."""
        self._require(direction.node)
        self._directions[direction.node] |= by_key([direction])
        self._shape_direction(direction)
        self._shape_line(direction.node, direction.network, direction.way)
        self._set_loss(direction.node, first=False)

    def limit(self, node: str, cores: float, memory_bytes: int) -> None:  # noqa: ARG002
        """Raise ``UnavailableError``, because namespaces have no CPU or memory limits."""
        raise UnavailableError(f"node {node}: {_NO_LIMITS}")

    def stress(self, node: str, cores: float, duration_ms: float) -> None:
        """Start to keep cores busy in a node, for ``duration_ms``; do not wait for the end."""
        self._require(node)
        work = [sys.executable, "-m", "fog_emulation.cpu_load", str(cores), str(duration_ms)]
        self._processes.append(
            self.spawn(node, work, stdin=subprocess.DEVNULL, start_new_session=True)
        )

    def run(self, node: str, command_line: str) -> None:
        """Run a command in a node's shell; raises ``UnavailableError`` if it fails."""
        command([*self._exec_argv(self._namespace(node)), "sh", "-c", command_line])

    def start(self, node: EmulatedNode, directions: Sequence[Direction]) -> None:
        """Start a node and add it to the fog."""
        self._directions[node.name] = by_key(directions)
        self._create_node(node)
        self._shape_node(node.name)
        # A restarted node may have another address: the rules of its peers name it.
        for other, theirs in self._directions.items():
            links = [each for each in theirs.values() if each.peer == node.name]
            if links and self._exists(other):
                for link in links:
                    self._shape_line(other, link.network, link.way)
                self._set_loss(other, first=False)

    def stop(self, node: str) -> None:
        """Kill all processes of a node, and remove its namespace."""
        self._require(node)
        # Its delay lines run beside the bridges, and keep the devices of both their ends.
        kill_with_argument(self._switch, str(_NETNS / self._namespace(node)))
        self._remove(self._namespace(node))

    def address(self, node: str, network: str) -> str:
        """Return a node's IPv4 address in a network."""
        device = self._device(network)
        output = self._ip(self._namespace(node), "-json", "addr", "show", "dev", device)
        for each in msgspec.json.decode(output):
            for entry in each.get("addr_info", ()):
                if entry["family"] == "inet":
                    return str(entry["local"])
        raise NotFoundError(f"the node {node} has no address in the network {network}")

    def inside(self, node: str) -> AbstractContextManager[None]:
        """Open this thread's sockets in a node's network namespace, inside the ``with`` block."""
        return in_namespace(_NETNS / self._namespace(node))

    def spawn(self, node: str, argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a process that ends with the node ``node``; ``options`` are passed to ``Popen``."""
        return subprocess.Popen(self.command_in(node, argv), **options)

    def command_in(self, node: str, argv: Sequence[str]) -> list[str]:
        """Return the command that runs ``argv`` in a node; its process becomes that of ``argv``."""
        return [*self._exec_argv(self._namespace(node)), *argv]

    def _create_node(self, node: EmulatedNode) -> None:
        namespace = self._namespace(node.name)
        command(["ip", "netns", "add", namespace])
        self._ip(namespace, "link", "set", "lo", "up")
        for network in node.networks:
            self._attach(node.name, network)

    def _attach(self, node: str, network: str) -> None:
        namespace, device = self._namespace(node), self._device(network)
        number, host = self._number[network], self._free_host(network)
        port = f"p{number}-{host}"
        self._cable(namespace, device, port, network)
        self._ip(self._switch, "link", "set", port, "master", f"br{number}", "up")
        self._ip(namespace, "addr", "add", f"{_SUBNET}.{number}.{host}/24", "dev", device)
        self._ip(namespace, "link", "set", device, "up")

    def _cable(self, namespace: str, device: str, port: str, network: str) -> None:
        """Connect a node to the switch by a delay line, or by a pair of virtual devices if the
        kernel applies all shapes in the network.
        """
        if not self._has_line(network):
            peer = ("peer", "name", port, "netns", self._switch)
            self._ip(namespace, "link", "add", device, "type", "veth", *peer)
            return
        line = [sys.executable, "-m", "fog_emulation.delay_line"]
        process = subprocess.Popen(
            [
                *self._exec_argv(self._switch),
                *line,
                *(str(_NETNS / namespace), device, port, "network"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._processes.append(process)
        assert process.stdout is not None  # noqa: S101 - stdout is a pipe
        with process.stdout as output:
            if not output.readline():
                raise UnavailableError(f"the delay line of {namespace} to {network} did not start")

    def _shape_node(self, node: str) -> None:
        for direction in self._directions[node].values():
            self._shape_direction(direction)
        for network in {network for network, _, _ in self._directions[node]}:
            for way in WAYS:
                self._shape_line(node, network, way)
        self._set_loss(node, first=True)

    def _set_loss(self, node: str, *, first: bool) -> None:
        """Replace the packet-loss rules of a node; links to nodes that do not run get no rules."""
        if not self._features.statistic:
            return
        directions, addresses = self._directions[node].values(), self._peer_addresses(node)
        networks = {each.network for each in directions}
        devices = {network: self._device(network) for network in networks}
        rules = traffic_control.loss_rules(directions, devices, addresses, first=first)
        command([*self._exec_argv(self._namespace(node)), "iptables-restore", "--noflush"], rules)

    def _shape_direction(self, direction: Direction) -> None:
        """Set the traffic shape of one direction that the kernel applies: at the node's device (up)
        or the switch's port (down).
        """
        linked = direction.network in self._linked_networks and self._features.tap
        if direction.peer is not None or linked:
            return  # delay lines apply these shapes
        if direction.way == "up":
            namespace, device = self._namespace(direction.node), self._device(direction.network)
        else:
            namespace, device = self._switch, self._port(direction.node, direction.network)
        shape_device(_NETNS / namespace, device, direction.shape, self._features)

    def _shape_line(self, node: str, network: str, way: Way) -> None:
        """Set the rates and delays of one direction that a delay line applies, if there is one."""
        if not self._has_line(network):
            return
        has_links = network in self._linked_networks
        shapes = line_shapes(
            self._directions[node].values(),
            network,
            way,
            self._peer_addresses(node) if has_links else {},
            rates=has_links,
        )
        set_shapes(_NETNS / self._switch, self._port(node, network), shapes)

    def _has_line(self, network: str) -> bool:
        needed = network in self._linked_networks or not self._features.netem
        return needed and self._features.tap

    def _peer_addresses(self, node: str) -> dict[tuple[str, str], str]:
        """Return (peer, network) -> address, for the links of a node to peers that run."""
        return peer_addresses(self._directions[node].values(), self._exists, self.address)

    def _remove(self, namespace: str) -> None:
        """Kill the processes in a network namespace, then remove the namespace.

        A namespace continues to exist while processes run in it.
        """
        deadline = time.monotonic() + 10
        while pids := command(["ip", "netns", "pids", namespace]).split():
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"namespace {namespace}: the processes {', '.join(pids)} "
                    f"still run after SIGKILL"
                )
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            time.sleep(0.01)
        command(["ip", "netns", "del", namespace])

    @cached_property
    def _features(self) -> KernelFeatures:
        return probe_kernel()

    def _limit_refusals(self, steps: Sequence[ScenarioStep]) -> Iterator[str]:
        for node in self._fog.nodes:
            yield f"{node.name}: {node.cores:g} cores, {node.memory_bytes} bytes: {_NO_LIMITS}"
        for step in steps:
            for effect in step.effects:
                if isinstance(effect, LimitNode):
                    yield f"after {step.at_s} s: new limits for {effect.node}: {_NO_LIMITS}"

    def _require(self, node: str) -> None:
        if not self._exists(node):
            raise NotFoundError(f"there is no node called {node}")

    def _exists(self, node: str) -> bool:
        return (_NETNS / self._namespace(node)).exists()

    def _free_host(self, network: str) -> int:
        number = self._number[network]
        output = self._ip(self._switch, "-json", "link", "show", "master", f"br{number}")
        taken = {each["ifname"] for each in msgspec.json.decode(output or "[]") if each}
        for host in _HOSTS:
            if f"p{number}-{host}" not in taken:
                return host
        raise UnavailableError(f"the network {network} has no free address")

    def _port(self, node: str, network: str) -> str:
        host = self.address(node, network).rsplit(".", 1)[1]
        return f"p{self._number[network]}-{host}"

    def _device(self, network: str) -> str:
        return f"fog{self._number[network]}"

    def _namespace(self, node: str) -> str:
        return f"{self._switch}.{node}"

    def _exec_argv(self, namespace: str) -> list[str]:
        return ["ip", "netns", "exec", namespace]

    def _ip(self, namespace: str, *arguments: str) -> str:
        return command(["ip", "-n", namespace, *arguments])
