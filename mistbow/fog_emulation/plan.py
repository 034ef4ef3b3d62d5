"""What has to be done on a machine so that it is the fog of a model: data, and no doing."""

import math
from collections.abc import Iterator

from mistbow.errors import NotFoundError
from mistbow.fog_emulation import model
from mistbow.fog_emulation.parts import Direction, FogPlan, Node, Shape, Way

REFERENCE_MHZ = 2400
"""A core of the host counts as so fast unless a caller says otherwise."""

_NO_LATENCY = model.Latency.model_validate({"delay": "0ms"})


def plan(fog: model.FogModel, reference_mhz: int = REFERENCE_MHZ) -> FogPlan:
    """Return what a model asks for on a machine whose cores run at ``reference_mhz``."""
    nodes = tuple(
        instance(fog, blueprint, number, reference_mhz)
        for blueprint in fog.topology
        for number in range(1, blueprint.replicas + 1)
    )
    networks = tuple(network.name for network in fog.networks)
    return FogPlan(networks, nodes, tuple(_directions(fog, nodes)))


def instance(
    fog: model.FogModel, blueprint: model.Blueprint, number: int, reference_mhz: int
) -> Node:
    """Return the ``number``-th instance of a blueprint, from 1."""
    has = next(kind.capabilities for kind in fog.nodes if kind.name == blueprint.node)
    return Node(
        name=f"{blueprint.label}-{number}",
        label=blueprint.label,
        service=blueprint.service,
        cores=round(has.processor.cores * has.processor.clock_speed / reference_mhz, 3),
        memory_bytes=has.memory,
        networks=tuple(blueprint.networks),
    )


def access(fog: model.FogModel, node: Node) -> tuple[Direction, ...]:
    """Return how a node is connected to its networks, apart from links to single nodes."""
    return tuple(
        Direction(network.name, node.name, way, shape)
        for network in fog.networks
        if network.name in node.networks
        for way, shape in shapes(network).items()
    )


def shapes(ways: model.Ways) -> dict[Way, Shape]:
    """Return both directions.

    A packet between two nodes goes up at one and down at the other, so each end of a
    ``bidirectional`` quality has half of its delay, as in Fogify, and so much of its loss that
    both together lose what is asked for.
    """
    if ways.bidirectional is not None:
        half = _half(_shape(ways.bidirectional))
        return {"up": half, "down": half}
    assert ways.uplink is not None  # noqa: S101 - the model lets nothing else pass
    assert ways.downlink is not None  # noqa: S101
    return {"up": _shape(ways.uplink), "down": _shape(ways.downlink)}


def scenario(fog: model.FogModel, name: str) -> model.Scenario:
    """Return a model's scenario; raises ``NotFoundError``."""
    for each in fog.scenarios:
        if each.name == name:
            return each
    known = ", ".join(each.name for each in fog.scenarios) or "none"
    raise NotFoundError(f"there is no scenario called {name}", hint=f"There are: {known}.")


def _shape(quality: model.Quality) -> Shape:
    latency = quality.latency or _NO_LATENCY
    return Shape(quality.bandwidth, quality.drop, latency.delay, latency.deviation)


def _half(shape: Shape) -> Shape:
    return Shape(
        rate_bps=shape.rate_bps,
        loss=round(1 - math.sqrt(1 - shape.loss), 9),
        delay_ms=shape.delay_ms / 2,
        deviation_ms=shape.deviation_ms / 2,
    )


def _directions(fog: model.FogModel, nodes: tuple[Node, ...]) -> Iterator[Direction]:
    for node in nodes:
        yield from access(fog, node)
    for network in fog.networks:
        for link in network.links:
            yield from _link(network.name, link, nodes, link.from_node, link.to_node)
            if link.bidirectional:
                yield from _link(network.name, link, nodes, link.to_node, link.from_node)


def _link(
    network: str, link: model.Link, nodes: tuple[Node, ...], source: str, target: str
) -> Iterator[Direction]:
    for node in nodes:
        for peer in nodes:
            if node.label == source and peer.label == target and node != peer:
                for way, shape in shapes(link.ways()).items():
                    yield Direction(network, node.name, way, shape, peer.name)
