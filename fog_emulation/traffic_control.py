"""Builds the arguments of ``tc`` and the input of ``iptables-restore`` for traffic shapes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fog_emulation.topology import Direction, Shape, Way

MAX_QUEUE_MS = 200
"""The longest time that a packet waits because of a rate; a packet that would wait longer is lost.
"""

_BURST_MS = 10
_MIN_BURST_BYTES = 8 * 1024
_NETEM_PACKETS = 10_000

_CHAINS: Mapping[Way, tuple[str, str, str, str]] = {
    "up": ("MISTBOW-UP", "OUTPUT", "-o", "-d"),
    "down": ("MISTBOW-DOWN", "INPUT", "-i", "-s"),
}


@dataclass(frozen=True, slots=True)
class SupportedShapes:
    """The parts of a traffic shape that this machine supports.

    ``links``: whether single links can have their own rate and delay.
    """

    rate: bool
    delay: bool
    loss: bool
    links: bool


def burst_bytes(rate_bps: int) -> int:
    """Return the size of the bucket of tokens for a rate."""
    return max(_MIN_BURST_BYTES, rate_bps * _BURST_MS // 8000)


def queue_commands(device: str, shape: Shape, *, tbf: bool, netem: bool) -> Iterator[Sequence[str]]:
    """Yield the arguments of each ``tc`` command that shapes the packets that leave a device.

    ``tbf``, ``netem``: whether the kernel supports rates and delays; other settings are left out.
    The delay is the root queue and the rate is below the delay, as in the manual of netem.
    """
    parent: tuple[str, ...] = ("root", "handle", "1:")
    if netem and shape.delay_ms:
        delay = (f"{shape.delay_ms:g}ms", f"{shape.deviation_ms:g}ms")
        limit = ("limit", str(_NETEM_PACKETS))
        yield ("qdisc", "add", "dev", device, *parent, "netem", *limit, "delay", *delay)
        parent = ("parent", "1:1", "handle", "10:")
    if tbf and shape.rate_bps is not None:
        rate = ("rate", f"{shape.rate_bps}bit", "burst", f"{burst_bytes(shape.rate_bps)}b")
        queue = ("latency", f"{MAX_QUEUE_MS}ms")
        yield ("qdisc", "add", "dev", device, *parent, "tbf", *rate, *queue)


def queue_removal(device: str) -> Sequence[str]:
    """Return the arguments of the ``tc`` command that removes a device's shape.

    The command fails if the device has no shape.
    """
    return ("qdisc", "del", "dev", device, "root")


def loss_rules(
    directions: Iterable[Direction],
    devices: Mapping[str, str],
    addresses: Mapping[tuple[str, str], str],
    *,
    first: bool,
) -> str:
    """Return the input of ``iptables-restore --noflush`` that replaces a node's packet-loss rules.

    ``devices``: network -> device. ``addresses``: (peer, network) -> address of each peer that
    runs; links to other peers get no rules. ``first``: whether the node has no packet-loss rules
    yet. Rules for single peers precede the rule of their network, unless the network loses all
    packets: a node that is cut off from a network is cut off from each peer in the network.
    """
    present = [
        each for each in directions if each.peer is None or (each.peer, each.network) in addresses
    ]
    lines = ["*filter"]
    for chain, hook, _, _ in _CHAINS.values():
        lines += [f":{chain} - [0:0]", *([f"-A {hook} -j {chain}"] if first else [])]
    for direction in sorted(present, key=lambda each: (each.shape.loss < 1, each.peer is None)):
        chain, _, by, side = _CHAINS[direction.way]
        match = f"-A {chain} {by} {devices[direction.network]}"
        if direction.peer is not None:
            match += f" {side} {addresses[direction.peer, direction.network]}"
        lines += _rules(match, direction)
    return "\n".join([*lines, "COMMIT", ""])


def networks_of_shaped_links(directions: Iterable[Direction]) -> set[str]:
    """Return the networks in which a link has another rate or delay than its network.

    In these networks, delay lines apply all rates and delays: the kernel does not distinguish the
    peers of a packet.
    """
    return {each.network for each in _shaped_links(directions)}


def refusals(directions: Sequence[Direction], supported: SupportedShapes) -> Iterator[str]:
    """Yield a text for each setting that is not supported, with the reason."""
    links = set() if supported.links else set(_shaped_links(directions))
    for each in directions:
        toward = f" with {each.peer}" if each.peer else ""
        where = f"{each.node} {each.way} {each.network}{toward}"
        if each in links:
            yield f"{where}: bandwidth or latency of a single link: the kernel has no TAP devices"
        if each.peer is None and each.shape.rate_bps is not None and not supported.rate:
            yield f"{where}: {each.shape.rate_bps} bit/s: the kernel has no tbf"
        if each.peer is None and each.shape.delay_ms and not supported.delay:
            yield (
                f"{where}: {each.shape.delay_ms:g} ms delay: "
                f"the kernel has neither netem nor TAP devices"
            )
        if each.shape.loss and not supported.loss:
            yield f"{where}: {each.shape.loss:.3%} loss: iptables has no module statistic"


def _shaped_links(directions: Iterable[Direction]) -> Iterator[Direction]:
    """Yield the directions of single links whose rate or delay differs from that of their network.

    A link that loses all packets has neither.
    """
    listed = list(directions)
    general = {(each.node, each.network, each.way): each.shape for each in listed if not each.peer}
    for each in listed:
        if each.peer is not None and each.shape.loss < 1:
            of_network = general.get((each.node, each.network, each.way), Shape())
            if replace(each.shape, loss=of_network.loss) != of_network:
                yield each


def _rules(match: str, direction: Direction) -> Iterator[str]:
    loss = direction.shape.loss
    if loss >= 1:
        yield f"{match} -j DROP"
        return
    if loss > 0:
        yield f"{match} -m statistic --mode random --probability {loss:.9f} -j DROP"
    if direction.peer is not None:
        yield f"{match} -j RETURN"
