"""A delay line: a network link with latency, for kernels without netem.

A delay line consists of two TAP devices and the process ``python -m fog_emulation.delay_line``,
which forwards packets between the devices. Packets stay in order even if the delay varies.
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

from fog_emulation.host import in_namespace
from fog_emulation.topology import Way

_TUNSETIFF = 0x400454CA
_IFF_TAP_NO_PI = 0x0002 | 0x1000
_FRAME_BYTES = 65_536
_MAX_QUEUE_FRAMES = 20_000


class DirectionLatency(msgspec.Struct, frozen=True):
    """A message that sets the latency of one direction of a delay line, in milliseconds."""

    way: Way
    delay_ms: float
    deviation_ms: float


@dataclass(slots=True)
class _LineDirection:
    """One direction of a delay line: frames from ``source`` wait for their delay, then go to
    ``target``.
    """

    source: int
    target: int
    chance: random.Random
    latency: DirectionLatency
    waiting: deque[tuple[float, bytes]] = field(default_factory=deque)

    def receive(self, now: float) -> None:
        """Read all frames that are available at the source; frames beyond the queue's limit are
        lost.
        """
        while True:
            try:
                frame = os.read(self.source, _FRAME_BYTES)
            except BlockingIOError:
                return
            if len(self.waiting) < _MAX_QUEUE_FRAMES:
                self.waiting.append((self._due(now), frame))

    def forward(self, now: float) -> None:
        """Write the frames whose delay has passed to the target."""
        while self.waiting and self.waiting[0][0] <= now:
            _, frame = self.waiting.popleft()
            try:
                os.write(self.target, frame)
            except OSError:
                # The other end is down or full: a cable loses such a frame.
                continue

    def _due(self, now: float) -> float:
        deviation = self.latency.deviation_ms
        delay_ms = self.latency.delay_ms + self.chance.uniform(-deviation, deviation)
        earliest = self.waiting[-1][0] if self.waiting else 0.0
        return max(earliest, now + delay_ms / 1000)


def control_address(device: str) -> str:
    """Return the address of the socket that controls the delay line of a device.

    The address is valid only in the network namespace of the device.
    """
    return f"\0mistbow-delay-{device}"


def set_latency(namespace: Path, device: str, latency: DirectionLatency) -> None:
    """Set the latency of the delay line that belongs to a device.

    ``namespace``: the network namespace of the device.
    """
    with in_namespace(namespace):
        line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with line:
        line.sendto(msgspec.json.encode(latency), control_address(device))


def main(node_namespace: str, node_device: str, switch_device: str) -> None:
    """Create a device in a node's namespace and one in this process' namespace; forward packets."""
    with in_namespace(Path(node_namespace)):
        near = _tap(node_device)
    far = _tap(switch_device)
    chance = random.Random()  # noqa: S311 - jitter is no secret
    directions: dict[Way, _LineDirection] = {
        "up": _LineDirection(near, far, chance, DirectionLatency("up", 0, 0)),
        "down": _LineDirection(far, near, chance, DirectionLatency("down", 0, 0)),
    }
    control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    control.bind(control_address(switch_device))
    print("ready", flush=True)
    _forward(directions, control)


def _forward(directions: dict[Way, _LineDirection], control: socket.socket) -> None:
    selector = selectors.DefaultSelector()
    for direction in directions.values():
        selector.register(direction.source, selectors.EVENT_READ, direction.receive)
    selector.register(control, selectors.EVENT_READ, None)
    while True:
        due = min(
            (each.waiting[0][0] for each in directions.values() if each.waiting), default=None
        )
        timeout = None if due is None else max(0.0, due - time.monotonic())
        for key, _ in selector.select(timeout):
            if key.data is not None:
                key.data(time.monotonic())
            else:
                latency = msgspec.json.decode(control.recv(4096), type=DirectionLatency)
                directions[latency.way].latency = latency
        for direction in directions.values():
            direction.forward(time.monotonic())


def _tap(device: str) -> int:
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", device.encode(), _IFF_TAP_NO_PI))
    return descriptor


if __name__ == "__main__":
    main(*sys.argv[1:])
