"""The seam between a plan and what carries it out: containers, or network namespaces."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from mistbow.errors import InvalidRequestError
from mistbow.fog_emulation.parts import Direction, Node
from mistbow.fog_emulation.timetable import Connect, Effect, Limit, Run, Start, Step, Stop, Stress


class Backend(Protocol):
    """Carries out one plan; all that it makes is named, so ``down`` finds it after a crash."""

    def refusals(self, steps: Sequence[Step] = ()) -> tuple[str, ...]:
        """Return each setting that this machine cannot do, by name and with the reason."""
        ...

    def up(self) -> None:
        """Make the fog, but for what is refused."""
        ...

    def down(self) -> None:
        """Take all away that was ever made under this fog's name."""
        ...

    def connect(self, direction: Direction) -> None:
        """Change how a node is connected."""
        ...

    def limit(self, node: str, cores: float, memory_bytes: int) -> None:
        """Give a node other limits."""
        ...

    def stress(self, node: str, cores: float, duration_ms: float) -> None:
        """Keep cores busy in a node, without waiting for the end."""
        ...

    def run(self, node: str, command: str) -> None:
        """Run a command in a node's shell; raises ``MistbowError`` if it fails."""
        ...

    def start(self, node: Node, directions: Sequence[Direction]) -> None:
        """Add a node."""
        ...

    def stop(self, node: str) -> None:
        """Take a node away at once."""
        ...

    def address(self, node: str, network: str) -> str:
        """Return a node's IPv4 address in a network."""
        ...

    def inside(self, node: str) -> AbstractContextManager[None]:
        """Let sockets that this thread opens belong to a node."""
        ...


def raise_fog(
    backend: Backend, steps: Sequence[Step] = (), *, lenient: bool = False
) -> tuple[str, ...]:
    """Make a fog, and return what was refused.

    Raises ``InvalidRequestError`` with all refusals, and makes nothing, unless ``lenient``. What is
    left of an earlier fog of this name goes first.
    """
    refusals = backend.refusals(steps)
    if refusals and not lenient:
        raise InvalidRequestError(
            "this machine cannot do all that is asked for:\n" + "\n".join(refusals),
            hint="Leave these settings out, or ask for a fog without them.",
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
    """Do one thing of a scenario."""
    match effect:
        case Connect(direction=direction):
            backend.connect(direction)
        case Limit(node=node, cores=cores, memory_bytes=memory):
            backend.limit(node, cores, memory)
        case Stress(node=node, cores=cores, duration_ms=duration):
            backend.stress(node, cores, duration)
        case Run(node=node, command=command):
            backend.run(node, command)
        case Start(node=added, directions=directions):
            backend.start(added, directions)
        case Stop(node=node):
            backend.stop(node)
