"""What a stream has beside its segments: its writer's epoch, its frontier, its attributes."""

from collections.abc import Callable
from typing import Any

import msgspec

from storage_agent.ignite_client import METADATA, IgniteClient


class State(msgspec.Struct, frozen=True):
    """One value in Ignite, so that moving a frontier and fencing a writer cannot cross."""

    epoch: int = 0
    frontier: int = 0
    attributes: dict[str, Any] = msgspec.field(default_factory=dict)


class StateCell:
    """A stream's state in Ignite, changed by compare-and-set only."""

    def __init__(self, ignite: IgniteClient, stream: str) -> None:
        self._ignite = ignite
        self.key = f"state/{stream}"
        self._stored = ""
        self.current = State()

    async def load(self) -> None:
        """Read the state, and make it if there is none."""
        await self._ignite.put_if_absent(METADATA, self.key, _text(State()))
        self._adopt(await self._ignite.get(METADATA, self.key))

    async def update(self, change: Callable[[State], State]) -> State:
        """Store what ``change`` makes of the state; may be repeated after an error.

        ``change`` is called again when another writer was faster, and may raise to give up.
        """
        while True:
            wanted = _text(change(self.current))
            if wanted == self._stored:
                return self.current
            try:
                swapped = await self._ignite.replace(METADATA, self.key, self._stored, wanted)
            except BaseException:
                self._stored = ""  # it may have landed: what is there now is not known
                raise
            if not swapped:
                self._adopt(await self._ignite.get(METADATA, self.key))
                continue
            self._adopt(wanted)

    def _adopt(self, stored: str) -> None:
        self._stored = stored
        self.current = msgspec.json.decode(stored, type=State)


def _text(state: State) -> str:
    return msgspec.json.encode(state, order="deterministic").decode()
