"""A cable with latency, for kernels without netem: two TAP devices and a process between them.

It runs as ``python -m mistbow.fog_emulation.delay_line``. Packets keep their order, as in a cable,
also where the delay varies.
"""

import fcntl
import os
import random
import selectors
import socket
import struct
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from mistbow.fog_emulation.host import in_namespace
from mistbow.fog_emulation.parts import Way

_TUNSETIFF = 0x400454CA
_IFF_TAP_NO_PI = 0x0002 | 0x1000
_FRAME_BYTES = 65_536
_LONGEST_QUEUE = 20_000


class Latency(msgspec.Struct, frozen=True):
    """The latency of one direction from now on, in milliseconds."""

    way: Way
    delay_ms: float
    deviation_ms: float


@dataclass(slots=True)
class _Strand:
    """One direction: frames from one device wait until they may go out by the other."""

    source: int
    target: int
    chance: random.Random
    latency: Latency
    waiting: deque[tuple[float, bytes]] = field(default_factory=deque)

    def take(self, now: float) -> None:
        """Read all frames that are there."""
        while True:
            try:
                frame = os.read(self.source, _FRAME_BYTES)
            except BlockingIOError:
                return
            if len(self.waiting) < _LONGEST_QUEUE:
                self.waiting.append((self._due(now), frame))

    def give(self, now: float) -> None:
        """Write the frames whose time has come."""
        while self.waiting and self.waiting[0][0] <= now:
            _, frame = self.waiting.popleft()
            try:
                os.write(self.target, frame)
            except OSError:
                # The other end is down, or full: a cable loses what nobody takes.
                continue

    def _due(self, now: float) -> float:
        spread = self.latency.deviation_ms
        delay_ms = self.latency.delay_ms + self.chance.uniform(-spread, spread)
        earliest = self.waiting[-1][0] if self.waiting else 0.0
        return max(earliest, now + delay_ms / 1000)


def control_address(device: str) -> str:
    """Return where the line of a switch's device listens, in the switch's namespace."""
    return f"\0mistbow-delay-{device}"


def tell(namespace: Path, device: str, latency: Latency) -> None:
    """Give a latency to the line of a switch's device, in the switch's namespace."""
    with in_namespace(namespace):
        line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with line:
        line.sendto(msgspec.json.encode(latency), control_address(device))


def main(node_namespace: str, node_device: str, switch_device: str) -> None:
    """Join a device in the node and one in this process' own namespace, both made by this."""
    with in_namespace(Path(node_namespace)):
        near = _tap(node_device)
    far = _tap(switch_device)
    chance = random.Random()  # noqa: S311 - jitter is no secret
    strands: dict[Way, _Strand] = {
        "up": _Strand(near, far, chance, Latency("up", 0, 0)),
        "down": _Strand(far, near, chance, Latency("down", 0, 0)),
    }
    control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    control.bind(control_address(switch_device))
    print("ready", flush=True)
    _forward(strands, control)


def _forward(strands: dict[Way, _Strand], control: socket.socket) -> None:
    selector = selectors.DefaultSelector()
    for strand in strands.values():
        selector.register(strand.source, selectors.EVENT_READ, strand.take)
    selector.register(control, selectors.EVENT_READ, None)
    while True:
        due = min((each.waiting[0][0] for each in strands.values() if each.waiting), default=None)
        timeout = None if due is None else max(0.0, due - time.monotonic())
        for key, _ in selector.select(timeout):
            if key.data is not None:
                key.data(time.monotonic())
            else:
                latency = msgspec.json.decode(control.recv(4096), type=Latency)
                strands[latency.way].latency = latency
        for strand in strands.values():
            strand.give(time.monotonic())


def _tap(device: str) -> int:
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", device.encode(), _IFF_TAP_NO_PI))
    return descriptor


if __name__ == "__main__":
    main(*sys.argv[1:])
