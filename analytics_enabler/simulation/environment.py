"""The state of a simulated fog: failed nodes, batteries, prices, and where mobile nodes are."""

import math
from collections.abc import Mapping

import msgspec
import numpy as np

from analytics_enabler.scheduling.model.snapshot import Battery, Fog, Node
from analytics_enabler.simulation.events import Event
from analytics_enabler.simulation.topology import Topology

_HOUR_S = 3600.0
_DAY_H = 24.0
_SUNRISE_H, _SUNSET_H = 6.0, 18.0
_PEAK_SHARE = 0.3
"""The peak power (W) of a solar panel, as a share of the capacity (Wh) of the battery."""

_RESTART_SHARE = 0.2
"""The charge, as a share of the capacity, with which a node with an empty battery starts again."""

_PRICE_SWING = 0.5
_DEAREST_H = 19.0
_MOVE_SHARE = 0.2
"""The probability that a mobile node moves in one step."""

_MOBILE_LATENCY_MS = (5.0, 40.0)


class Environment:
    """Applies events, and returns the fog that schedulers see at a time."""

    def __init__(self, topology: Topology, rng: np.random.Generator) -> None:
        self._topology = topology
        self._rng = rng
        self._nodes = {node.name: node for node in topology.nodes}
        self._charge = {
            node.name: node.battery.charge_wh for node in topology.nodes if node.battery is not None
        }
        self._failed: set[str] = set()
        self._empty: set[str] = set()
        self._attached = {name: self._attachment(name, home=True) for name in topology.mobile}
        self._fixed = Fog(topology.nodes, topology.links, topology.sources)
        self._linked = self._fixed.with_attached(self._attached)

    def apply(self, event: Event) -> None:
        """Change the fog by an event."""
        match event.kind:
            case "failure":
                self._failed.add(event.node)
            case "repair":
                self._failed.discard(event.node)
            case "step":
                self._move()

    def fog(self, at_s: float) -> Fog:
        """Return the nodes that are alive, with prices and batteries at a time, and the links."""
        away = self._failed | self._empty
        return self._linked.with_nodes(
            self._at(node, at_s) for node in self._nodes.values() if node.name not in away
        )

    def advance(self, at_s: float, duration_s: float, used: Mapping[str, float]) -> None:
        """Charge and discharge the batteries from a time on; ``used``: node -> used cores.

        A node whose battery is empty starts again when the battery has ``_RESTART_SHARE`` of its
        capacity.
        """
        for name, charge in self._charge.items():
            node = self._nodes[name]
            battery = node.battery
            if battery is None:
                continue
            away = name in self._empty or name in self._failed
            needed = 0.0 if away else power_w(node, used.get(name, 0.0))
            gained = self._sun_w(node, battery, at_s + duration_s / 2) - needed
            charge += gained * duration_s / _HOUR_S
            self._charge[name] = min(max(charge, 0.0), battery.capacity_wh)
            if self._charge[name] <= 0:
                self._empty.add(name)
            elif self._charge[name] >= _RESTART_SHARE * battery.capacity_wh:
                self._empty.discard(name)

    def _move(self) -> None:
        movers = [name for name in self._attached if self._rng.random() < _MOVE_SHARE]
        for name in movers:
            self._attached[name] = self._attachment(name)
        if movers:
            self._linked = self._fixed.with_attached(self._attached)

    def _attachment(self, name: str, *, home: bool = False) -> tuple[str, float]:
        """Return (the site to which a mobile node is attached, the latency to it in ms)."""
        hubs = self._topology.hubs
        region = sorted(hubs)[int(self._rng.integers(len(hubs)))]
        if home:
            region = self._nodes[name].region
        return hubs[region], float(self._rng.uniform(*_MOBILE_LATENCY_MS))

    def _at(self, node: Node, at_s: float) -> Node:
        changes: dict[str, object] = {}
        if node.price_per_core_hour is not None:
            hour = self._local_hour(node, at_s) - _DEAREST_H
            factor = 1 + _PRICE_SWING * math.cos(2 * math.pi * hour / _DAY_H)
            changes["price_per_core_hour"] = node.price_per_core_hour * factor
        if node.battery is not None:
            sun_w = self._sun_w(node, node.battery, at_s)
            wait_h = (_SUNRISE_H - self._local_hour(node, at_s)) % _DAY_H
            changes["battery"] = msgspec.structs.replace(
                node.battery,
                charge_wh=self._charge[node.name],
                charging_w=sun_w,
                next_charge_s=0.0 if sun_w > 0 else wait_h * _HOUR_S,
            )
        return msgspec.structs.replace(node, **changes)

    def _sun_w(self, node: Node, battery: Battery, at_s: float) -> float:
        phase = (self._local_hour(node, at_s) - _SUNRISE_H) / (_SUNSET_H - _SUNRISE_H)
        height = math.sin(math.pi * phase) if 0 < phase < 1 else 0.0
        return _PEAK_SHARE * battery.capacity_wh * height

    def _local_hour(self, node: Node, at_s: float) -> float:
        return (at_s / _HOUR_S + self._topology.offsets_h.get(node.site, 0.0)) % _DAY_H


def power_w(node: Node, used: float) -> float:
    """Return the power (W) of a node whose fragments use ``used`` cores; 0: unknown.

    The cores that are not free are used too.
    """
    if node.power is None:
        return 0.0
    load = min((node.cores - node.cores_free + used) / node.cores, 1.0)
    return node.power.idle_w + load * (node.power.full_w - node.power.idle_w)
