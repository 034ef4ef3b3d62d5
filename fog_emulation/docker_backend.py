"""A fog of containers on the Docker daemon of this machine."""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import docker  # type: ignore[import-untyped]
import msgspec
from docker.errors import DockerException, NotFound  # type: ignore[import-untyped]
from docker.types import LogConfig, Mount  # type: ignore[import-untyped]

from fog_emulation import traffic_control
from fog_emulation.backend import check_fog_name
from fog_emulation.delay_line import line_shapes, peer_addresses
from fog_emulation.docker_cables import Cables
from fog_emulation.fog_trust import FOLDER, FogTrust, archive, node_trust
from fog_emulation.host import (
    KernelFeatures,
    command,
    in_namespace,
    own_namespace,
    probe_kernel,
    shape_device,
)
from fog_emulation.services import ComposeService
from fog_emulation.timetable import LimitNode, ScenarioStep, StartNode, shaped_directions
from fog_emulation.topology import WAYS, Direction, EmulatedNode, FogPlan, Way, by_key
from mistbow.errors import NotFoundError, UnavailableError

FOG_LABEL = "mistbow.fog"
"""The label of containers and networks; its value is the name of the fog."""

NODE_LABEL = "mistbow.fog.node"
"""The label of containers; its value is the name of the node."""

PIDS_LIMIT = 2048
"""The maximum number of processes and threads of a node, as in docker-compose.yml."""

_PERIOD_US = 100_000
_REMOVALS = 8
"""The number of containers that are removed at a time."""

# As in docker-compose.yml: a fog that runs for days must not fill the disk.
_LOGS = LogConfig(type=LogConfig.types.JSON, config={"max-size": "10m", "max-file": "3"})

# Joins the control groups before "--", then executes the command after it.
_JOIN_GROUPS = 'while [ "$1" != -- ]; do echo $$ > "$1"; shift; done; shift; exec "$@"'


