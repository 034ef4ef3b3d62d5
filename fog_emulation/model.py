"""Fogify's model, read from ``x-fogify`` in a compose file.

An *instance* is an emulated node with the service of its label.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationError,
    model_validator,
)

from fog_emulation import units
from fog_emulation.compose_file import parse_compose, read_compose
from mistbow.errors import InvalidRequestError

MAX_INSTANCES = 500
"""The maximum number of instances of a fog: the time of planning grows with its square."""

Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_.-]*$")]
Memory = Annotated[int, BeforeValidator(units.memory_bytes), Field(gt=0)]
Bandwidth = Annotated[int, BeforeValidator(units.bits_per_second), Field(gt=0)]
Milliseconds = Annotated[float, BeforeValidator(units.milliseconds)]
Share = Annotated[float, BeforeValidator(units.probability)]
Change = Annotated[float, BeforeValidator(units.percent_change)]


class _ModelPart(BaseModel):
    """The base of the model's classes: types are checked strictly, and unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Processor(_ModelPart):
    """A processor of a node; ``clock_speed`` is in MHz."""

    cores: PositiveInt
    clock_speed: PositiveInt


class Disk(_ModelPart):
    """The disk of a node, which has no effect, as in Fogify; ``size`` is in bytes.

    ``type``: such as ``SSD``. ``read``, ``write``: speeds such as ``95MB/s``.
    """

    size: Memory | None = None
    type: str | None = None
    read: str | None = None
    write: str | None = None


def _disk(disk: object) -> object:
    """Return the object form of a disk; Fogify's SDK writes ``''`` for no disk."""
    if disk == "":
        return None
    return {"size": disk} if isinstance(disk, str) else disk


class Capabilities(_ModelPart):
    """The hardware of a kind of node; ``memory`` is in bytes."""

    processor: Processor
    memory: Memory
    disk: Annotated[Disk | None, BeforeValidator(_disk)] = None


class NodeKind(_ModelPart):
    """A kind of node; several instances can be of the same kind."""

    name: Name
    capabilities: Capabilities
    node_specifications: list[str] = []


class LatencyModel(_ModelPart):
    """A delay and its deviation, both in milliseconds."""

    delay: Milliseconds
    deviation: Milliseconds = 0.0

    @model_validator(mode="after")
    def _deviates_by_less(self) -> Self:
        if self.deviation > self.delay:
            raise ValueError(
                "the deviation is greater than the delay: write a deviation of at most the delay"
            )
        return self


class Quality(_ModelPart):
    """The quality of a link in one direction; ``bandwidth`` in bits/s, ``drop`` from 0 to 1."""

    bandwidth: Bandwidth | None = None
    latency: LatencyModel | None = None
    drop: Share = 0.0


class Ways(_ModelPart):
    """The quality of a link in both directions.

    Either ``bidirectional`` is set, or both ``uplink`` and ``downlink`` are set. As in Fogify, the
    delay of ``bidirectional`` is divided between the two ends of the link.
    """

    bidirectional: Quality | None = None
    uplink: Quality | None = None
    downlink: Quality | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if self.bidirectional is not None:
            if self.uplink is not None or self.downlink is not None:
                raise ValueError(
                    "bidirectional is combined with uplink or downlink: remove "
                    "bidirectional, or the other two"
                )
        elif self.uplink is None or self.downlink is None:
            raise ValueError(
                "the network lacks a direction: write bidirectional, or both uplink and downlink"
            )
        return self


class LabelLink(_ModelPart):
    """The quality of the links between instances of two labels, in place of the network's quality.

    ``uplink``: the direction from ``from_node`` to ``to_node``. ``downlink``: the other direction.
    """

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
        """Return the link's quality in the same form as a network's quality."""
        return Ways(bidirectional=self.properties, uplink=self.uplink, downlink=self.downlink)


class Network(Ways):
    """A network that connects instances.

    ``capacity``: the number of connected devices; it has no effect, as in Fogify.
    """

    name: Name
    capacity: PositiveInt | None = None
    links: list[LabelLink] = []


class Membership(_ModelPart):
    """A network of a label; ``ip`` has no effect: nodes find each other by their names."""

    name: Name
    ip: Annotated[str, AfterValidator(units.ip_address)] | None = None


