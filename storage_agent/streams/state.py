"""The state of a stream: the epoch of its writer, its frontier, and its attributes."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from mistbow.errors import TooLargeError
from storage_agent.ignite.client import METADATA, IgniteClient
from storage_agent.ignite.text_cell import TextCell

_MAX_ATTRIBUTE_BYTES = 2**20
LEASE_PREFIX = "hold."
"""The prefix of the names of attributes that store retention leases."""

RetentionLeases = dict[str, tuple[int, int]]
"""Name of the holder of a retention lease -> (retain_ms, expires_at), both in milliseconds."""


class State(msgspec.Struct, frozen=True):
    """The epoch, frontier and attributes of a stream, stored as one value in Ignite.

    Because the state is a single value, a fenced writer cannot move the frontier.
    """

    epoch: int = 0
    frontier: int = 0
    attributes: dict[str, Any] = msgspec.field(default_factory=dict)

    def retention_leases(self, now: int) -> RetentionLeases:
        """Return the retention leases that have not expired at ``now`` (ms)."""
        found = {}
        for name, value in self.attributes.items():
            match value:
                case [int(retain_ms), int(expires_at)] if (
                    name.startswith(LEASE_PREFIX) and expires_at > now
                ):
                    found[name.removeprefix(LEASE_PREFIX)] = (retain_ms, expires_at)
        return found


def state_key(stream: str) -> str:
    """Return the key of a state in Ignite's cache ``metadata``.

    ``stream``: the key of the stream's log.
    """
    return f"state/{stream}"


class StateCell:
    """The state of a stream in Ignite; only compare-and-set operations change the state."""

    def __init__(self, ignite: IgniteClient, stream: str) -> None:
        self._ignite = ignite
        self._cell = TextCell(ignite, state_key(stream))
        self._lock = asyncio.Lock()
        self.current = State()

    @property
    def key(self) -> str:
        """The key of the state in Ignite's cache ``metadata``."""
        return self._cell.key

    @property
    def is_uncertain(self) -> bool:
        """Whether Ignite may have another state than ``current``, or may get another one."""
        return self._cell.is_uncertain

    async def load(self) -> None:
        """Read the state from Ignite; if Ignite has no state, store an empty state."""
        await self._ignite.put_if_absent(METADATA, self.key, _text(State()))
        self._adopt(await self._cell.load())

    async def read_epoch(self) -> int:
        """Read the stored epoch from Ignite; ``current`` does not change."""
        stored = await self._ignite.get(METADATA, self.key)
        return 0 if stored is None else msgspec.json.decode(stored, type=State).epoch

    async def update(self, change: Callable[[State], State]) -> State:
        """Replace the state with the result of ``change``, and return the new state.

        If another writer has changed the state meanwhile, ``change`` is called again with the state
        of the other writer. If ``change`` raises an error, nothing is stored. After an error, this
        method may be called again.
        """
        async with self._lock:
            await self._settle()
            while not await self._cell.swap(changed := _text(change(self.current))):
                self._adopt(await self._cell.load())
            self._adopt(changed)
            return self.current

    async def settle(self) -> State:
        """Return the state, after which no update that Ignite did not answer happens any more."""
        async with self._lock:
            await self._settle()
            return self.current

    async def _settle(self) -> None:
        if self._cell.is_uncertain:
            self._adopt(await self._cell.settle())

    def _adopt(self, stored: str | None) -> None:
        assert stored is not None  # noqa: S101 - load() stored it
        self.current = msgspec.json.decode(stored, type=State)


def check_size(stream: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Raise ``TooLargeError`` if the attributes of a stream grow beyond the maximum size.

    Each movement of the frontier stores them again. ``after``: the changed attributes.
    """
    size = len(msgspec.json.encode(after))
    if size > _MAX_ATTRIBUTE_BYTES and size > len(msgspec.json.encode(before)):
        raise TooLargeError(
            f"the attributes and retention leases of the stream {stream} would take {size} bytes, "
            f"and at most {_MAX_ATTRIBUTE_BYTES} are allowed",
            hint="Store large values as rows; the value null removes an attribute.",
        )


def _text(state: State) -> str:
    return msgspec.json.encode(state, order="deterministic").decode()
