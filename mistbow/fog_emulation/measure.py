"""What was set against what is: packets with numbers and times, from node to node."""

import math
import socket
import statistics
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from mistbow.fog_emulation.backend import Backend
from mistbow.fog_emulation.parts import Direction, FogPlan, Shape, Way

_HEADER = struct.Struct("!Id")
_HEADERS_BYTES = 42
_PROBE_BYTES = 64
_PAUSE_S = 0.002
_FLOOD_BYTES = 1400
_FLOOD_S = 1.5
_FLOOD_TIMES = 1.5
_QUIET_S = 1.0


@dataclass(frozen=True, slots=True)
class Measured:
    """One way from node to node: the ``shape`` that was set, and the one that was ``found``."""

    network: str
    source: str
    target: str
    wanted: Shape
    found: Shape


@dataclass(slots=True)
class _Arrivals:
    times: list[float] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)


def pairs(fog: FogPlan) -> list[tuple[str, str, str]]:
    """Return (network, source, target) for each way between the first two nodes of each network."""
    found = []
    for network in fog.networks:
        names = [node.name for node in fog.members(network)][:2]
        if len(names) == 2:
            one, other = names
            found += [(network, one, other), (network, other, one)]
    return found


def wanted(directions: Sequence[Direction], network: str, source: str, target: str) -> Shape:
    """Return what a packet should meet on its way: up at one node and down at the other."""
    up = _met(directions, network, source, "up", target)
    down = _met(directions, network, target, "down", source)
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
) -> Measured:
    """Send numbered packets and then a flood, and return what came of them.

    ``directions`` are those that are set. All nodes are on one machine, so their clocks agree. The
    rate is of frames, as ``tbf`` counts; where none is set there is no flood. The deviation is half
    of what lies between the shortest and the longest delays, but for one in a hundred of each.
    """
    asked = wanted(directions, network, source, target)
    address = backend.address(target, network)
    with backend.inside(target), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind((address, 0))
        port = receiver.getsockname()[1]
        with backend.inside(source), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.connect((address, port))
            arrived = _exchange(sender, receiver, probes, asked)
            lost_after = _met(directions, network, target, "down", source).loss
            flooded = asked.rate_bps is not None and lost_after < 1
            rate = _flood(sender, receiver, asked, lost_after) if flooded else None
    found = Shape(
        rate_bps=rate,
        loss=1 - len(arrived.delays) / probes,
        delay_ms=_middle_ms(arrived.delays),
        deviation_ms=_spread_ms(arrived.delays),
    )
    return Measured(network, source, target, asked, found)


def table(rows: Sequence[Measured]) -> str:
    """Return set against measured, one way a line."""
    lines = [f"{'way':<48} {'Mbit/s':>15} {'loss':>17} {'delay':>17}"]
    for each in rows:
        way = f"{each.source} > {each.target} ({each.network})"
        rate = f"{_mbps(each.wanted)} / {_mbps(each.found)}"
        loss = f"{each.wanted.loss:.2%} / {each.found.loss:.2%}"
        delay = f"{each.wanted.delay_ms:.1f} / {each.found.delay_ms:.1f} ms"
        lines.append(f"{way:<48} {rate:>15} {loss:>17} {delay:>17}")
    return "\n".join(lines)


def _mbps(shape: Shape) -> str:
    return "-" if shape.rate_bps is None else f"{shape.rate_bps / 1e6:.1f}"


def _met(directions: Sequence[Direction], network: str, node: str, way: Way, peer: str) -> Shape:
    at = (network, node, way)
    here = [each for each in directions if (each.network, each.node, each.way) == at]
    general = next((each.shape for each in here if each.peer is None), Shape())
    special = next((each.shape for each in here if each.peer == peer), None)
    return general if special is None or general.loss == 1 else special


def _exchange(
    sender: socket.socket, receiver: socket.socket, probes: int, asked: Shape
) -> _Arrivals:
    """Send probes evenly, slow enough for the rate, and gather them until it is quiet."""
    pause = _PAUSE_S
    if asked.rate_bps is not None:
        pause = max(pause, 2 * 8 * (_PROBE_BYTES + _HEADERS_BYTES) / asked.rate_bps)
    longest = (asked.delay_ms + 3 * asked.deviation_ms) / 1000
    with _Gathering(receiver, _QUIET_S + longest) as arrived:
        for number in range(probes):
            _send(sender, _HEADER.pack(number, time.monotonic()).ljust(_PROBE_BYTES, b"."))
            time.sleep(pause)
    return arrived


def _flood(sender: socket.socket, receiver: socket.socket, asked: Shape, lost_after: float) -> int:
    """Send more than can pass and return the rate at which it passed, in bits/s."""
    assert asked.rate_bps is not None  # noqa: S101 - the caller asks only then
    frame_s = 8 * (_FLOOD_BYTES + _HEADERS_BYTES) / asked.rate_bps
    beginning = time.monotonic()
    sent = 0
    with _Gathering(receiver, _QUIET_S) as arrived:
        while (elapsed := time.monotonic() - beginning) < _FLOOD_S:
            while sent < _FLOOD_TIMES * elapsed / frame_s:
                _send(sender, _HEADER.pack(sent, time.monotonic()).ljust(_FLOOD_BYTES, b"."))
                sent += 1
            time.sleep(0.001)
    # What the bucket held passes at once: only the later half tells the rate.
    later = arrived.times[len(arrived.times) // 2 :]
    if len(later) < 2:
        return 0
    bits = 8 * (_FLOOD_BYTES + _HEADERS_BYTES) * (len(later) - 1)
    passed = bits / (later[-1] - later[0])
    # What the target's own rules lose has passed the queues before.
    return round(passed / (1 - lost_after))


def _send(sender: socket.socket, packet: bytes) -> None:
    try:
        sender.send(packet)
    except OSError:
        # A packet that the sender's own rules drop is reported to it: it is lost all the same.
        return


def _middle_ms(delays: Sequence[float]) -> float:
    return statistics.median(delays) * 1000 if delays else math.nan


def _spread_ms(delays: Sequence[float]) -> float:
    if len(delays) < 2:
        return math.nan
    hundredths = statistics.quantiles(delays, n=100)
    return (hundredths[-1] - hundredths[0]) / 2 * 1000


class _Gathering:
    """Gathers what arrives, in a thread, until all is sent and nothing has come for a while."""

    def __init__(self, receiver: socket.socket, quiet_s: float) -> None:
        receiver.settimeout(quiet_s)
        self._receiver = receiver
        self._arrived = _Arrivals()
        self._sent = threading.Event()
        self._thread = threading.Thread(target=self._gather, daemon=True)

    def __enter__(self) -> _Arrivals:
        self._thread.start()
        return self._arrived

    def __exit__(self, *_: object) -> None:
        self._sent.set()
        self._thread.join()

    def _gather(self) -> None:
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