class DockerBackend:
    """Carries out a plan on a Docker daemon that runs on this machine, as root.

    Rates, packet losses and delays are set from outside the containers, so images need no tools.
    Containers and networks have the name of the fog as a label. ``trust``: issues the identities
    and tokens that the labels of services name; None: none.
    """

    def __init__(
        self,
        name: str,
        fog: FogPlan,
        services: Mapping[str, ComposeService],
        trust: FogTrust | None = None,
    ) -> None:
        check_fog_name(name)
        self.name = name
        self.fog = fog
        self._services = services
        self._trust = trust
        self._directions = {node.name: by_key(fog.directions_of(node.name)) for node in fog.nodes}
        self._stress_processes: dict[str, list[subprocess.Popen[bytes]]] = {}
        self._cables = Cables(self._docker_name("cables"))
        self._linked_networks = traffic_control.networks_of_shaped_links(fog.directions)
        self._delayed_networks = {each.network for each in fog.directions if each.shape.delay_ms}
        with docker_errors():
            self._docker = docker.from_env()

    def refusals(self, steps: Sequence[ScenarioStep] = ()) -> tuple[str, ...]:
        """Return the settings that this machine does not support, as texts with reasons."""
        features = self._features
        later = list(shaped_directions(steps))
        return (
            *self._service_refusals(),
            *self._capacity_refusals(steps),
            *traffic_control.refusals([*self.fog.directions, *later], features.supported_shapes),
            *(() if features.netem else self._delay_refusals(later)),
        )

    def up(self) -> None:
        """Create the fog, except for the settings that this machine does not support."""
        with docker_errors():
            for network in self.fog.networks:
                # The host reaches internal networks too; their nodes reach nothing outside the fog.
                self._docker.networks.create(
                    self._docker_name(network), internal=True, labels={FOG_LABEL: self.name}
                )
            for node in self.fog.nodes:
                self._create_node(node)
        for node in self.fog.nodes:
            self._shape_node(node.name)

    def down(self) -> None:
        """Remove all objects that were created under the name of this fog."""
        for node in list(self._stress_processes):
            self._stop_stress(node)
        ours = {"label": f"{FOG_LABEL}={self.name}"}
        with docker_errors():
            containers = self._docker.containers.list(all=True, filters=ours)
            # The daemon takes a second or two for each.
            with ThreadPoolExecutor(_REMOVALS) as pool:
                list(pool.map(lambda each: each.remove(force=True, v=True), containers))
            # The outer end of a delay line is on the bridge of a network, so it goes first.
            self._cables.remove()
            for network in self._docker.networks.list(filters=ours):
                network.remove()

    def connect(self, direction: Direction) -> None:
        """Change the traffic shape of one direction between a node and a network."""
        self._container(direction.node)
        self._directions[direction.node] |= by_key([direction])
        self._shape_direction(direction)
        self._shape_line(direction.node, direction.network, direction.way)
        self._set_loss(direction.node, first=False)

    def limit(self, node: str, cores: float, memory_bytes: int) -> None:
        """Change the CPU and memory limits of a node."""
        with docker_errors():
            self._container(node).update(**_limits(cores, memory_bytes))

    def stress(self, node: str, cores: float, duration_ms: float) -> None:
        """Start to keep cores busy within the limits of a node, for ``duration_ms``; do not wait
        for the end.
        """
        work = [sys.executable, "-m", "fog_emulation.cpu_load", str(cores), str(duration_ms)]
        groups = map(str, _processor_groups(self._pid(node)))
        argv = ["sh", "-c", _JOIN_GROUPS, "sh", *groups, "--", *work]
        self._stress_processes.setdefault(node, []).append(
            subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        )

    def run(self, node: str, command_line: str) -> None:
        """Run a command in a node's shell; raises ``UnavailableError`` if it fails."""
        with docker_errors():
            ended = self._container(node).exec_run(["sh", "-c", command_line])
        if ended.exit_code != 0:
            output = ended.output.decode(errors="replace").strip()
            raise UnavailableError(
                f"the command {command_line!r} failed on the node {node}: "
                f"{output or f'exit code {ended.exit_code}'}"
            )

    def start(self, node: EmulatedNode, directions: Sequence[Direction]) -> None:
        """Start a node and add it to the fog."""
        self._directions[node.name] = by_key(directions)
        with docker_errors():
            self._create_node(node)
        self._shape_node(node.name)
        # A restarted node may have another address: the rules of its peers name it.
        for other in self._running_nodes() - {node.name}:
            theirs = self._directions.get(other, {}).values()
            if links := [each for each in theirs if each.peer == node.name]:
                for link in links:
                    self._shape_line(other, link.network, link.way)
                self._set_loss(other, first=False)

    def stop(self, node: str) -> None:
        """Kill and remove the container of a node."""
        self._stop_stress(node)
        with docker_errors():
            self._container(node).remove(force=True, v=True)
        for network in self._networks_with_delay_lines(node):
            self._cables.cut(node, network)

    def address(self, node: str, network: str) -> str:
        """Return a node's IPv4 address in a network."""
        networks = self._container(node).attrs["NetworkSettings"]["Networks"]
        address = networks.get(self._docker_name(network), {}).get("IPAddress")
        if not address:
            raise NotFoundError(f"the node {node} has no address in the network {network}")
        return str(address)

    def inside(self, node: str) -> AbstractContextManager[None]:
        """Open this thread's sockets in a node's network namespace, inside the ``with`` block."""
        return in_namespace(self._namespace(node))

    def _create_node(self, node: EmulatedNode) -> None:
        service = self._services[node.service]
        first, *others = node.networks
        endpoint = self._docker.api.create_endpoint_config(**_aliases(node, first))
        container = self._docker.containers.create(
            service.image,
            service.command,
            entrypoint=service.entrypoint,
            environment=service.environment,
            name=self._docker_name(node.name),
            hostname=node.name,
            labels={FOG_LABEL: self.name, NODE_LABEL: node.name},
            network=self._docker_name(first),
            networking_config={self._docker_name(first): endpoint},
            shm_size=service.shm_size,
            mounts=[
                Mount(f"/run/secrets/{name}", str(file), type="bind", read_only=True)
                for name, file in service.secrets.items()
            ],
            init=True,
            log_config=_LOGS,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            pids_limit=PIDS_LIMIT,
            **_limits(node.cores, node.memory_bytes),
        )
        for network in others:
            self._docker.networks.get(self._docker_name(network)).connect(
                container, **_aliases(node, network)
            )
        needed = node_trust(service.labels, _replica(node))
        if self._trust is not None and needed is not None:
            container.put_archive(FOLDER, archive(self._trust.files(needed)))
        container.start()

    def _shape_node(self, node: str) -> None:
        for network in self._networks_with_delay_lines(node):
            self._cables.insert(node, network, self._cable_devices(node, network)[1])
        for direction in self._directions[node].values():
            self._shape_direction(direction)
        for network in self._networks_with_delay_lines(node):
            for way in WAYS:
                self._shape_line(node, network, way)
        self._set_loss(node, first=True)

    def _shape_direction(self, direction: Direction) -> None:
        """Set the traffic shape of one direction that the kernel applies: at the node's device (up)
        or at the host's device (down).
        """
        linked = direction.network in self._linked_networks and self._features.tap
        if direction.peer is not None or linked:
            return  # delay lines apply these shapes
        namespace = self._namespace(direction.node)
        device, port = self._cable_devices(direction.node, direction.network)
        if direction.way == "up":
            shape_device(namespace, device, direction.shape, self._features)
        else:
            far_side = self._far_namespace(direction.node, direction.network)
            shape_device(far_side, port, direction.shape, self._features)

    def _shape_line(self, node: str, network: str, way: Way) -> None:
        """Set the rates and delays of one direction that a delay line applies, if there is one."""
        if network not in self._networks_with_delay_lines(node):
            return
        has_links = network in self._linked_networks
        shapes = line_shapes(
            self._directions[node].values(),
            network,
            way,
            self._peer_addresses(node) if has_links else {},
            rates=has_links,
        )
        self._cables.shape(node, network, shapes)

    def _set_loss(self, node: str, *, first: bool) -> None:
        """Replace the packet-loss rules of a node; links to nodes that do not run get no rules."""
        if not self._features.statistic:
            return
        directions, addresses = self._directions[node].values(), self._peer_addresses(node)
        networks = {each.network for each in directions}
        devices = {network: self._cable_devices(node, network)[0] for network in networks}
        rules = traffic_control.loss_rules(directions, devices, addresses, first=first)
        with self.inside(node):
            command(["iptables-restore", "--noflush"], rules)

    def _peer_addresses(self, node: str) -> dict[tuple[str, str], str]:
        """Return (peer, network) -> address, for the links of a node to peers that run."""
        alive = self._running_nodes()
        directions = self._directions[node].values()
        return peer_addresses(directions, alive.__contains__, self.address)

    def _cable_devices(self, node: str, network: str) -> tuple[str, str]:
        """Return the devices at both ends of a node's link to a network: (node's device, host's
        device).
        """
        address = self.address(node, network)
        with self.inside(node):
            near = next(
                each
                for each in _ip_entries("addr")
                if any(entry.get("local") == address for entry in each["addr_info"])
            )
        with in_namespace(self._far_namespace(node, network)):
            far = next(
                each for each in _ip_entries("link") if each["ifindex"] == near["link_index"]
            )
        return near["ifname"], far["ifname"]

    def _far_namespace(self, node: str, network: str) -> Path:
        """Return the network namespace of the host's end of a node's link to a network."""
        inserted = self._cables.is_inserted(node, network)
        return self._cables.namespace if inserted else own_namespace()

    def _networks_with_delay_lines(self, node: str) -> set[str]:
        """Return the networks to which a node must be connected by delay lines, because of the
        shapes of single links or since netem is missing.
        """
        if not self._features.tap:
            return set()
        delayed = set() if self._features.netem else self._delayed_networks
        own = {network for network, _, _ in self._directions[node]}
        return (self._linked_networks | delayed) & own

    def _stop_stress(self, node: str) -> None:
        for process in self._stress_processes.pop(node, ()):
            process.terminate()
            process.wait()

    @cached_property
    def _features(self) -> KernelFeatures:
        return probe_kernel()

    def _service_refusals(self) -> Iterator[str]:
        for name in sorted({node.service for node in self.fog.nodes}):
            for key in self._services[name].unsupported:
                yield f"services.{name}.{key}: emulated nodes do not support this key"
            for secret, file in self._services[name].secrets.items():
                if not file.is_file():
                    yield f"services.{name}.secrets.{secret}: the file {file} does not exist"
        for node in self.fog.nodes:
            if not node.networks:
                yield f"{node.name}: a container needs a network"

    def _delay_refusals(self, directions: Sequence[Direction]) -> Iterator[str]:
        lined = self._delayed_networks | self._linked_networks
        for each in directions:
            if each.shape.delay_ms and each.network not in lined:
                yield (
                    f"{each.node} {each.network}: without netem, a delay cannot be added later:"
                    " set a delay of this network in the model"
                )

    def _capacity_refusals(self, steps: Sequence[ScenarioStep]) -> Iterator[str]:
        with docker_errors():
            info = self._docker.info()
        effects = [effect for step in steps for effect in step.effects]
        nodes = [*self.fog.nodes, *(each.node for each in effects if isinstance(each, StartNode))]
        limits = [(node.name, node.cores, node.memory_bytes) for node in nodes]
        changes = [each for each in effects if isinstance(each, LimitNode)]
        limits += [(each.node, each.cores, each.memory_bytes) for each in changes]
        for name, cores, memory in limits:
            if cores > info["NCPU"] or not info["CpuCfsQuota"]:
                yield f"{name}: {cores:g} cores: the limit of this machine is {info['NCPU']}"
            if memory > info["MemTotal"] or not info["MemoryLimit"]:
                yield f"{name}: {memory} bytes: the limit of this machine is {info['MemTotal']}"

    def _container(self, node: str) -> Any:
        with docker_errors():
            try:
                return self._docker.containers.get(self._docker_name(node))
            except NotFound as error:
                raise NotFoundError(f"there is no node called {node}") from error

    def _running_nodes(self) -> set[str]:
        ours = {"label": f"{FOG_LABEL}={self.name}"}
        with docker_errors():
            return {each.labels[NODE_LABEL] for each in self._docker.containers.list(filters=ours)}

    def _pid(self, node: str) -> int:
        pid = int(self._container(node).attrs["State"]["Pid"])
        if pid == 0:
            raise UnavailableError(f"the node {node} does not run: read the log of its service")
        return pid

    def _namespace(self, node: str) -> Path:
        return Path(f"/proc/{self._pid(node)}/ns/net")

    def _docker_name(self, name: str) -> str:
        return f"mistbow-fog-{self.name}-{name}"


