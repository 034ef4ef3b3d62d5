"""Fogify's model as it is written under ``x-fogify`` in a compose file."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationError,
    model_validator,
)

from mistbow.errors import InvalidRequestError
from mistbow.fog_emulation import units

Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_.-]*$")]
Memory = Annotated[int, BeforeValidator(units.memory_bytes), Field(gt=0)]
Bandwidth = Annotated[int, BeforeValidator(units.bits_per_second), Field(gt=0)]
Milliseconds = Annotated[float, BeforeValidator(units.milliseconds)]
Share = Annotated[float, BeforeValidator(units.probability)]
Change = Annotated[float, BeforeValidator(units.percent_change)]


class _Part(BaseModel):
    """What all parts have in common: nothing is guessed, nothing is overlooked."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Processor(_Part):
    """``clock_speed`` in MHz."""

    cores: PositiveInt
    clock_speed: PositiveInt


class Capabilities(_Part):
    """What a kind of node has; ``memory`` in bytes."""

    processor: Processor
    memory: Memory


class NodeKind(_Part):
    """A kind of node, which any number of instances may be."""

    name: Name
    capabilities: Capabilities
    node_specifications: list[str] = []


class Latency(_Part):
    """Both in milliseconds."""

    delay: Milliseconds
    deviation: Milliseconds = 0.0

    @model_validator(mode="after")
    def _deviates_by_less(self) -> Self:
        if self.deviation > self.delay:
            raise ValueError("the deviation is greater than the delay")
        return self


class Quality(_Part):
    """How one direction treats packets; ``bandwidth`` in bits/s, ``drop`` as a part of one."""

    bandwidth: Bandwidth | None = None
    latency: Latency | None = None
    drop: Share = 0.0


class Ways(_Part):
    """Either ``bidirectional``, halved over the two ends as Fogify does, or both ways by name."""

    bidirectional: Quality | None = None
    uplink: Quality | None = None
    downlink: Quality | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if self.bidirectional is not None:
            if self.uplink is not None or self.downlink is not None:
                raise ValueError("bidirectional stands alone, without uplink and downlink")
        elif self.uplink is None or self.downlink is None:
            raise ValueError("needs bidirectional, or uplink and downlink")
        return self


class Link(_Part):
    """Another quality between the instances of two labels, as seen from ``from_node``."""

    from_node: Name
    to_node: Name
    properties: Quality | None = None
    uplink: Quality | None = None
    downlink: Quality | None = None
    bidirectional: bool = False

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        self.ways()
        return self

    def ways(self) -> Ways:
        """Return the link's quality in the form in which a network has its own."""
        return Ways(bidirectional=self.properties, uplink=self.uplink, downlink=self.downlink)


class Network(Ways):
    """A network that instances may be in."""

    name: Name
    links: list[Link] = []


class Blueprint(_Part):
    """``replicas`` instances of a service, on nodes of a kind, in networks."""

    node: Name
    service: Name
    label: Name
    replicas: PositiveInt = 1
    networks: list[Name]


class NetworkParameters(Ways):
    """The new quality of instances' access to a network."""

    network: Name


class StressParameters(_Part):
    """Load on the processor, in percent of what the instance has; ``duration`` in milliseconds."""

    cpu: Annotated[int, Field(gt=0, le=100)]
    duration: Milliseconds


class VerticalParameters(_Part):
    """A change of the processor's share in percent, or a new memory limit."""

    cpu: Change | None = None
    memory: Memory | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.cpu is None) == (self.memory is None):
            raise ValueError("needs cpu or memory, and not both")
        return self


class HorizontalParameters(_Part):
    """More instances, or fewer."""

    type: Literal["up", "down"]


class CommandParameters(_Part):
    """A command for the instance's shell."""

    command: Annotated[str, Field(min_length=1)]


class NetworkAction(_Part):
    """Change how instances are connected."""

    type: Literal["network"]
    parameters: NetworkParameters


class StressAction(_Part):
    """Keep the processor busy."""

    type: Literal["stress"]
    parameters: StressParameters


class VerticalAction(_Part):
    """Change what instances may use."""

    type: Literal["vertical_scaling"]
    parameters: VerticalParameters


class HorizontalAction(_Part):
    """Add instances or take some away."""

    type: Literal["horizontal_scaling"]
    parameters: HorizontalParameters


class CommandAction(_Part):
    """Run a command."""

    type: Literal["command"]
    parameters: CommandParameters


