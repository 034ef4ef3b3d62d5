"""Converts a scenario to a timetable: the effects on nodes, and the time of each effect."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from fog_emulation import model
from fog_emulation.plan import REFERENCE_MHZ, access, instance, scenario, shapes
from fog_emulation.topology import Direction, EmulatedNode, FogPlan
from mistbow.errors import InvalidRequestError


@dataclass(frozen=True, slots=True)
class ShapeDirection:
    """Changes the traffic shape of one direction between a node and a network."""

    direction: Direction


@dataclass(frozen=True, slots=True)
class LimitNode:
    """Changes the CPU and memory limits of a node."""

    node: str
    cores: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class StressNode:
    """Keeps some cores of the host busy in a node, for ``duration_ms``."""

    node: str
    cores: float
    duration_ms: float


@dataclass(frozen=True, slots=True)
class RunCommand:
    """Runs a command in a node's shell."""

    node: str
    command: str


@dataclass(frozen=True, slots=True)
class StartNode:
    """Adds a node with its links."""

    node: EmulatedNode
    directions: tuple[Direction, ...]


@dataclass(frozen=True, slots=True)
class StopNode:
    """Removes a node at once, as if the node had crashed."""

    node: str


Effect = ShapeDirection | LimitNode | StressNode | RunCommand | StartNode | StopNode


@dataclass(frozen=True, slots=True)
class ScenarioStep:
    """The effects that occur ``at_s`` seconds after the start of the scenario."""

    at_s: int
    effects: tuple[Effect, ...]


def shaped_directions(steps: Iterable[ScenarioStep]) -> Iterator[Direction]:
    """Yield the directions whose shapes the steps change."""
    for step in steps:
        for effect in step.effects:
            match effect:
                case ShapeDirection(direction=direction):
                    yield direction
                case StartNode(directions=directions):
                    yield from directions


def timetable(
    fog: model.FogModel, start: FogPlan, name: str, reference_mhz: int = REFERENCE_MHZ
) -> tuple[ScenarioStep, ...]:
    """Return the steps of the scenario ``name``.

    Actions apply to the oldest instances of a label first; scaling down removes the youngest
    instances. Raises ``NotFoundError`` if the scenario does not exist, and ``InvalidRequestError``
    if too few instances run for an action.
    """
    alive = {node.name: node for node in start.nodes}
    steps = []
    now = 0
    for action in sorted(scenario(fog, name).actions, key=lambda each: each.position):
        now += action.time
        effects = _effects(fog, start, action, alive, reference_mhz)
        alive = _nodes_after(alive, effects)
        steps.append(ScenarioStep(now, effects))
    return tuple(steps)


def _effects(
    fog: model.FogModel,
    start: FogPlan,
    action: model.Action,
    alive: dict[str, EmulatedNode],
    reference_mhz: int,
) -> tuple[Effect, ...]:
    definition = action.action
    if isinstance(definition, model.NoAction):
        return ()
    if isinstance(definition, model.HorizontalAction) and definition.parameters.type == "up":
        return _start_effects(fog, start, action, alive, reference_mhz)
    running = [node for node in alive.values() if node.label == action.instance_type]
    if len(running) < action.instances:
        raise InvalidRequestError(
            f"position {action.position}: only {len(running)} instances of {action.instance_type}"
            f" run then, not {action.instances}"
        )
    if isinstance(definition, model.HorizontalAction):
        return tuple(StopNode(node.name) for node in running[::-1][: action.instances])
    effects = _effect_of(definition)
    return tuple(effect for node in running[: action.instances] for effect in effects(node))


def _effect_of(
    definition: model.NetworkAction
    | model.StressAction
    | model.VerticalAction
    | model.CommandAction,
) -> Callable[[EmulatedNode], tuple[Effect, ...]]:
    match definition:
        case model.NetworkAction(parameters=quality):
            return lambda node: tuple(
                ShapeDirection(Direction(quality.network, node.name, way, shape))
                for way, shape in shapes(quality).items()
            )
        case model.StressAction(parameters=load):
            return lambda node: (
                StressNode(node.name, round(node.cores * load.cpu / 100, 3), load.duration),
            )
        case model.CommandAction(parameters=command):
            return lambda node: (RunCommand(node.name, command.command),)
        case model.VerticalAction(parameters=limits):
            return lambda node: (
                LimitNode(
                    node.name,
                    round(node.cores * (limits.cpu or 1), 3),
                    limits.memory or node.memory_bytes,
                ),
            )


def _start_effects(
    fog: model.FogModel,
    start: FogPlan,
    action: model.Action,
    alive: dict[str, EmulatedNode],
    reference_mhz: int,
) -> tuple[Effect, ...]:
    """Return the effects that add instances; numbers of removed instances are used again first."""
    blueprint = next(each for each in fog.topology if each.label == action.instance_type)
    added: list[Effect] = []
    number = 0
    while len(added) < action.instances:
        number += 1
        node = instance(fog, blueprint, number, reference_mhz)
        if node.name not in alive:
            added.append(StartNode(node, start.directions_of(node.name) or access(fog, node)))
    return tuple(added)


def _nodes_after(
    alive: dict[str, EmulatedNode], effects: tuple[Effect, ...]
) -> dict[str, EmulatedNode]:
    nodes = dict(alive)
    for effect in effects:
        match effect:
            case StartNode(node=node):
                nodes[node.name] = node
            case StopNode(node=name):
                del nodes[name]
            case LimitNode(node=name, cores=cores, memory_bytes=memory):
                nodes[name] = replace(nodes[name], cores=cores, memory_bytes=memory)
    return nodes