def _membership(network: object) -> object:
    return {"name": network} if isinstance(network, str) else network


class Blueprint(_ModelPart):
    """A part of the topology: ``replicas`` instances of a service on nodes of one kind, in
    networks.

    ``memberships``: the networks; Fogify's files name it ``networks``, and write a name for a
    network without further fields.
    """

    node: Name
    service: Name
    label: Name
    replicas: PositiveInt = 1
    memberships: list[Annotated[Membership, BeforeValidator(_membership)]] = Field(alias="networks")

    @property
    def networks(self) -> list[str]:
        """The names of the networks."""
        return [each.name for each in self.memberships]


class NetworkParameters(Ways):
    """The parameters of a network action: the new quality of the links between instances and a
    network.
    """

    network: Name


class StressParameters(_ModelPart):
    """The parameters of a stress action: a CPU load in percent of the instance's processor limit.

    ``duration``: milliseconds.
    """

    cpu: Annotated[int, Field(gt=0, le=100)]
    duration: Milliseconds


class VerticalParameters(_ModelPart):
    """The parameters of vertical scaling: a change of the CPU limit in percent, or a new memory
    limit.
    """

    cpu: Change | None = None
    memory: Memory | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.cpu is None) == (self.memory is None):
            raise ValueError("a vertical action must have exactly one of cpu and memory")
        return self


class HorizontalParameters(_ModelPart):
    """The parameters of horizontal scaling: whether instances are started (``up``) or killed
    (``down``).
    """

    type: Literal["up", "down"]


class CommandParameters(_ModelPart):
    """The parameters of a command action: a command for the shell of an instance."""

    command: Annotated[str, Field(min_length=1)]


class NetworkAction(_ModelPart):
    """An action that changes the quality of the links between instances and a network."""

    type: Literal["network"]
    parameters: NetworkParameters


class StressAction(_ModelPart):
    """An action that keeps the processors of instances busy."""

    type: Literal["stress"]
    parameters: StressParameters


class VerticalAction(_ModelPart):
    """An action that changes the CPU and memory limits of instances."""

    type: Literal["vertical_scaling"]
    parameters: VerticalParameters


class HorizontalAction(_ModelPart):
    """An action that starts or kills instances of a label."""

    type: Literal["horizontal_scaling"]
    parameters: HorizontalParameters


class CommandAction(_ModelPart):
    """An action that runs a command in instances."""

    type: Literal["command"]
    parameters: CommandParameters


class NoAction(_ModelPart):
    """No action: a pause before the next action, or before the end of the scenario."""

    type: Literal["noop"]


def _no_action(action: object) -> object:
    """Return Fogify's text ``NOOP`` as an object of the same form as other actions."""
    return {"type": "noop"} if action == "NOOP" else action


class Action(_ModelPart):
    """An action on some instances of a label, ``time`` seconds after the previous action."""

    time: Annotated[int, Field(ge=0)]
    position: Annotated[int, Field(ge=0)]
    instance_type: Name
    instances: PositiveInt
    action: Annotated[
        NetworkAction | StressAction | VerticalAction | HorizontalAction | CommandAction | NoAction,
        Field(discriminator="type"),
        BeforeValidator(_no_action),
    ]


class Scenario(_ModelPart):
    """A named list of actions, which run in the order of their positions."""

    name: Name
    actions: list[Action]


class FogModel(_ModelPart):
    """The complete model: the content of ``x-fogify``."""

    nodes: list[NodeKind]
    networks: list[Network]
    topology: list[Blueprint]
    scenarios: list[Scenario] = []

    @property
    def replicas(self) -> dict[str, int]:
        """Service -> the number of its instances."""
        found = Counter[str]()
        for blueprint in self.topology:
            found[blueprint.service] += blueprint.replicas
        return dict(found)


def load(path: Path) -> FogModel:
    """Return the model in a compose file; raises ``InvalidRequestError`` with all problems."""
    try:
        return parse(read_compose(path))
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{path}: {error.message}", details=error.details) from error


