"""The commands by which the kernel shapes packets; nothing here runs them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mistbow.fog_emulation.parts import Direction, Shape, Way

_LONGEST_QUEUE_MS = 200
_BURST_MS = 10
_LEAST_BURST_BYTES = 8 * 1024
_NETEM_PACKETS = 10_000

_CHAINS: Mapping[Way, tuple[str, str, str, str]] = {
    "up": ("MISTBOW-UP", "OUTPUT", "-o", "-d"),
    "down": ("MISTBOW-DOWN", "INPUT", "-i", "-s"),
}


@dataclass(frozen=True, slots=True)
class Able:
    """Whether there is a way to have a rate, a delay, a loss."""

    rate: bool
    delay: bool
    loss: bool


def queueing(device: str, shape: Shape, *, tbf: bool, netem: bool) -> Iterator[Sequence[str]]:
    """Yield ``tc`` arguments for what leaves by a device, as far as the kernel has what they need.

    Delay is the root and the rate below it, as the manual of netem has them.
    """
    parent: tuple[str, ...] = ("root", "handle", "1:")
    if netem and shape.delay_ms:
        delay = (f"{shape.delay_ms:g}ms", f"{shape.deviation_ms:g}ms")
        limit = ("limit", str(_NETEM_PACKETS))
        yield ("qdisc", "add", "dev", device, *parent, "netem", *limit, "delay", *delay)
        parent = ("parent", "1:1", "handle", "10:")
    if tbf and shape.rate_bps is not None:
        burst = max(_LEAST_BURST_BYTES, shape.rate_bps * _BURST_MS // 8000)
        rate = ("rate", f"{shape.rate_bps}bit", "burst", f"{burst}b")
        queue = ("latency", f"{_LONGEST_QUEUE_MS}ms")
        yield ("qdisc", "add", "dev", device, *parent, "tbf", *rate, *queue)


def no_queueing(device: str) -> Sequence[str]:
    """Return the ``tc`` command that takes our queueing away, and fails where there is none."""
    return ("qdisc", "del", "dev", device, "root")


def losing(
    directions: Sequence[Direction],
    devices: Mapping[str, str],
    addresses: Mapping[tuple[str, str], str],
    *,
    first: bool,
) -> str:
    """Return what ``iptables-restore --noflush`` takes to lose a node's packets, all rules at once.

    ``devices`` by network, ``addresses`` by (node, network); ``first``: the node has none of our
    rules yet. A link to a peer stands before its network's own loss, unless that is total: who is
    cut off from a network is cut off from each peer in it.
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


def refusals(directions: Sequence[Direction], able: Able) -> Iterator[str]:
    """Yield each setting that cannot be had, by name and with the reason."""
    for each in directions:
        toward = f" with {each.peer}" if each.peer else ""
        where = f"{each.node} {each.way} {each.network}{toward}"
        alone = "only a whole network has its own, no single link" if each.peer else ""
        if each.shape.rate_bps is not None and (alone or not able.rate):
            yield f"{where}: {each.shape.rate_bps} bit/s: {alone or 'the kernel has no tbf'}"
        if each.shape.delay_ms and (alone or not able.delay):
            yield f"{where}: {each.shape.delay_ms:g} ms delay: {alone or 'the kernel has no netem'}"
        if each.shape.loss and not able.loss:
            yield f"{where}: {each.shape.loss:.3%} loss: iptables has no statistic"


def _rules(match: str, direction: Direction) -> Iterator[str]:
    loss = direction.shape.loss
    if loss >= 1:
        yield f"{match} -j DROP"
        return
    if loss > 0:
        yield f"{match} -m statistic --mode random --probability {loss:.9f} -j DROP"
    if direction.peer is not None:
        yield f"{match} -j RETURN"
