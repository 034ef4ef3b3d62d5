"""The interface of backends, which carry out a plan with containers or network namespaces."""

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from fog_emulation.timetable import (
    Effect,
    LimitNode,
    RunCommand,
    ScenarioStep,
    ShapeDirection,
    StartNode,
    StopNode,
    StressNode,
)
from fog_emulation.topology import Direction, EmulatedNode
from mistbow.errors import InvalidRequestError


class Backend(Protocol):
    """Carries out the plan of one emulated fog.

    All objects that a backend creates have names, so that ``down`` finds these objects even after a
    crash.
    """

    def refusals(self, steps: Sequence[ScenarioStep] = ()) -> tuple[str, ...]:
        """Return the settings of the plan and of ``steps`` that this machine does not support, as
        texts with reasons.
        """
        ...

    def up(self) -> None:
        """Create the fog, except for the settings that this machine does not support."""
        ...

    def down(self) -> None:
        """Remove all objects that were created under the name of this fog."""
        ...

    def connect(self, direction: Direction) -> None:
        """Change the traffic shape of one direction between a node and a network."""
        ...

    def limit(self, node: str, cores: float, memory_bytes: int) -> None:
        """Change the CPU and memory limits of a node."""
        ...

    def stress(self, node: str, cores: float, duration_ms: float) -> None:
        """Start to keep cores busy in a node, for ``duration_ms``; do not wait for the end."""
        ...

    def run(self, node: str, command_line: str) -> None:
        """Run a command in a node's shell; raises ``MistbowError`` if it fails."""
        ...

    def start(self, node: EmulatedNode, directions: Sequence[Direction]) -> None:
        """Start a node and add it to the fog."""
        ...

    def stop(self, node: str) -> None:
        """Remove a node at once, as if the node had crashed."""
        ...

    def address(self, node: str, network: str) -> str:
        """Return a node's IPv4 address in a network."""
        ...

    def inside(self, node: str) -> AbstractContextManager[None]:
        """Open this thread's sockets in a node's network namespace, inside the ``with`` block."""
        ...


def check_fog_name(name: str) -> None:
    """Raise ``InvalidRequestError`` if a name is not a valid name of a fog."""
    if not re.fullmatch(r"[a-z0-9-]{1,40}", name):
        raise InvalidRequestError(
            f"{name!r} is not a valid name of a fog: use 1 to 40 of a-z, 0-9 and -"
        )


def start_fog(
    backend: Backend, steps: Sequence[ScenarioStep] = (), *, lenient: bool = False
) -> tuple[str, ...]:
    """Create a fog; return the refusals, which are the settings that this machine does not support.

    Raises ``InvalidRequestError`` with all refusals before any object is created, unless
    ``lenient``. Remains of an earlier fog with the same name are removed first.
    """
    refusals = backend.refusals(steps)
    if refusals and not lenient:
        raise InvalidRequestError(
            "this machine does not support these settings of the fog:\n" + "\n".join(refusals),
            hint="Remove these settings from the file, or start the fog without them.",
            details=list(refusals),
        )
    backend.down()
    try:
        backend.up()
    except BaseException:
        backend.down()
        raise
    return refusals


def apply(backend: Backend, effect: Effect) -> None:
    """Apply one effect of a scenario."""
    match effect:
        case ShapeDirection(direction=direction):
            backend.connect(direction)
        case LimitNode(node=node, cores=cores, memory_bytes=memory):
            backend.limit(node, cores, memory)
        case StressNode(node=node, cores=cores, duration_ms=duration):
            backend.stress(node, cores, duration)
        case RunCommand(node=node, command=command):
            backend.run(node, command)
        case StartNode(node=added, directions=directions):
            backend.start(added, directions)
        case StopNode(node=node):
            backend.stop(node)
