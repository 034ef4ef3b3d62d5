"""Hysteresis of measured figures, so that noise in the measurements causes no new decisions."""

import math

import msgspec

from analytics_enabler.scheduling.model.snapshot import Battery, Fog, Link, Node

MEMORY_STEP_MB = 32.0
"""The smallest change of a node's free memory (MB) that causes a decision."""

CORES_STEP = 0.05
"""The smallest change of a node's free cores that causes a decision."""

LATENCY_STEP_MS = 5.0
"""The smallest change of a link's latency (ms) that causes a decision."""

LOSS_STEP = 0.05
"""The smallest change of a link's loss that causes a decision."""

BANDWIDTH_STEP = 0.3
"""The smallest change of a link's bandwidth that causes a decision, as a share of the bandwidth."""

CHARGE_STEP = 0.05
"""The smallest change of a battery's charge that causes a decision, as a share of its capacity."""

LASTING_LOSS_MS = 90_000
"""The time (ms) after which the loss of a link counts.

The figure covers the last minute. So a single outage, such as the restart of an agent, ends before.
"""

NEXT_CHARGE_STEP_S = 600.0
"""The smallest change of the time (s) until a battery is charged that causes a decision."""


class LastingLoss:
    """Removes losses that have not lasted for ``LASTING_LOSS_MS`` from the links of a fog."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], int] = {}
        """(source, target) -> the time (ms) since which a link has lost requests."""

    def observe(self, fog: Fog, now: int) -> None:
        """Note which links lose requests at a time (ms)."""
        lossy = [(link.source, link.target) for link in fog.links if link.loss > 0]
        self._since = {ends: self._since.get(ends, now) for ends in lossy}

    def lasting(self, fog: Fog, now: int) -> Fog:
        """Return a fog with only the lasting losses."""
        if all(link.loss == 0 for link in fog.links):
            return fog
        return msgspec.structs.replace(
            fog, links=tuple(self._lasting_link(link, now) for link in fog.links)
        )

    def _lasting_link(self, link: Link, now: int) -> Link:
        since = self._since.get((link.source, link.target), now)
        if link.loss == 0 or now - since >= LASTING_LOSS_MS:
            return link
        return msgspec.structs.replace(link, loss=0.0)


def stabilize(fog: Fog, former: Fog) -> Fog:
    """Return a fog in which figures that differ little from ``former`` have their former values."""
    links = {(link.source, link.target): link for link in former.links}
    return msgspec.structs.replace(
        fog,
        nodes=tuple(_stable_node(node, former.by_name.get(node.name)) for node in fog.nodes),
        links=tuple(
            _stable_link(link, links.get((link.source, link.target))) for link in fog.links
        ),
    )


def _stable_node(node: Node, former: Node | None) -> Node:
    if former is None or (node.cores, node.memory_mb) != (former.cores, former.memory_mb):
        return node
    cores, memory = node.cores_free, node.memory_free_mb
    if abs(cores - former.cores_free) < CORES_STEP:
        cores = former.cores_free
    if abs(memory - former.memory_free_mb) < MEMORY_STEP_MB:
        memory = former.memory_free_mb
    battery = _stable_battery(node.battery, former.battery)
    return msgspec.structs.replace(node, cores_free=cores, memory_free_mb=memory, battery=battery)


def _stable_battery(battery: Battery | None, former: Battery | None) -> Battery | None:
    if battery is None or former is None:
        return battery
    charge, next_charge_s = battery.charge_wh, battery.next_charge_s
    if abs(charge - former.charge_wh) < CHARGE_STEP * battery.capacity_wh:
        charge = min(former.charge_wh, battery.capacity_wh)
    if (
        next_charge_s is not None
        and former.next_charge_s is not None
        and abs(next_charge_s - former.next_charge_s) < NEXT_CHARGE_STEP_S
    ):
        next_charge_s = former.next_charge_s
    return msgspec.structs.replace(battery, charge_wh=charge, next_charge_s=next_charge_s)


def _stable_link(link: Link, former: Link | None) -> Link:
    if former is None:
        return link
    latency, loss, bandwidth = link.latency_ms, link.loss, link.bandwidth_mbps
    if abs(latency - former.latency_ms) < LATENCY_STEP_MS:
        latency = former.latency_ms
    if abs(loss - former.loss) < LOSS_STEP:
        loss = former.loss
    if _is_near(bandwidth, former.bandwidth_mbps):
        bandwidth = former.bandwidth_mbps
    return msgspec.structs.replace(link, latency_ms=latency, loss=loss, bandwidth_mbps=bandwidth)


def _is_near(bandwidth: float | None, former: float | None) -> bool:
    if bandwidth is None or former is None:
        return bandwidth is former
    return math.isclose(bandwidth, former, rel_tol=BANDWIDTH_STEP)
