"""A delay line: a network link with latency, for kernels without netem and for single links.

A delay line consists of two TAP devices and the process ``python -m fog_emulation.delay_line``,
which forwards packets between the devices. Packets to or from a peer can have their own rate and
delay, since the process reads the addresses of packets. Packets of one peer stay in order even if
the delay varies.
"""

import ctypes
import fcntl
import heapq
import os
import random
import selectors
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import msgspec

from fog_emulation.host import in_namespace
from fog_emulation.topology import Direction, Shape, Way
from fog_emulation.traffic_control import MAX_QUEUE_MS, burst_bytes

_TUNSETIFF = 0x400454CA
_SIOCSIFTXQLEN = 0x8943
_IFF_TAP_NO_PI = 0x0002 | 0x1000
_FRAME_BYTES = 65_536
_MAX_QUEUE_FRAMES = 20_000
_MAX_FRAMES_AT_ONCE = 64
_DEVICE_QUEUE_FRAMES = 2000
_MESSAGE_BYTES = 2**20
_HIGHEST_PRIORITY = -20
_PR_SET_TIMERSLACK = 29
_JITTER_STEP = 4

# The type of an Ethernet frame -> the positions of the IPv4 addresses of the sender and receiver.
_TYPE = slice(12, 14)
_ADDRESSES: dict[bytes, tuple[slice, slice]] = {
    b"\x08\x00": (slice(26, 30), slice(30, 34)),
    b"\x08\x06": (slice(28, 32), slice(38, 42)),
}

Place = Literal["node", "network"]
"""The end of a delay line: nearer to the node, or nearer to the network."""


class LineShapes(msgspec.Struct, frozen=True):
    """A message that replaces the rates and delays of one direction of a delay line.

    ``way``: as the node sees it. ``peers``: IPv4 address of a peer -> the shape of packets to or
    from the peer. ``general``: the shape of all other packets. Losses have no effect.
    """

    way: Way
    general: Shape = Shape()
    peers: dict[str, Shape] = {}


@dataclass(slots=True)
class _Jitter:
    """A deviation that changes linearly between random values, from ``start`` to ``end``.

    It changes by less than the time that passes: a packet does not overtake an earlier packet, and
    does not wait for it either, which would increase the mean delay.
    """

    chance: random.Random
    deviation_s: float = 0.0
    start: tuple[float, float] = (0.0, 0.0)
    end: tuple[float, float] = (0.0, 0.0)

    def at(self, now: float, deviation_s: float) -> float:
        """Return the deviation (s) at a time that is not before the time of the last call."""
        if deviation_s == 0:
            return 0.0
        if deviation_s != self.deviation_s or now > self.end[0] + _JITTER_STEP * deviation_s:
            self.deviation_s = deviation_s
            self.end = (now, self._value())
        while now >= self.end[0]:
            self.start = self.end
            self.end = (self.start[0] + _JITTER_STEP * deviation_s, self._value())
        share = max(0.0, now - self.start[0]) / (self.end[0] - self.start[0])
        return self.start[1] + share * (self.end[1] - self.start[1])

    def _value(self) -> float:
        return self.chance.uniform(-self.deviation_s, self.deviation_s)


@dataclass(slots=True)
class _Lane:
    """The packets of one peer, or of all other peers, in one direction.

    ``free_at``: when the bucket of tokens has sent all packets. ``last_due``: when the last packet
    leaves the delay line.
    """

    shape: Shape
    jitter: _Jitter
    free_at: float = 0.0
    last_due: float = 0.0

    def due(self, now: float, frame_bytes: int) -> float | None:
        """Return when a frame that arrives now leaves the delay line; None: the frame is lost."""
        sent_at = now
        if self.shape.rate_bps is not None:
            burst_s = 8 * burst_bytes(self.shape.rate_bps) / self.shape.rate_bps
            free_at = max(self.free_at, now - burst_s) + 8 * frame_bytes / self.shape.rate_bps
            if free_at > now + MAX_QUEUE_MS / 1000:
                return None
            self.free_at = free_at
            sent_at = max(now, free_at)
        delay_s = self.shape.delay_ms / 1000
        delay_s += self.jitter.at(sent_at, self.shape.deviation_ms / 1000)
        self.last_due = max(self.last_due, sent_at + delay_s)
        return self.last_due


