"""Converts a model to the plan of a fog: nodes, and directions with traffic shapes."""

import math
from collections.abc import Iterator

from fog_emulation import model
from fog_emulation.topology import Direction, EmulatedNode, FogPlan, Shape, Way
from mistbow.errors import NotFoundError

REFERENCE_MHZ = 2400
"""The clock speed (MHz) that is assumed for the cores of the host by default."""

_NO_LATENCY = model.LatencyModel.model_validate({"delay": "0ms"})


def plan(fog: model.FogModel, reference_mhz: int = REFERENCE_MHZ) -> FogPlan:
    """Return the plan for a model, on a machine whose cores run at ``reference_mhz``."""
    nodes = tuple(
        instance(fog, blueprint, number, reference_mhz)
        for blueprint in fog.topology
        for number in range(1, blueprint.replicas + 1)
    )
    networks = tuple(network.name for network in fog.networks)
    return FogPlan(networks, nodes, tuple(_directions(fog, nodes)))


def instance(
    fog: model.FogModel, blueprint: model.Blueprint, number: int, reference_mhz: int
) -> EmulatedNode:
    """Return the node that is instance ``number`` of a blueprint; numbers begin at 1."""
    capabilities = next(kind.capabilities for kind in fog.nodes if kind.name == blueprint.node)
    return EmulatedNode(
        name=f"{blueprint.label}-{number}",
        label=blueprint.label,
        service=blueprint.service,
        cores=round(
            capabilities.processor.cores * capabilities.processor.clock_speed / reference_mhz, 3
        ),
        memory_bytes=capabilities.memory,
        networks=tuple(blueprint.networks),
    )


def access(fog: model.FogModel, node: EmulatedNode) -> tuple[Direction, ...]:
    """Return the directions between a node and the node's networks.

    Directions that apply to a single peer only are not included.
    """
    return tuple(
        Direction(network.name, node.name, way, shape)
        for network in fog.networks
        if network.name in node.networks
        for way, shape in shapes(network).items()
    )


def shapes(ways: model.Ways) -> dict[Way, Shape]:
    """Return the traffic shape of each direction of a link.

    A packet between two nodes goes up at the sender and down at the receiver. Therefore each end of
    a ``bidirectional`` quality has half of the delay, as in Fogify, and a packet loss of 1 - √(1 -
    loss), so that both ends together have the packet loss ``loss``.
    """
    if ways.bidirectional is not None:
        half = _halve(_shape_of_quality(ways.bidirectional))
        return {"up": half, "down": half}
    assert ways.uplink is not None  # noqa: S101 - checked by the model
    assert ways.downlink is not None  # noqa: S101
    return {"up": _shape_of_quality(ways.uplink), "down": _shape_of_quality(ways.downlink)}


def scenario(fog: model.FogModel, name: str) -> model.Scenario:
    """Return the scenario ``name`` of a model; raises ``NotFoundError`` if the scenario does not
    exist.
    """
    for each in fog.scenarios:
        if each.name == name:
            return each
    names = ", ".join(each.name for each in fog.scenarios) or "none"
    raise NotFoundError(
        f"there is no scenario called {name}", hint=f"The scenarios of this fog: {names}."
    )


def _shape_of_quality(quality: model.Quality) -> Shape:
    latency = quality.latency or _NO_LATENCY
    return Shape(quality.bandwidth, quality.drop, latency.delay, latency.deviation)


def _halve(shape: Shape) -> Shape:
    return Shape(
        rate_bps=shape.rate_bps,
        loss=round(1 - math.sqrt(1 - shape.loss), 9),
        delay_ms=shape.delay_ms / 2,
        deviation_ms=shape.deviation_ms / 2,
    )


def _directions(fog: model.FogModel, nodes: tuple[EmulatedNode, ...]) -> Iterator[Direction]:
    for node in nodes:
        yield from access(fog, node)
    for network in fog.networks:
        for link in network.links:
            yield from _link(network.name, link, nodes, link.from_node, link.to_node)
            if link.bidirectional:
                yield from _link(network.name, link, nodes, link.to_node, link.from_node)


def _link(
    network: str, link: model.LabelLink, nodes: tuple[EmulatedNode, ...], source: str, target: str
) -> Iterator[Direction]:
    ways = shapes(link.ways())
    peers = [node for node in nodes if node.label == target]
    for node in nodes:
        if node.label == source:
            for peer in peers:
                if peer != node:
                    for way, shape in ways.items():
                        yield Direction(network, node.name, way, shape, peer.name)
