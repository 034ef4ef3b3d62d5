"""A fog of containers on this machine's Docker."""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import docker  # type: ignore[import-untyped]
import msgspec
from docker.errors import DockerException, NotFound  # type: ignore[import-untyped]
from docker.types import Mount  # type: ignore[import-untyped]

from mistbow.errors import InvalidRequestError, NotFoundError, UnavailableError
from mistbow.fog_emulation import shaping
from mistbow.fog_emulation.docker_cables import Cables
from mistbow.fog_emulation.host import (
    Kernel,
    command,
    in_namespace,
    kernel,
    own_namespace,
    shape_device,
)
from mistbow.fog_emulation.parts import Direction, FogPlan, Node
from mistbow.fog_emulation.services import Service
from mistbow.fog_emulation.timetable import Limit, Start, Step, connected

_LABEL = "mistbow.fog"
_NODE = "mistbow.fog.node"
_PERIOD_US = 100_000

# Joins the control groups that are named before "--", and becomes the command after it.
_JOIN = 'while [ "$1" != -- ]; do echo $$ > "$1"; shift; done; shift; exec "$@"'

_Key = tuple[str, str, str | None]


class DockerBackend:
    """Carries out plans on a Docker daemon that runs on this machine, as root.

    Rates, losses and delays are set from outside, so images need no tools. All that is made is
    labelled with the fog's name.
    """

    def __init__(self, name: str, fog: FogPlan, services: Mapping[str, Service]) -> None:
        if not re.fullmatch(r"[a-z0-9-]{1,40}", name):
            raise InvalidRequestError(f"{name!r} is no name of a fog: use a-z, 0-9 and -")
        self.name = name
        self.fog = fog
        self._services = services
        self._directions = {node.name: _by_key(fog.directions_of(node.name)) for node in fog.nodes}
        self._busy: dict[str, list[subprocess.Popen[bytes]]] = {}
        self._kernel: Kernel | None = None
        self._cables = Cables(self._full("cables"))
        self._slow = {each.network for each in fog.directions if each.shape.delay_ms}
        with _docker_says():
            self._docker = docker.from_env()

    def refusals(self, steps: Sequence[Step] = ()) -> tuple[str, ...]:
        """Return each setting that this machine cannot do, by name and with the reason."""
        can = self._can
        able = shaping.Able(rate=can.tbf, delay=can.netem or can.tap, loss=can.statistic)
        later = list(connected(steps))
        return (
            *self._left_out(),
            *self._too_much(steps),
            *shaping.refusals([*self.fog.directions, *later], able),
            *(() if can.netem else self._too_late(later)),
        )

    def up(self) -> None:
        """Make the fog, but for what is refused."""
        with _docker_says():
            for network in self.fog.networks:
                # The host reaches internal ones too; their nodes reach nothing outside the fog.
                self._docker.networks.create(
                    self._full(network), internal=True, labels={_LABEL: self.name}
                )
            for node in self.fog.nodes:
                self._make(node)
        for node in self.fog.nodes:
            self._shape(node.name)

    def down(self) -> None:
        """Take all away that was ever made under this fog's name."""
        for node in list(self._busy):
            self._calm(node)
        ours = {"label": f"{_LABEL}={self.name}"}
        with _docker_says():
            for container in self._docker.containers.list(all=True, filters=ours):
                container.remove(force=True, v=True)
            # A line's outer end is on a network's bridge.
            self._cables.remove()
            for network in self._docker.networks.list(filters=ours):
                network.remove()

    def connect(self, direction: Direction) -> None:
        """Change how a node is connected."""
        self._container(direction.node)
        self._directions[direction.node] |= _by_key([direction])
        self._queue(direction)
        self._lose(direction.node, first=False)

    def limit(self, node: str, cores: float, memory_bytes: int) -> None:
        """Give a node other limits."""
        with _docker_says():
            self._container(node).update(**_limits(cores, memory_bytes))

    def stress(self, node: str, cores: float, duration_ms: float) -> None:
        """Keep cores busy within the node's limits, without waiting for the end."""
        work = [sys.executable, "-m", "mistbow.fog_emulation.busy", str(cores), str(duration_ms)]
        groups = map(str, _processor_groups(self._pid(node)))
        argv = ["sh", "-c", _JOIN, "sh", *groups, "--", *work]
        self._busy.setdefault(node, []).append(subprocess.Popen(argv, stdin=subprocess.DEVNULL))

    def run(self, node: str, command_line: str) -> None:
        """Run a command in a node's shell; raises ``UnavailableError`` if it fails."""
        with _docker_says():
            ended = self._container(node).exec_run(["sh", "-c", command_line])
        if ended.exit_code != 0:
            said = ended.output.decode(errors="replace").strip()
            raise UnavailableError(f"{node}: {command_line}: {said or ended.exit_code}")

    def start(self, node: Node, directions: Sequence[Direction]) -> None:
        """Add a node."""
        self._directions[node.name] = _by_key(directions)
        with _docker_says():
            self._make(node)
        self._shape(node.name)
        # Its address may be another than before.
        for other in self._alive() - {node.name}:
            if any(each.peer == node.name for each in self._directions.get(other, {}).values()):
                self._lose(other, first=False)

    def stop(self, node: str) -> None:
        """Kill a node's container, and take it away."""
        self._calm(node)
        with _docker_says():
            self._container(node).remove(force=True, v=True)
        for network in self._delayed(node):
            self._cables.cut(node, network)

    def address(self, node: str, network: str) -> str:
        """Return a node's IPv4 address in a network."""
        networks = self._container(node).attrs["NetworkSettings"]["Networks"]
        address = networks.get(self._full(network), {}).get("IPAddress")
        if not address:
            raise NotFoundError(f"{node} has no address in {network}")
        return str(address)

    def inside(self, node: str) -> AbstractContextManager[None]:
        """Let sockets that this thread opens belong to a node."""
        return in_namespace(self._namespace(node))

    # What follows makes nodes, and shapes their packets.

    def _make(self, node: Node) -> None:
        service = self._services[node.service]
        first, *others = node.networks
        endpoint = self._docker.api.create_endpoint_config(**_names(node, first))
        container = self._docker.containers.create(
            service.image,
            service.command,
            entrypoint=service.entrypoint,
            environment=service.environment,
            name=self._full(node.name),
            hostname=node.name,
            labels={_LABEL: self.name, _NODE: node.name},
            network=self._full(first),
            networking_config={self._full(first): endpoint},
            shm_size=service.shm_size,
            mounts=[
                Mount(f"/run/secrets/{name}", str(file), type="bind", read_only=True)
                for name, file in service.secrets.items()
            ],
            init=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            **_limits(node.cores, node.memory_bytes),
        )
        for network in others:
            self._docker.networks.get(self._full(network)).connect(
                container, **_names(node, network)
            )
        container.start()

    def _shape(self, node: str) -> None:
        for network in self._delayed(node):
            self._cables.lay(node, network, self._ends(node, network)[1])
        for direction in self._directions[node].values():
            self._queue(direction)
        self._lose(node, first=True)

    def _queue(self, direction: Direction) -> None:
        """Shape what leaves: what goes up by the node's device, what comes down by the host's."""
        if direction.peer is not None:
            return  # a link has a loss of its own at most: see ``shaping.refusals``
        namespace = self._namespace(direction.node)
        device, port = self._ends(direction.node, direction.network)
        if direction.way == "up":
            shape_device(namespace, device, direction.shape, self._can)
        else:
            far_side = self._far_side(direction.node, direction.network)
            shape_device(far_side, port, direction.shape, self._can)
        if direction.network in self._delayed(direction.node):
            self._cables.delay(direction)

    def _lose(self, node: str, *, first: bool) -> None:
        """Set all rules by which a node loses packets anew; its peers that are away have none."""
        if not self._can.statistic:
            return
        alive = self._alive()
        directions = [
            each
            for each in self._directions[node].values()
            if each.peer is None or each.peer in alive
        ]
        devices = {each.network: self._ends(node, each.network)[0] for each in directions}
        addresses = {
            (each.peer, each.network): self.address(each.peer, each.network)
            for each in directions
            if each.peer is not None
        }
        rules = shaping.losing(directions, devices, addresses, first=first)
        with self.inside(node):
            command(["iptables-restore", "--noflush"], rules)

    def _ends(self, node: str, network: str) -> tuple[str, str]:
        """Return the devices at both ends of a node's cable: its own, and the host's."""
        address = self.address(node, network)
        with self.inside(node):
            near = next(
                each
                for each in _listed("addr")
                if any(entry.get("local") == address for entry in each["addr_info"])
            )
        with in_namespace(self._far_side(node, network)):
            far = next(each for each in _listed("link") if each["ifindex"] == near["link_index"])
        return near["ifname"], far["ifname"]

    def _far_side(self, node: str, network: str) -> Path:
        """Return the network namespace of the far end of a node's cable."""
        laid = self._cables.is_laid(node, network)
        return self._cables.room if laid else own_namespace()

    def _delayed(self, node: str) -> set[str]:
        """Return the networks that a node needs delay lines to."""
        if self._can.netem or not self._can.tap:
            return set()
        return self._slow & {network for network, _, _ in self._directions[node]}

    def _calm(self, node: str) -> None:
        for process in self._busy.pop(node, ()):
            process.terminate()
            process.wait()

    # What follows are names and questions.

    @property
    def _can(self) -> Kernel:
        if self._kernel is None:
            self._kernel = kernel()
        return self._kernel

    def _left_out(self) -> Iterator[str]:
        for name in sorted({node.service for node in self.fog.nodes}):
            for key in self._services[name].left_out:
                yield f"services.{name}.{key}: emulated nodes do not take it from a compose file"
            for secret, file in self._services[name].secrets.items():
                if not file.is_file():
                    yield f"services.{name}.secrets.{secret}: there is no file {file}"
        for node in self.fog.nodes:
            if not node.networks:
                yield f"{node.name}: a container needs a network"

    def _too_late(self, directions: Sequence[Direction]) -> Iterator[str]:
        for each in directions:
            if each.shape.delay_ms and each.network not in self._slow:
                yield f"{each.node} {each.network}: a delay line has to be there from the beginning"

    def _too_much(self, steps: Sequence[Step]) -> Iterator[str]:
        with _docker_says():
            info = self._docker.info()
        effects = [effect for step in steps for effect in step.effects]
        nodes = [*self.fog.nodes, *(each.node for each in effects if isinstance(each, Start))]
        limits = [(node.name, node.cores, node.memory_bytes) for node in nodes]
        changes = [each for each in effects if isinstance(each, Limit)]
        limits += [(each.node, each.cores, each.memory_bytes) for each in changes]
        for name, cores, memory in limits:
            if cores > info["NCPU"] or not info["CpuCfsQuota"]:
                yield f"{name}: {cores:g} cores: this machine limits up to {info['NCPU']}"
            if memory > info["MemTotal"] or not info["MemoryLimit"]:
                yield f"{name}: {memory} bytes: this machine limits up to {info['MemTotal']}"

    def _container(self, node: str) -> Any:
        with _docker_says():
            try:
                return self._docker.containers.get(self._full(node))
            except NotFound as error:
                raise NotFoundError(f"there is no node called {node}") from error

    def _alive(self) -> set[str]:
        ours = {"label": f"{_LABEL}={self.name}"}
        with _docker_says():
            return {each.labels[_NODE] for each in self._docker.containers.list(filters=ours)}

    def _pid(self, node: str) -> int:
        pid = int(self._container(node).attrs["State"]["Pid"])
        if pid == 0:
            raise UnavailableError(f"{node} does not run: look at its service's log")
        return pid

    def _namespace(self, node: str) -> Path:
        return Path(f"/proc/{self._pid(node)}/ns/net")

    def _full(self, name: str) -> str:
        return f"mistbow-fog-{self.name}-{name}"