@dataclass(slots=True)
class _LineDirection:
    """One direction of a delay line: frames from ``source`` wait until they are due at
    ``target``.

    ``peer``: the index in ``_ADDRESSES`` of the peer's address.
    """

    source: int
    target: int
    peer: Literal[0, 1]
    chance: random.Random
    general: _Lane = field(init=False)
    lanes: dict[bytes, _Lane] = field(default_factory=dict)
    waiting: list[tuple[float, int, bytes]] = field(default_factory=list)
    number: int = 0

    def __post_init__(self) -> None:
        self.general = self._new_lane()

    def set_shapes(self, shapes: LineShapes) -> None:
        """Replace the rates and delays; frames that wait already keep their time."""
        self.general.shape = shapes.general
        former = self.lanes
        self.lanes = {}
        for address, shape in shapes.peers.items():
            key = socket.inet_aton(address)
            lane = self.lanes[key] = former.get(key) or self._new_lane()
            lane.shape = shape

    def receive(self, now: float) -> None:
        """Read the frames that are available at the source; frames beyond the queue's limit are
        lost.
        """
        for _ in range(_MAX_FRAMES_AT_ONCE):
            try:
                frame = os.read(self.source, _FRAME_BYTES)
            except BlockingIOError:
                return
            due = self._lane(frame).due(now, len(frame))
            if due is not None and len(self.waiting) < _MAX_QUEUE_FRAMES:
                self.number += 1
                heapq.heappush(self.waiting, (due, self.number, frame))

    def forward(self, now: float) -> None:
        """Write the due frames to the target."""
        while self.waiting and self.waiting[0][0] <= now:
            _, _, frame = heapq.heappop(self.waiting)
            try:
                os.write(self.target, frame)
            except OSError:
                # The other end is down or full: a cable loses such a frame.
                continue

    def _new_lane(self) -> _Lane:
        return _Lane(Shape(), _Jitter(self.chance))

    def _lane(self, frame: bytes) -> _Lane:
        if not self.lanes:
            return self.general
        positions = _ADDRESSES.get(frame[_TYPE])
        if positions is None:
            return self.general
        return self.lanes.get(frame[positions[self.peer]], self.general)


def peer_addresses(
    directions: Iterable[Direction],
    runs: Callable[[str], bool],
    address: Callable[[str, str], str],
) -> dict[tuple[str, str], str]:
    """Return (peer, network) -> address, for the links of a node to peers that run.

    ``directions``: of the node. ``address``: returns the address of a node in a network.
    """
    return {
        (peer, network): address(peer, network)
        for peer, network in {(each.peer, each.network) for each in directions}
        if peer is not None and runs(peer)
    }


def line_shapes(
    directions: Iterable[Direction],
    network: str,
    way: Way,
    addresses: Mapping[tuple[str, str], str],
    *,
    rates: bool,
) -> LineShapes:
    """Return the shapes of one direction between a node and a network.

    ``directions``: of the node. ``addresses``: (peer, network) -> address; links to other
    peers are left out. ``rates``: False: the kernel applies the rates.
    """
    here = [each for each in directions if (each.network, each.way) == (network, way)]
    shapes = {
        each.peer: each.shape if rates else replace(each.shape, rate_bps=None) for each in here
    }
    peers = {
        addresses[peer, network]: shape
        for peer, shape in shapes.items()
        if peer is not None and (peer, network) in addresses
    }
    return LineShapes(way, shapes.get(None, Shape()), peers)


def control_address(device: str) -> str:
    """Return the address of the socket that controls the delay line of a device.

    The address is valid only in the network namespace of the device.
    """
    return f"\0mistbow-delay-{device}"


def set_shapes(namespace: Path, device: str, shapes: LineShapes) -> None:
    """Replace the rates and delays of one direction of the delay line that belongs to a device.

    ``namespace``: the network namespace of the device.
    """
    with in_namespace(namespace):
        line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with line:
        line.sendto(msgspec.json.encode(shapes), control_address(device))


def main(other_namespace: str, other_device: str, own_device: str, own_place: Place) -> None:
    """Create a device in another namespace and one in this process' namespace; forward packets.

    ``own_place``: the end of the line at which the device in this process' namespace is.
    """
    with in_namespace(Path(other_namespace)):
        other = _tap(other_device)
    own = _tap(own_device)
    near, far = (own, other) if own_place == "node" else (other, own)
    chance = random.Random()  # noqa: S311 - jitter is no secret
    directions: dict[Way, _LineDirection] = {
        "up": _LineDirection(near, far, 1, chance),
        "down": _LineDirection(far, near, 0, chance),
    }
    control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    control.bind(control_address(own_device))
    _be_punctual()
    print("ready", flush=True)
    _forward(directions, control)


def _forward(directions: dict[Way, _LineDirection], control: socket.socket) -> None:
    # Epoll, the default, rounds times up to milliseconds.
    selector = selectors.SelectSelector()
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
                shapes = msgspec.json.decode(control.recv(_MESSAGE_BYTES), type=LineShapes)
                directions[shapes.way].set_shapes(shapes)
        for direction in directions.values():
            direction.forward(time.monotonic())


def _be_punctual() -> None:
    """Reduce the delay with which this process wakes up, since it delays packets too."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _HIGHEST_PRIORITY)
    # With groups of sessions, the priority of a process counts only inside its group.
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(_HIGHEST_PRIORITY))
    one_nanosecond = ctypes.c_ulong(1)
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, one_nanosecond)


def _tap(device: str) -> int:
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    name = device.encode()
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", name, _IFF_TAP_NO_PI))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        queue = struct.pack("16si20x", name, _DEVICE_QUEUE_FRAMES)
        fcntl.ioctl(any_socket, _SIOCSIFTXQLEN, queue)
    return descriptor


if __name__ == "__main__":
    _, namespace, device, local_device, place = sys.argv
    main(namespace, device, local_device, "node" if place == "node" else "network")
