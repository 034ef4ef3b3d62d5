"""Latency for containers if the kernel has no netem, and shapes of single links, by delay lines.

A cable is the pair of virtual devices that connects a container to a bridge of Docker. The end of
the cable at the bridge (the far end) is moved to a network namespace of the fog, and connected
there to a delay line (see ``delay_line``). The other end of the delay line takes the place of the
far end at the bridge. The device, addresses and routes of the container stay the same.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from fog_emulation.delay_line import LineShapes, set_shapes
from fog_emulation.host import command, kill_with_argument, namespaces, own_namespace, succeeds
from mistbow.errors import UnavailableError

_NETNS = Path("/run/netns")
_PATIENCE_S = 10
_PAUSE_S = 0.02


class Cables:
    """The cables of one fog: the pairs of virtual devices between containers and bridges of Docker.

    The network namespace of the cables has the name of the fog, and can therefore be found after a
    crash.
    """

    def __init__(self, fog: str) -> None:
        self._name = fog

    @property
    def namespace(self) -> Path:
        """The network namespace that contains the far ends of the cables."""
        return _NETNS / self._name

    def insert(self, node: str, network: str, port: str) -> None:
        """Insert a delay line into the cable whose far end is the device ``port`` on a bridge of
        Docker.
        """
        if self._name not in namespaces():
            command(["ip", "netns", "add", self._name])
        docker_bridge = Path(f"/sys/class/net/{port}/master").resolve().name
        outside, inside, bridge = self._devices(node, network)
        self._start_delay_line(outside, inside)
        command(["ip", "link", "set", port, "netns", self._name])
        self._ip("link", "add", bridge, "type", "bridge")
        for device in (port, inside):
            self._ip("link", "set", device, "master", bridge, "up")
        self._ip("link", "set", bridge, "up")
        command(["ip", "link", "set", outside, "master", docker_bridge, "up"])

    def is_inserted(self, node: str, network: str) -> bool:
        """Return whether the cable between a node and a network has a delay line."""
        _, _, bridge = self._devices(node, network)
        return self._has(bridge)

    def shape(self, node: str, network: str, shapes: LineShapes) -> None:
        """Replace the rates and delays of one direction of a cable."""
        _, inside, _ = self._devices(node, network)
        set_shapes(self.namespace, inside, shapes)

    def cut(self, node: str, network: str) -> None:
        """Remove the delay line from the cable of a container that is being removed."""
        outside, inside, bridge = self._devices(node, network)
        kill_with_argument(self._name, inside)
        with suppress(UnavailableError):
            self._ip("link", "del", bridge)
        # A killed process frees its devices a little later, and their names are used again.
        deadline = time.monotonic() + _PATIENCE_S
        while self._has(inside) or succeeds(["ip", "link", "show", outside]):
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"fog {self._name}: the delay line of the node {node} still runs after "
                    f"SIGKILL; restart the machine"
                )
            time.sleep(_PAUSE_S)

    def remove(self) -> None:
        """Remove the namespace with its processes and devices."""
        if self._name not in namespaces():
            return
        deadline = time.monotonic() + _PATIENCE_S
        while pids := self._pids():
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"fog {self._name}: the processes {pids} still run after "
                    f"SIGKILL; restart the machine"
                )
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_PAUSE_S)
        command(["ip", "netns", "del", self._name])

    def _start_delay_line(self, outside: str, inside: str) -> None:
        line = [sys.executable, "-m", "fog_emulation.delay_line"]
        process = subprocess.Popen(
            [
                *("ip", "netns", "exec", self._name),
                *line,
                *(str(own_namespace()), outside, inside, "node"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert process.stdout is not None  # noqa: S101 - stdout is a pipe
        with process.stdout as output:
            if not output.readline():
                process.wait()
                raise UnavailableError(f"a delay line of the fog {self._name} did not start")

    def _devices(self, node: str, network: str) -> tuple[str, str, str]:
        # The kernel allows names of 15 characters.
        short = sha256(f"{self._name} {node} {network}".encode()).hexdigest()[:11]
        return f"mbo{short}", f"mbi{short}", f"mbj{short}"

    def _has(self, device: str) -> bool:
        return succeeds(["ip", "-n", self._name, "link", "show", device])

    def _pids(self) -> list[int]:
        return [int(pid) for pid in command(["ip", "netns", "pids", self._name]).split()]

    def _ip(self, *arguments: str) -> None:
        command(["ip", "-n", self._name, *arguments])
