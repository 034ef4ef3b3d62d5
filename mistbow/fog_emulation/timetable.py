"""What a scenario does when, to which nodes: data, and no doing."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from mistbow.errors import InvalidRequestError
from mistbow.fog_emulation import model
from mistbow.fog_emulation.parts import Direction, FogPlan, Node
from mistbow.fog_emulation.plan import REFERENCE_MHZ, access, instance, scenario, shapes


@dataclass(frozen=True, slots=True)
class Connect:
    """Change how a node is connected, from now on."""

    direction: Direction


@dataclass(frozen=True, slots=True)
class Limit:
    """Give a node other limits."""

    node: str
    cores: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Stress:
    """Keep so many of the host's cores busy in a node."""

    node: str
    cores: float
    duration_ms: float


@dataclass(frozen=True, slots=True)
class Run:
    """Run a command in a node's shell."""

    node: str
    command: str


@dataclass(frozen=True, slots=True)
class Start:
    """Add a node."""

    node: Node
    directions: tuple[Direction, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """Take a node away at once, as if it had died."""

    node: str


Effect = Connect | Limit | Stress | Run | Start | Stop


@dataclass(frozen=True, slots=True)
class Step:
    """What happens ``at_s`` seconds after the beginning of the scenario."""

    at_s: int
    effects: tuple[Effect, ...]


def connected(steps: Iterable[Step]) -> Iterator[Direction]:
    """Yield each way in which steps connect nodes."""
    for step in steps:
        for effect in step.effects:
            match effect:
                case Connect(direction=direction):
                    yield direction
                case Start(directions=directions):
                    yield from directions


def timetable(
    fog: model.FogModel, start: FogPlan, name: str, reference_mhz: int = REFERENCE_MHZ
) -> tuple[Step, ...]:
    """Return a scenario's steps; raises ``NotFoundError``, ``InvalidRequestError``.

    Of several instances, those that are there longest are meant, and the youngest are taken away.
    """
    alive = {node.name: node for node in start.nodes}
    steps = []
    now = 0
    for action in sorted(scenario(fog, name).actions, key=lambda each: each.position):
        now += action.time
        effects = _effects(fog, start, action, alive, reference_mhz)
        alive = _after(alive, effects)
        steps.append(Step(now, effects))
    return tuple(steps)


def _effects(
    fog: model.FogModel,
    start: FogPlan,
    action: model.Action,
    alive: dict[str, Node],
    reference_mhz: int,
) -> tuple[Effect, ...]:
    what = action.action
    if isinstance(what, model.HorizontalAction) and what.parameters.type == "up":
        return _more(fog, start, action, alive, reference_mhz)
    there = [node for node in alive.values() if node.label == action.instance_type]
    if len(there) < action.instances:
        raise InvalidRequestError(
            f"position {action.position}: of {action.instance_type} there are {len(there)} then,"
            f" not {action.instances}"
        )
    if isinstance(what, model.HorizontalAction):
        return tuple(Stop(node.name) for node in there[::-1][: action.instances])
    effects = _effect_of(what)
    return tuple(effect for node in there[: action.instances] for effect in effects(node))


def _effect_of(
    what: model.NetworkAction | model.StressAction | model.VerticalAction | model.CommandAction,
) -> Callable[[Node], tuple[Effect, ...]]:
    match what:
        case model.NetworkAction(parameters=to):
            return lambda node: tuple(
                Connect(Direction(to.network, node.name, way, shape))
                for way, shape in shapes(to).items()
            )
        case model.StressAction(parameters=load):
            return lambda node: (
                Stress(node.name, round(node.cores * load.cpu / 100, 3), load.duration),
            )
        case model.CommandAction(parameters=given):
            return lambda node: (Run(node.name, given.command),)
        case model.VerticalAction(parameters=change):
            return lambda node: (
                Limit(
                    node.name,
                    round(node.cores * (change.cpu or 1), 3),
                    change.memory or node.memory_bytes,
                ),
            )


def _more(
    fog: model.FogModel,
    start: FogPlan,
    action: model.Action,
    alive: dict[str, Node],
    reference_mhz: int,
) -> tuple[Effect, ...]:
    """Add instances under the lowest numbers that are free: what died comes back as itself."""
    blueprint = next(each for each in fog.topology if each.label == action.instance_type)
    added: list[Effect] = []
    number = 0
    while len(added) < action.instances:
        number += 1
        node = instance(fog, blueprint, number, reference_mhz)
        if node.name not in alive:
            added.append(Start(node, start.directions_of(node.name) or access(fog, node)))
    return tuple(added)


def _after(alive: dict[str, Node], effects: tuple[Effect, ...]) -> dict[str, Node]:
    nodes = dict(alive)
    for effect in effects:
        match effect:
            case Start(node=node):
                nodes[node.name] = node
            case Stop(node=name):
                del nodes[name]
            case Limit(node=name, cores=cores, memory_bytes=memory):
                nodes[name] = replace(nodes[name], cores=cores, memory_bytes=memory)
    return nodes
