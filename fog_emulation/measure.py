"""Measures the traffic shapes between nodes of a fog, to compare them with the settings.

Nodes send each other packets that contain a number and the time of sending.
"""

import math
import socket
import statistics
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations

from fog_emulation.backend import Backend
from fog_emulation.topology import Direction, FogPlan, Shape, Way

_HEADER = struct.Struct("!Id")
_HEADERS_BYTES = 42
_PROBE_BYTES = 64
_PAUSE_S = 0.002
_FLOOD_BYTES = 1400
_FLOOD_S = 1.5
_FLOOD_TIMES = 1.5
_LOSS_PACKETS_PER_S = 10_000
_BUFFER_BYTES = 64 * 2**20
_PACKET_BYTES = 2048
# Python has no names for these options.
_SO_RCVBUFFORCE = 33
_SO_TIMESTAMPNS = 35
_TIMESTAMP = struct.Struct("qq")
_NOTES_BYTES = socket.CMSG_SPACE(_TIMESTAMP.size)
_QUIET_S = 1.0


@dataclass(frozen=True, slots=True)
class Measurement:
    """The expected and the measured traffic shape of packets from one node to another."""

    network: str
    source: str
    target: str
    expected: Shape
    found: Shape


@dataclass(slots=True)
class _Arrivals:
    times: list[float] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)


def pairs(fog: FogPlan) -> list[tuple[str, str, str]]:
    """Return (network, source, target) for both directions between the first two nodes of each
    network that are not cut off from each other, and of each pair of labels with a link.
    """
    found: dict[tuple[str, str, str], None] = {}
    for network in fog.networks:
        names = [node.name for node in fog.members(network)]
        for one, other in combinations(names, 2):
            if expected(fog.directions, network, one, other).loss < 1:
                found |= _both_directions(network, one, other)
                break
        for one, other in _first_links(fog, network):
            found |= _both_directions(network, one, other)
    return list(found)


def _both_directions(network: str, one: str, other: str) -> dict[tuple[str, str, str], None]:
    return dict.fromkeys(((network, one, other), (network, other, one)))


def _first_links(fog: FogPlan, network: str) -> Iterable[tuple[str, str]]:
    labels = {node.name: node.label for node in fog.nodes}
    links: dict[tuple[str, str], tuple[str, str]] = {}
    for each in fog.directions:
        if each.network == network and each.peer is not None and each.shape.loss < 1:
            ends = (labels[each.node], labels[each.peer])
            links.setdefault(ends, (each.node, each.peer))
    return links.values()


def expected(directions: Sequence[Direction], network: str, source: str, target: str) -> Shape:
    """Return the expected traffic shape of packets from ``source`` to ``target``.

    A packet goes up from ``source`` to the network, and down from the network to ``target``.
    """
    up = _shape_of(directions, network, source, "up", target)
    down = _shape_of(directions, network, target, "down", source)
    rates = [each.rate_bps for each in (up, down) if each.rate_bps is not None]
    return Shape(
        rate_bps=min(rates, default=None),
        loss=1 - (1 - up.loss) * (1 - down.loss),
        delay_ms=up.delay_ms + down.delay_ms,
        deviation_ms=up.deviation_ms + down.deviation_ms,
    )


def measure(
    backend: Backend,
    directions: Sequence[Direction],
    network: str,
    source: str,
    target: str,
    probes: int = 1000,
) -> Measurement:
    """Send ``probes`` numbered packets, then a flood of packets; return the measured traffic shape.

    ``directions`` are the settings of the fog. All nodes are on one machine, so the nodes have the
    same clock. The rate is the rate of frames, as for ``tbf``; without an expected rate, no flood
    is sent. The deviation is half of the distance between the 1st and the 99th percentile of the
    delays.
    """
    to_measure = expected(directions, network, source, target)
    with _connected(backend, network, source, target) as (sender, receiver):
        arrived = _exchange(sender, receiver, probes, to_measure)
        lost_after = _shape_of(directions, network, target, "down", source).loss
        flooded = to_measure.rate_bps is not None and lost_after < 1
        rate = _flood(sender, receiver, to_measure, lost_after) if flooded else None
    found = Shape(
        rate_bps=rate,
        loss=1 - len(arrived.delays) / probes,
        delay_ms=_median_ms(arrived.delays),
        deviation_ms=_spread_ms(arrived.delays),
    )
    return Measurement(network, source, target, to_measure, found)


def lost_share(
    backend: Backend,
    directions: Sequence[Direction],
    network: str,
    source: str,
    target: str,
    packets: int,
) -> float:
    """Send ``packets`` small packets; return the share that does not arrive.

    10,000 packets are sent per second, or half of the expected rate. The standard error of the
    share p is √(p (1 - p) / packets).
    """
    rate_bps = expected(directions, network, source, target).rate_bps
    pause = 1 / _LOSS_PACKETS_PER_S
    if rate_bps is not None:
        pause = max(pause, 2 * 8 * (_HEADER.size + _HEADERS_BYTES) / rate_bps)
    with _connected(backend, network, source, target) as (sender, receiver):
        beginning = time.monotonic()
        sent = 0
        with _Receiver(receiver, _QUIET_S) as arrived:
            while sent < packets:
                while sent < min(packets, (time.monotonic() - beginning) / pause):
                    _send(sender, _HEADER.pack(sent, time.monotonic()))
                    sent += 1
                time.sleep(0.001)
    return 1 - len(arrived.times) / packets


def table(rows: Sequence[Measurement]) -> str:
    """Return a text table of expected and measured shapes, with one line for each measurement."""
    lines = [f"{'way':<48} {'Mbit/s':>15} {'loss':>17} {'delay':>17}"]
    for each in rows:
        rate, loss, delay = compared(each)
        lines.append(f"{way_of(each):<48} {rate:>15} {loss:>17} {delay:>17}")
    return "\n".join(lines)


