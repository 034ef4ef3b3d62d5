"""Latency for containers where the kernel has no netem: a delay line in each cable.

A container's cable ends at a bridge of Docker's. Here its far end is moved to a room, a network
namespace of the fog's own, and joined there to a delay line (see ``delay_line``) whose other end is
put where the cable was. The container notices nothing: its device, addresses and routes stay.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from mistbow.errors import UnavailableError
from mistbow.fog_emulation.delay_line import Latency, tell
from mistbow.fog_emulation.host import command, namespaces, own_namespace, succeeds
from mistbow.fog_emulation.parts import Direction, Way

_NETNS = Path("/run/netns")
_PATIENCE_S = 10
_PAUSE_S = 0.02

# A line is seen from its room: what goes up to the network leaves the room.
_SEEN: dict[Way, Way] = {"up": "down", "down": "up"}


class Cables:
    """The cables of one fog; its room is named after the fog, so it is found after a crash."""

    def __init__(self, fog: str) -> None:
        self._room = fog

    @property
    def room(self) -> Path:
        """The network namespace that the far ends of cables are in."""
        return _NETNS / self._room

    def lay(self, node: str, network: str, port: str) -> None:
        """Put a delay line into the cable whose far end is ``port``, on a bridge of Docker's."""
        if self._room not in namespaces():
            command(["ip", "netns", "add", self._room])
        bridge = Path(f"/sys/class/net/{port}/master").resolve().name
        outside, inside, join = self._devices(node, network)
        self._start_line(outside, inside)
        command(["ip", "link", "set", port, "netns", self._room])
        self._ip("link", "add", join, "type", "bridge")
        for device in (port, inside):
            self._ip("link", "set", device, "master", join, "up")
        self._ip("link", "set", join, "up")
        command(["ip", "link", "set", outside, "master", bridge, "up"])

    def is_laid(self, node: str, network: str) -> bool:
        """Return whether a cable has its delay line."""
        _, _, join = self._devices(node, network)
        return self._has(join)

    def delay(self, direction: Direction) -> None:
        """Set the latency of one direction from now on."""
        _, inside, _ = self._devices(direction.node, direction.network)
        shape = direction.shape
        tell(
            self.room,
            inside,
            Latency(_SEEN[direction.way], shape.delay_ms, shape.deviation_ms),
        )

    def cut(self, node: str, network: str) -> None:
        """Take a cable's delay line away, after its container."""
        outside, inside, join = self._devices(node, network)
        for pid in self._pids():
            with suppress(OSError):
                if inside.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                    os.kill(pid, signal.SIGKILL)
        with suppress(UnavailableError):
            self._ip("link", "del", join)
        # A killed process gives its devices back a little later; their names are used again.
        deadline = time.monotonic() + _PATIENCE_S
        while self._has(inside) or succeeds(["ip", "link", "show", outside]):
            if time.monotonic() > deadline:
                raise UnavailableError(f"{self._room}: the delay line of {node} does not end")
            time.sleep(_PAUSE_S)

    def remove(self) -> None:
        """Take the room away, with all that is in it."""
        if self._room not in namespaces():
            return
        deadline = time.monotonic() + _PATIENCE_S
        while pids := self._pids():
            if time.monotonic() > deadline:
                raise UnavailableError(f"{self._room}: {pids} cannot be killed")
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_PAUSE_S)
        command(["ip", "netns", "del", self._room])

    def _start_line(self, outside: str, inside: str) -> None:
        line = [sys.executable, "-m", "mistbow.fog_emulation.delay_line"]
        process = subprocess.Popen(
            ["ip", "netns", "exec", self._room, *line, str(own_namespace()), outside, inside],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert process.stdout is not None  # noqa: S101 - asked for above
        with process.stdout as said:
            if not said.readline():
                process.wait()
                raise UnavailableError(f"a delay line of {self._room} did not start")

    def _devices(self, node: str, network: str) -> tuple[str, str, str]:
        # The kernel takes 15 letters.
        short = sha256(f"{self._room} {node} {network}".encode()).hexdigest()[:11]
        return f"mbo{short}", f"mbi{short}", f"mbj{short}"

    def _has(self, device: str) -> bool:
        return succeeds(["ip", "-n", self._room, "link", "show", device])

    def _pids(self) -> list[int]:
        return [int(pid) for pid in command(["ip", "netns", "pids", self._room]).split()]

    def _ip(self, *arguments: str) -> None:
        command(["ip", "-n", self._room, *arguments])