class Action(_Part):
    """What happens ``time`` seconds after the action before, to instances of a label."""

    time: Annotated[int, Field(ge=0)]
    position: Annotated[int, Field(ge=0)]
    instance_type: Name
    instances: PositiveInt
    action: Annotated[
        NetworkAction | StressAction | VerticalAction | HorizontalAction | CommandAction,
        Field(discriminator="type"),
    ]


class Scenario(_Part):
    """Actions in the order of their positions."""

    name: Name
    actions: list[Action]


class FogModel(_Part):
    """All of ``x-fogify``."""

    nodes: list[NodeKind]
    networks: list[Network]
    topology: list[Blueprint]
    scenarios: list[Scenario] = []


def load(path: Path) -> FogModel:
    """Return the model in a compose file; raises ``InvalidRequestError`` with all problems."""
    try:
        return parse(path.read_text())
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{path}: {error.message}", details=error.details) from error


def parse(text: str) -> FogModel:
    """Return the model in a compose file's text; raises ``InvalidRequestError``."""
    try:
        compose = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidRequestError(f"this is no YAML: {error}") from error
    if not isinstance(compose, dict) or "x-fogify" not in compose:
        raise _refusal(["x-fogify: is not there"])
    try:
        model = FogModel.model_validate(compose["x-fogify"])
    except ValidationError as error:
        raise _refusal(_problem(each) for each in error.errors()) from error
    problems = list(_contradictions(model, set(compose.get("services") or {})))
    if problems:
        raise _refusal(problems)
    return model


def _problem(error: Any) -> str:
    where = ".".join(["x-fogify", *map(str, error["loc"])])
    return f"{where}: {error['msg'].removeprefix('Value error, ')}"


def _refusal(problems: Iterable[str]) -> InvalidRequestError:
    listed = list(problems)
    return InvalidRequestError("\n".join(listed), details=listed)


def _contradictions(model: FogModel, services: set[str]) -> Iterator[str]:
    """Yield what the parts say of each other that is not so."""
    kinds = {kind.name for kind in model.nodes}
    networks = {network.name for network in model.networks}
    labels = {blueprint.label for blueprint in model.topology}

    yield from _twice("nodes", (kind.name for kind in model.nodes))
    yield from _twice("networks", (network.name for network in model.networks))
    yield from _twice("topology", (blueprint.label for blueprint in model.topology))
    yield from _twice("scenarios", (scenario.name for scenario in model.scenarios))
    for number, blueprint in enumerate(model.topology):
        at = f"topology.{number}"
        yield from _unknown(f"{at}.node", "node", {blueprint.node}, kinds)
        yield from _unknown(f"{at}.service", "service", {blueprint.service}, services)
        yield from _unknown(f"{at}.networks", "network", set(blueprint.networks), networks)
        yield from _twice(f"{at}.networks", blueprint.networks)
    for number, network in enumerate(model.networks):
        members = {each.label for each in model.topology if network.name in each.networks}
        for place, link in enumerate(network.links):
            at = f"networks.{number}.links.{place}"
            what = f"label in the network {network.name}"
            yield from _unknown(at, what, {link.from_node, link.to_node}, members)
    for number, scenario in enumerate(model.scenarios):
        at = f"scenarios.{number}.actions"
        yield from _twice(at, (f"position {action.position}" for action in scenario.actions))
        for place, action in enumerate(scenario.actions):
            where = f"{at}.{place}"
            kind = f"{where}.instance_type"
            yield from _unknown(kind, "label", {action.instance_type}, labels)
            yield from _wrong_network(f"{where}.action.parameters.network", action, model)


def _wrong_network(at: str, action: Action, model: FogModel) -> Iterator[str]:
    if not isinstance(action.action, NetworkAction):
        return
    reached = {
        network
        for blueprint in model.topology
        if blueprint.label == action.instance_type
        for network in blueprint.networks
    }
    network = action.action.parameters.network
    yield from _unknown(at, f"network of {action.instance_type}", {network}, reached)


def _twice(at: str, names: Iterable[str]) -> Iterator[str]:
    for name, count in Counter(names).items():
        if count > 1:
            yield f"x-fogify.{at}: {name} is there {count} times"


def _unknown(at: str, what: str, named: set[str], known: set[str]) -> Iterator[str]:
    for name in sorted(named - known):
        yield f"x-fogify.{at}: there is no {what} called {name}"