def way_of(row: Measurement) -> str:
    """Return the direction of a measurement as text."""
    return f"{row.source} > {row.target} ({row.network})"


def compared(row: Measurement) -> tuple[str, str, str]:
    """Return the expected and the measured rate (Mbit/s), loss and delay as texts."""
    return (
        f"{_mbps(row.expected)} / {_mbps(row.found)}",
        f"{row.expected.loss:.2%} / {row.found.loss:.2%}",
        f"{row.expected.delay_ms:.1f} / {row.found.delay_ms:.1f} ms",
    )


def _mbps(shape: Shape) -> str:
    return "-" if shape.rate_bps is None else f"{shape.rate_bps / 1e6:.1f}"


def _shape_of(
    directions: Sequence[Direction], network: str, node: str, way: Way, peer: str
) -> Shape:
    at = (network, node, way)
    here = [each for each in directions if (each.network, each.node, each.way) == at]
    general = next((each.shape for each in here if each.peer is None), Shape())
    special = next((each.shape for each in here if each.peer == peer), None)
    return general if special is None or general.loss == 1 else special


@contextmanager
def _connected(
    backend: Backend, network: str, source: str, target: str
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Open a socket in ``source`` that is connected to a socket in ``target``: (sender, receiver).

    The receiver's buffer is large, and the kernel notes the times of arrival: a process that waits
    for a processor neither loses packets nor measures its own delay.
    """
    address = backend.address(target, network)
    with backend.inside(target):
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with backend.inside(source):
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with receiver, sender:
        receiver.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        receiver.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        receiver.bind((address, 0))
        sender.connect((address, receiver.getsockname()[1]))
        yield sender, receiver


def _exchange(
    sender: socket.socket, receiver: socket.socket, probes: int, to_measure: Shape
) -> _Arrivals:
    """Send packets at regular intervals, below the expected rate; return the arrivals."""
    pause = _PAUSE_S
    if to_measure.rate_bps is not None:
        pause = max(pause, 2 * 8 * (_PROBE_BYTES + _HEADERS_BYTES) / to_measure.rate_bps)
    longest = (to_measure.delay_ms + 3 * to_measure.deviation_ms) / 1000
    with _Receiver(receiver, _QUIET_S + longest) as arrived:
        for number in range(probes):
            _send(sender, _HEADER.pack(number, time.monotonic()).ljust(_PROBE_BYTES, b"."))
            time.sleep(pause)
    return arrived


def _flood(
    sender: socket.socket, receiver: socket.socket, to_measure: Shape, lost_after: float
) -> int:
    """Send packets faster than the expected rate; return the rate (bits/s) at which packets
    arrived.
    """
    assert to_measure.rate_bps is not None  # noqa: S101 - only called with a rate
    frame_s = 8 * (_FLOOD_BYTES + _HEADERS_BYTES) / to_measure.rate_bps
    beginning = time.monotonic()
    sent = 0
    with _Receiver(receiver, _QUIET_S) as arrived:
        while (elapsed := time.monotonic() - beginning) < _FLOOD_S:
            while sent < _FLOOD_TIMES * elapsed / frame_s:
                _send(sender, _HEADER.pack(sent, time.monotonic()).ljust(_FLOOD_BYTES, b"."))
                sent += 1
            time.sleep(0.001)
    # The tokens of the bucket pass at once: only the later half shows the rate.
    later = arrived.times[len(arrived.times) // 2 :]
    if len(later) < 2:
        return 0
    bits = 8 * (_FLOOD_BYTES + _HEADERS_BYTES) * (len(later) - 1)
    passed = bits / (later[-1] - later[0])
    # Packets that the target's own rules drop have passed the queues before.
    return round(passed / (1 - lost_after))


def _send(sender: socket.socket, packet: bytes) -> None:
    try:
        sender.send(packet)
    except OSError:
        # The sender's own rules dropped the packet: it counts as lost.
        return


def _median_ms(delays: Sequence[float]) -> float:
    return statistics.median(delays) * 1000 if delays else math.nan


def _spread_ms(delays: Sequence[float]) -> float:
    if len(delays) < 2:
        return math.nan
    hundredths = statistics.quantiles(delays, n=100)
    return (hundredths[-1] - hundredths[0]) / 2 * 1000


class _Receiver:
    """Receives packets in a thread, until all packets are sent and ``quiet_s`` pass without a
    packet.
    """

    def __init__(self, receiver: socket.socket, quiet_s: float) -> None:
        receiver.settimeout(quiet_s)
        self._receiver = receiver
        self._arrived = _Arrivals()
        self._sent = threading.Event()
        self._thread = threading.Thread(target=self._receive, daemon=True)

    def __enter__(self) -> _Arrivals:
        self._thread.start()
        return self._arrived

    def __exit__(self, *_: object) -> None:
        self._sent.set()
        self._thread.join()

    def _receive(self) -> None:
        while True:
            try:
                packet, notes, _, _ = self._receiver.recvmsg(_PACKET_BYTES, _NOTES_BYTES)
            except TimeoutError:
                if self._sent.is_set():
                    return
                continue
            arrived = time.monotonic() - _age_s(notes)
            self._arrived.times.append(arrived)
            self._arrived.delays.append(arrived - _HEADER.unpack_from(packet)[1])


def _age_s(notes: Sequence[tuple[int, int, bytes]]) -> float:
    """Return how long ago the kernel received a packet; 0 if no note has that time."""
    now = time.time_ns()
    for level, kind, content in notes:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
            seconds, nanoseconds = _TIMESTAMP.unpack(content)
            return float(now - seconds * 1_000_000_000 - nanoseconds) / 1e9
    return 0.0