def _replica(node: EmulatedNode) -> int:
    number = node.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else 1


def _limits(cores: float, memory_bytes: int) -> dict[str, int]:
    # No swap beyond the memory: nodes of a fog have none.
    return {
        "cpu_period": _PERIOD_US,
        "cpu_quota": round(cores * _PERIOD_US),
        "mem_limit": memory_bytes,
        "memswap_limit": memory_bytes,
    }


def _processor_groups(pid: int) -> Iterator[Path]:
    """Yield the files that add a process to the control groups that limit and measure CPU usage.

    Version 1 of control groups has a group for each controller; version 2 has a single group.
    """
    root = Path("/sys/fs/cgroup")
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in {"cpu", "cpuacct"} & set(controllers.split(",")):
            yield root / controller / path.lstrip("/") / "cgroup.procs"
        if not controllers and (root / "cgroup.controllers").exists():
            yield root / path.lstrip("/") / "cgroup.procs"


def _ip_entries(kind: str) -> list[dict[str, Any]]:
    found = msgspec.json.decode(command(["ip", "-json", kind, "show"]), type=list[dict[str, Any]])
    return [each for each in found if each]


def _aliases(node: EmulatedNode, network: str) -> dict[str, list[str]]:
    # As in Fogify, a name with its network is one address, also between nodes that share two.
    return {"aliases": [node.label, node.name, f"{node.label}.{network}"]}


@contextmanager
def docker_errors() -> Iterator[None]:
    """Raise ``UnavailableError`` in place of an error of Docker."""
    try:
        yield
    except DockerException as error:
        raise UnavailableError(
            f"Docker: {error}", hint="Check that the Docker daemon runs."
        ) from error
