"""Measures the traffic shapes between nodes of a fog, to compare them with the settings.

Nodes send each other packets that contain a number and the time of sending.
"""

import math
import socket
import statistics
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from fog_emulation.backend import Backend
from fog_emulation.topology import Direction, FogPlan, Shape, Way

_HEADER = struct.Struct("!Id")
_HEADERS_BYTES = 42
_PROBE_BYTES = 64
_PAUSE_S = 0.002
_FLOOD_BYTES = 1400
_FLOOD_S = 1.5
_FLOOD_TIMES = 1.5
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
    network.
    """
    found = []
    for network in fog.networks:
        names = [node.name for node in fog.members(network)][:2]
        if len(names) == 2:
            one, other = names
            found += [(network, one, other), (network, other, one)]
    return found


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
    address = backend.address(target, network)
    with backend.inside(target), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind((address, 0))
        port = receiver.getsockname()[1]
        with backend.inside(source), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.connect((address, port))
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


def table(rows: Sequence[Measurement]) -> str:
    """Return a text table of expected and measured shapes, with one line for each measurement."""
    lines = [f"{'way':<48} {'Mbit/s':>15} {'loss':>17} {'delay':>17}"]
    for each in rows:
        way = f"{each.source} > {each.target} ({each.network})"
        rate = f"{_mbps(each.expected)} / {_mbps(each.found)}"
        loss = f"{each.expected.loss:.2%} / {each.found.loss:.2%}"
        delay = f"{each.expected.delay_ms:.1f} / {each.found.delay_ms:.1f} ms"
        lines.append(f"{way:<48} {rate:>15} {loss:>17} {delay:>17}")
    return "\n".join(lines)


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
                packet = self._receiver.recv(2048)
            except TimeoutError:
                if self._sent.is_set():
                    return
                continue
            now = time.monotonic()
            self._arrived.times.append(now)
            self._arrived.delays.append(now - _HEADER.unpack_from(packet)[1])
