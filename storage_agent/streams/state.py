"""What a stream has beside its segments: its writer's epoch, its frontier, its attributes."""

from collections.abc import Callable
from typing import Any

import msgspec

from storage_agent.ignite_client import METADATA, IgniteClient
from storage_agent.text_cell import TextCell


class State(msgspec.Struct, frozen=True):
    """One value in Ignite, so that moving a frontier and fencing a writer cannot cross."""

    epoch: int = 0
    frontier: int = 0
    attributes: dict[str, Any] = msgspec.field(default_factory=dict)


class StateCell:
    """A stream's state in Ignite, changed by compare-and-set only."""

    def __init__(self, ignite: IgniteClient, stream: str) -> None:
        self._ignite = ignite
        self._cell = TextCell(ignite, f"state/{stream}")
        self.current = State()

    @property
    def key(self) -> str:
        """Under which key it is kept."""
        return self._cell.key

    async def load(self) -> None:
        """Read the state, and make it if there is none."""
        await self._ignite.put_if_absent(METADATA, self.key, _text(State()))
        self._adopt(await self._cell.load())

    async def update(self, change: Callable[[State], State]) -> State:
        """Store what ``change`` makes of the state; may be repeated after an error.

        ``change`` is called again when another writer was faster, and may raise to give up.
        """
        while True:
            wanted = _text(change(self.current))
            if wanted == self._cell.text:
                return self.current
            swapped = await self._cell.swap(wanted)
            self._adopt(wanted if swapped else await self._cell.load())

    def _adopt(self, stored: str | None) -> None:
        assert stored is not None  # noqa: S101 - load() made it
        self.current = msgspec.json.decode(stored, type=State)


def _text(state: State) -> str:
    return msgspec.json.encode(state, order="deterministic").decode()