def parse(text: str) -> FogModel:
    """Return the model in the text of a compose file; raises ``InvalidRequestError``."""
    compose = parse_compose(text)
    if not isinstance(compose, dict) or "x-fogify" not in compose:
        raise _invalid_model(["x-fogify: missing; add the model of the fog under this key"])
    try:
        model = FogModel.model_validate(compose["x-fogify"])
    except ValidationError as error:
        raise _invalid_model(_problem(each) for each in error.errors()) from error
    problems = list(_inconsistencies(model, set(compose.get("services") or {})))
    if problems:
        raise _invalid_model(problems)
    return model


_WORDS = {
    "missing": "missing; this field is required",
    "extra_forbidden": "unknown field; correct its name, or remove it",
    "int_type": "write a whole number",
    "bool_type": "write true or false",
    "string_type": "write a text",
    "list_type": "write a list",
    "model_type": "write fields: NAME: VALUE",
    "model_attributes_type": "write fields: NAME: VALUE; or NOOP as an action",
    "greater_than": "write a value above {gt}",
    "greater_than_equal": "write a value of at least {ge}",
    "less_than_equal": "write a value of at most {le}",
    "union_tag_invalid": "there is no action {tag}; write one of {expected_tags}",
    "union_tag_not_found": "the type of the action is missing",
    "literal_error": "write {expected}",
}
"""The words for pydantic's types of errors, with the fields of their contexts."""


def _problem(error: Any) -> str:
    where = ".".join(["x-fogify", *map(str, error["loc"])])
    if (words := _WORDS.get(error["type"])) is not None:
        return f"{where}: {words.format(**error.get('ctx', {}))}"
    return f"{where}: {error['msg'].removeprefix('Value error, ')}"


def _invalid_model(problems: Iterable[str]) -> InvalidRequestError:
    listed = list(problems)
    return InvalidRequestError("\n".join(listed), details=listed)


def _inconsistencies(model: FogModel, services: set[str]) -> Iterator[str]:
    """Yield a message for each reference to an undefined name and for each duplicate name."""
    kinds = {kind.name for kind in model.nodes}
    networks = {network.name for network in model.networks}
    labels = {blueprint.label for blueprint in model.topology}

    instances = sum(blueprint.replicas for blueprint in model.topology)
    if instances > MAX_INSTANCES:
        yield (
            f"x-fogify.topology: {instances:,} instances; at most {MAX_INSTANCES} are emulated: "
            "reduce the replicas"
        )
    yield from _duplicates("nodes", (kind.name for kind in model.nodes))
    yield from _duplicates("networks", (network.name for network in model.networks))
    yield from _duplicates("topology", (blueprint.label for blueprint in model.topology))
    yield from _duplicates("scenarios", (scenario.name for scenario in model.scenarios))
    for number, blueprint in enumerate(model.topology):
        at = f"topology.{number}"
        yield from _unknown(f"{at}.node", "node", {blueprint.node}, kinds)
        yield from _unknown(f"{at}.service", "service", {blueprint.service}, services)
        yield from _unknown(f"{at}.networks", "network", set(blueprint.networks), networks)
        yield from _duplicates(f"{at}.networks", blueprint.networks)
        yield from _instances_called(f"{at}.label", blueprint.label, labels)
    for number, network in enumerate(model.networks):
        members = {each.label for each in model.topology if network.name in each.networks}
        for index, link in enumerate(network.links):
            at = f"networks.{number}.links.{index}"
            what = f"label in the network {network.name}"
            yield from _unknown(at, what, {link.from_node, link.to_node}, members)
    for number, scenario in enumerate(model.scenarios):
        at = f"scenarios.{number}.actions"
        yield from _duplicates(at, (f"position {action.position}" for action in scenario.actions))
        for index, action in enumerate(scenario.actions):
            where = f"{at}.{index}"
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


def _instances_called(at: str, label: str, labels: set[str]) -> Iterator[str]:
    """Yield a message if the host name of a label is also that of an instance of another label."""
    other, _, number = label.rpartition("-")
    if other in labels and number.isdecimal():
        yield f"x-fogify.{at}: {label} is the name of an instance of {other}; choose another label"


def _duplicates(at: str, names: Iterable[str]) -> Iterator[str]:
    for name, count in Counter(names).items():
        if count > 1:
            yield f"x-fogify.{at}: {name} is defined {count} times; names must be unique"


def _unknown(at: str, what: str, named: set[str], known: set[str]) -> Iterator[str]:
    for name in sorted(named - known):
        yield f"x-fogify.{at}: there is no {what} called {name}"
