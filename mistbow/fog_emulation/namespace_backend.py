"""A fog of network namespaces: each node is one, and each network a bridge in one more."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import msgspec

from mistbow.errors import InvalidRequestError, NotFoundError, UnavailableError
from mistbow.fog_emulation import shaping
from mistbow.fog_emulation.delay_line import Latency, tell
from mistbow.fog_emulation.host import (
    Kernel,
    command,
    in_namespace,
    kernel,
    namespaces,
    shape_device,
)
from mistbow.fog_emulation.parts import Direction, FogPlan, Node, Way
from mistbow.fog_emulation.timetable import Limit, Step, connected

_PREFIX = "mistbow-fog-"
_SUBNET = "10.77"
_NETNS = Path("/run/netns")
_MOST_NETWORKS = 200
_HOSTS = range(2, 250)
_UNBOXED = "network namespaces do not limit processors and memory"

_Key = tuple[str, Way, str | None]


class NamespaceBackend:
    """Carries out plans for processes that a caller starts in nodes by ``spawn``.

    Limits of processor and memory are refused: processes are not boxed here, only their network.
    What stands is asked of the kernel, so another process may take up a fog that this one made.
    """

    def __init__(self, name: str, fog: FogPlan) -> None:
        if not re.fullmatch(r"[a-z0-9-]{1,40}", name):
            raise InvalidRequestError(f"{name!r} is no name of a fog: use a-z, 0-9 and -")
        if len(fog.networks) > _MOST_NETWORKS:
            raise InvalidRequestError(f"there are more than {_MOST_NETWORKS} networks")
        self.name = name
        self._switch = f"{_PREFIX}{name}"
        self._fog = fog
        self._number = {network: number for number, network in enumerate(fog.networks)}
        self._directions = {node.name: _by_key(fog.directions_of(node.name)) for node in fog.nodes}
        self._children: list[subprocess.Popen[bytes]] = []
        self._kernel: Kernel | None = None

    def refusals(self, steps: Sequence[Step] = ()) -> tuple[str, ...]:
        """Return each setting that this machine cannot do, by name and with the reason."""
        can = self._can
        able = shaping.Able(rate=can.tbf, delay=can.netem or can.tap, loss=can.statistic)
        directions = [*self._fog.directions, *connected(steps)]
        return (*self._unboxed(steps), *shaping.refusals(directions, able))

    def up(self) -> None:
        """Make the fog, but for what is refused."""
        command(["ip", "netns", "add", self._switch])
        for number in self._number.values():
            bridge = f"br{number}"
            self._ip(self._switch, "link", "add", bridge, "type", "bridge", "forward_delay", "0")
            self._ip(self._switch, "link", "set", bridge, "up")
        # All nodes have their addresses before rules name them.
        for node in self._fog.nodes:
            self._make(node)
        for node in self._fog.nodes:
            self._shape(node.name)

    def down(self) -> None:
        """Take all away that was ever made under this name."""
        for namespace in namespaces():
            if namespace == self._switch or namespace.startswith(f"{self._switch}."):
                self._remove(namespace)
        while self._children:
            self._children.pop().wait()

    def connect(self, direction: Direction) -> None:
        """Change how a node is connected."""
        self._require(direction.node)
        self._directions[direction.node] |= _by_key([direction])
        self._queue(direction)
        self._lose(direction.node, first=False)

    def limit(self, node: str, cores: float, memory_bytes: int) -> None:  # noqa: ARG002
        """Refuse: see the class."""
        raise UnavailableError(f"{node}: {_UNBOXED}")

    def stress(self, node: str, cores: float, duration_ms: float) -> None:
        """Keep cores busy in a node, without waiting for the end."""
        self._require(node)
        work = [sys.executable, "-m", "mistbow.fog_emulation.busy", str(cores), str(duration_ms)]
        self._children.append(
            self.spawn(node, work, stdin=subprocess.DEVNULL, start_new_session=True)
        )

    def run(self, node: str, command_line: str) -> None:
        """Run a command in a node's shell; raises ``UnavailableError`` if it fails."""
        command([*self._exec(self._namespace(node)), "sh", "-c", command_line])

    def start(self, node: Node, directions: Sequence[Direction]) -> None:
        """Add a node."""
        self._directions[node.name] = _by_key(directions)
        self._make(node)
        self._shape(node.name)
        # Its address may be another than before.
        for other, theirs in self._directions.items():
            if self._exists(other) and any(each.peer == node.name for each in theirs.values()):
                self._lose(other, first=False)

    def stop(self, node: str) -> None:
        """Kill all processes of a node, and take it away."""
        self._require(node)
        self._remove(self._namespace(node))

    def address(self, node: str, network: str) -> str:
        """Return a node's IPv4 address in a network."""
        device = self._device(network)
        shown = self._ip(self._namespace(node), "-json", "addr", "show", "dev", device)
        for each in msgspec.json.decode(shown):
            for entry in each.get("addr_info", ()):
                if entry["family"] == "inet":
                    return str(entry["local"])
        raise NotFoundError(f"{node} has no address in {network}")

    def inside(self, node: str) -> AbstractContextManager[None]:
        """Let sockets that this thread opens belong to a node."""
        return in_namespace(_NETNS / self._namespace(node))

    def spawn(self, node: str, argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a process in a node; ``options`` as for ``Popen``. It ends with the node."""
        return subprocess.Popen([*self._exec(self._namespace(node)), *argv], **options)

    # What follows makes nodes and their cables.

    def _make(self, node: Node) -> None:
        namespace = self._namespace(node.name)
        command(["ip", "netns", "add", namespace])
        self._ip(namespace, "link", "set", "lo", "up")
        for network in node.networks:
            self._plug(node.name, network)

    def _plug(self, node: str, network: str) -> None:
        namespace, device = self._namespace(node), self._device(network)
        number, host = self._number[network], self._free_host(network)
        port = f"p{number}-{host}"
        self._cable(namespace, device, port, network)
        self._ip(self._switch, "link", "set", port, "master", f"br{number}", "up")
        self._ip(namespace, "addr", "add", f"{_SUBNET}.{number}.{host}/24", "dev", device)
        self._ip(namespace, "link", "set", device, "up")

    def _cable(self, namespace: str, device: str, port: str, network: str) -> None:
        """Join node and switch: by the kernel if it can delay, or else by a process of ours."""
        if self._can.netem or not self._can.tap:
            peer = ("peer", "name", port, "netns", self._switch)
            self._ip(namespace, "link", "add", device, "type", "veth", *peer)
            return
        line = [sys.executable, "-m", "mistbow.fog_emulation.delay_line"]
        process = subprocess.Popen(
            [*self._exec(self._switch), *line, str(_NETNS / namespace), device, port],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._children.append(process)
        assert process.stdout is not None  # noqa: S101 - asked for above
        with process.stdout as said:
            if not said.readline():
                raise UnavailableError(f"the delay line of {namespace} to {network} did not start")

    def _shape(self, node: str) -> None:
        for direction in self._directions[node].values():
            self._queue(direction)
        self._lose(node, first=True)

    def _lose(self, node: str, *, first: bool) -> None:
        """Set all rules by which a node loses packets anew; its peers that are away have none."""
        if not self._can.statistic:
            return
        directions = [
            each
            for each in self._directions[node].values()
            if each.peer is None or self._exists(each.peer)
        ]
        devices = {each.network: self._device(each.network) for each in directions}
        addresses = {
            (each.peer, each.network): self.address(each.peer, each.network)
            for each in directions
            if each.peer is not None
        }
        rules = shaping.losing(directions, devices, addresses, first=first)
        command([*self._exec(self._namespace(node)), "iptables-restore", "--noflush"], rules)

    def _queue(self, direction: Direction) -> None:
        """Shape what leaves: what goes up by the node's device, what comes down by the switch's."""
        if direction.peer is not None:
            return  # a link has a loss of its own at most: see ``shaping.refusals``
        if direction.way == "up":
            namespace, device = self._namespace(direction.node), self._device(direction.network)
        else:
            namespace, device = self._switch, self._port(direction.node, direction.network)
        shape_device(_NETNS / namespace, device, direction.shape, self._can)
        if self._can.tap and not self._can.netem:
            self._delay(direction)

    def _delay(self, direction: Direction) -> None:
        shape = direction.shape
        port = self._port(direction.node, direction.network)
        latency = Latency(direction.way, shape.delay_ms, shape.deviation_ms)
        tell(_NETNS / self._switch, port, latency)

    def _remove(self, namespace: str) -> None:
        """Take a namespace away; first all processes in it, for it lives as long as any of them."""
        deadline = time.monotonic() + 10
        while pids := command(["ip", "netns", "pids", namespace]).split():
            if time.monotonic() > deadline:
                raise UnavailableError(f"{namespace}: {', '.join(pids)} cannot be killed")
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            time.sleep(0.01)
        command(["ip", "netns", "del", namespace])

    # What follows are names and questions.

    @property
    def _can(self) -> Kernel:
        if self._kernel is None:
            self._kernel = kernel()
        return self._kernel

    def _unboxed(self, steps: Sequence[Step]) -> Iterator[str]:
        for node in self._fog.nodes:
            yield f"{node.name}: {node.cores:g} cores, {node.memory_bytes} bytes: {_UNBOXED}"
        for step in steps:
            for effect in step.effects:
                if isinstance(effect, Limit):
                    yield f"after {step.at_s} s: new limits for {effect.node}: {_UNBOXED}"

    def _require(self, node: str) -> None:
        if not self._exists(node):
            raise NotFoundError(f"there is no node called {node}")

    def _exists(self, node: str) -> bool:
        return (_NETNS / self._namespace(node)).exists()

    def _free_host(self, network: str) -> int:
        number = self._number[network]
        shown = self._ip(self._switch, "-json", "link", "show", "master", f"br{number}")
        taken = {each["ifname"] for each in msgspec.json.decode(shown or "[]") if each}
        for host in _HOSTS:
            if f"p{number}-{host}" not in taken:
                return host
        raise UnavailableError(f"the network {network} is full")

    def _port(self, node: str, network: str) -> str:
        host = self.address(node, network).rsplit(".", 1)[1]
        return f"p{self._number[network]}-{host}"

    def _device(self, network: str) -> str:
        return f"fog{self._number[network]}"

    def _namespace(self, node: str) -> str:
        return f"{self._switch}.{node}"

    def _exec(self, namespace: str) -> list[str]:
        return ["ip", "netns", "exec", namespace]

    def _ip(self, namespace: str, *arguments: str) -> str:
        return command(["ip", "-n", namespace, *arguments])


def _by_key(directions: Iterable[Direction]) -> dict[_Key, Direction]:
    return {(each.network, each.way, each.peer): each for each in directions}