def _limits(cores: float, memory_bytes: int) -> dict[str, int]:
    # No swap beyond the memory: a fog's node has none to hide in.
    return {
        "cpu_period": _PERIOD_US,
        "cpu_quota": round(cores * _PERIOD_US),
        "mem_limit": memory_bytes,
        "memswap_limit": memory_bytes,
    }


def _processor_groups(pid: int) -> Iterator[Path]:
    """Yield the files by which a process joins those groups of another that limit and count cores.

    Version 1 of control groups has one for each purpose, version 2 one in all, without a name.
    """
    root = Path("/sys/fs/cgroup")
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in {"cpu", "cpuacct"} & set(controllers.split(",")):
            yield root / controller / path.lstrip("/") / "cgroup.procs"
        if not controllers and (root / "cgroup.controllers").exists():
            yield root / path.lstrip("/") / "cgroup.procs"


def _listed(kind: str) -> list[dict[str, Any]]:
    found = msgspec.json.decode(command(["ip", "-json", kind, "show"]), type=list[dict[str, Any]])
    return [each for each in found if each]


def _names(node: Node, network: str) -> dict[str, list[str]]:
    # With its network's, as in Fogify, a name means one address also between nodes that share two.
    return {"aliases": [node.label, node.name, f"{node.label}.{network}"]}


def _by_key(directions: Iterable[Direction]) -> dict[_Key, Direction]:
    return {(each.network, each.way, each.peer): each for each in directions}


@contextmanager
def _docker_says() -> Iterator[None]:
    try:
        yield
    except DockerException as error:
        raise UnavailableError(f"Docker: {error}", hint="Does the Docker daemon run?") from error
