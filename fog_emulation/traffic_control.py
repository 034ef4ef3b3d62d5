"""Builds the arguments of ``tc`` and the input of ``iptables-restore`` for traffic shapes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fog_emulation.topology import Direction, Shape, Way

_MAX_QUEUE_MS = 200
_BURST_MS = 10
_MIN_BURST_BYTES = 8 * 1024
_NETEM_PACKETS = 10_000

_CHAINS: Mapping[Way, tuple[str, str, str, str]] = {
    "up": ("MISTBOW-UP", "OUTPUT", "-o", "-d"),
    "down": ("MISTBOW-DOWN", "INPUT", "-i", "-s"),
}


@dataclass(frozen=True, slots=True)
class SupportedShapes:
    """The parts of a traffic shape that this machine supports."""

    rate: bool
    delay: bool
    loss: bool


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
        burst = max(_MIN_BURST_BYTES, shape.rate_bps * _BURST_MS // 8000)
        rate = ("rate", f"{shape.rate_bps}bit", "burst", f"{burst}b")
        queue = ("latency", f"{_MAX_QUEUE_MS}ms")
        yield ("qdisc", "add", "dev", device, *parent, "tbf", *rate, *queue)


def queue_removal(device: str) -> Sequence[str]:
    """Return the arguments of the ``tc`` command that removes a device's shape.

    The command fails if the device has no shape.
    """
    return ("qdisc", "del", "dev", device, "root")


def loss_rules(
    directions: Sequence[Direction],
    devices: Mapping[str, str],
    addresses: Mapping[tuple[str, str], str],
    *,
    first: bool,
) -> str:
    """Return the input of ``iptables-restore --noflush`` that replaces a node's packet-loss rules.

    ``devices``: network -> device. ``addresses``: (node, network) -> address. ``first``: whether
    the node has no packet-loss rules yet. Rules for single peers precede the rule of their network,
    unless the network loses all packets: a node that is cut off from a network is cut off from each
    peer in the network.
    """
    lines = ["*filter"]
    for chain, hook, _, _ in _CHAINS.values():
        lines += [f":{chain} - [0:0]", *([f"-A {hook} -j {chain}"] if first else [])]
    for direction in sorted(directions, key=lambda each: (each.shape.loss < 1, each.peer is None)):
        chain, _, by, side = _CHAINS[direction.way]
        match = f"-A {chain} {by} {devices[direction.network]}"
        if direction.peer is not None:
            match += f" {side} {addresses[direction.peer, direction.network]}"
        lines += _rules(match, direction)
    return "\n".join([*lines, "COMMIT", ""])


def refusals(directions: Sequence[Direction], supported: SupportedShapes) -> Iterator[str]:
    """Yield a text for each setting that is not supported, with the reason."""
    for each in directions:
        toward = f" with {each.peer}" if each.peer else ""
        where = f"{each.node} {each.way} {each.network}{toward}"
        alone = "a link to a single peer supports only a loss" if each.peer else ""
        if each.shape.rate_bps is not None and (alone or not supported.rate):
            yield f"{where}: {each.shape.rate_bps} bit/s: {alone or 'the kernel has no tbf'}"
        if each.shape.delay_ms and (alone or not supported.delay):
            yield f"{where}: {each.shape.delay_ms:g} ms delay: {alone or 'the kernel has no netem'}"
        if each.shape.loss and not supported.loss:
            yield f"{where}: {each.shape.loss:.3%} loss: iptables has no module statistic"


def _rules(match: str, direction: Direction) -> Iterator[str]:
    loss = direction.shape.loss
    if loss >= 1:
        yield f"{match} -j DROP"
        return
    if loss > 0:
        yield f"{match} -m statistic --mode random --probability {loss:.9f} -j DROP"
    if direction.peer is not None:
        yield f"{match} -j RETURN"
