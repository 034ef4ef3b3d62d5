"""The manifest of a stream: which runs it has, what was deleted of it, what is to be removed."""

import asyncio
from collections.abc import Callable

import msgspec

from mistbow.errors import (
    ConflictError,
    FencedError,
    StorageFullError,
    TooLargeError,
    UnavailableError,
)
from storage_agent.ignite_client import IgniteClient
from storage_agent.streams.runs import Run
from storage_agent.text_cell import TextCell

MOST_BYTES = 5 * 2**20
"""With more, nothing is taken that needs more yet; what Ignite takes beyond is for housekeeping.

A run takes up to 400 bytes, so a stream has up to 13,000 runs: of 600,000 rows or 5 MiB each.
"""

Fence = Callable[[], int]
"""Returns the epoch of this agent: of two at one site, the one with the higher keeps house."""


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that are deleted: those before a number whose key and time are as said.

    ``keys``: values of ``columns``, of which any will do; none: all rows. Times are inclusive.
    ``created``: when this was asked for, milliseconds. ``forgotten``: only here, for a replica has
    them.
    """

    id: int
    before: int
    created: int
    columns: tuple[str, ...] = ()
    keys: tuple[tuple[str, ...], ...] = ()
    min_ts: int | None = None
    max_ts: int | None = None
    forgotten: bool = False


class Trash(msgspec.Struct, frozen=True, kw_only=True):
    """Keys of Ignite's that nothing needs any more; readers may still be on their way to them.

    ``merged``: names of the runs that commits were merged into, but ``claims``, which stay where
    they are: an agent that was fenced by one may still look for it. ``commits``: first numbers of
    others; ``runs``: names of runs and how many blocks each has.
    """

    since: int
    merged: tuple[str, ...] = ()
    claims: tuple[int, ...] = ()
    commits: tuple[int, ...] = ()
    runs: tuple[tuple[str, int], ...] = ()


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """All runs in their order; commits follow from where the last one ends.

    ``first``: what came before this number is evicted. ``building``: a run whose blocks may be
    there although nothing refers to it.
    """

    epoch: int = 0
    first: int = 0
    runs: tuple[Run, ...] = ()
    deletions: tuple[Deletion, ...] = ()
    deleted: int = 0
    building: tuple[str, int] | None = None
    trash: tuple[Trash, ...] = ()

    @property
    def next(self) -> int:
        """The number at which commits follow."""
        return self.runs[-1].next if self.runs else self.first

    def check_border(self, number: int) -> None:
        """Raise ``ConflictError`` if a number is inside of a run, or will perhaps be.

        A deletion is of all rows of a run or of none.
        """
        if self.building is not None or any(r.first < number < r.next for r in self.runs):
            raise ConflictError(f"what came before {number} is merged with what came later")


class ManifestCell:
    """A stream's manifest in Ignite, changed by compare-and-set only, one change after the other.

    It is absent until there is something to say. ``fence`` returns the epoch of this agent.
    """

    def __init__(self, ignite: IgniteClient, stream: str, fence: Fence) -> None:
        self._fence = fence
        self._cell = TextCell(ignite, f"manifest/{stream}")
        self._lock = asyncio.Lock()
        self.current = Manifest()

    @property
    def key(self) -> str:
        """Under which key it is kept."""
        return self._cell.key

    async def load(self) -> None:
        """Read the manifest."""
        self._adopt(await self._cell.load())

    @property
    def exists(self) -> bool:
        """Whether Ignite has it."""
        return self._cell.text is not None

    def check_room(self, deletion: Deletion | None = None) -> None:
        """Raise a ``MistbowError`` where there is no room for more runs, or for a deletion."""
        taken = len(self._cell.text or "")
        if deletion is None:
            if taken > MOST_BYTES:
                raise StorageFullError(
                    f"the stream of {self.key} has as many runs as fit: {len(self.current.runs)}",
                    hint="PUT /config: a shorter retention for it; or write to another stream.",
                )
            return
        needed = len(msgspec.json.encode(deletion))
        if needed > MOST_BYTES // 2:
            raise TooLargeError(
                f"what is to be deleted takes {needed} bytes to say, more than {MOST_BYTES // 2}",
                hint="Delete less at once: fewer series or keys, or all of them.",
            )
        if taken + needed > MOST_BYTES:
            raise UnavailableError(
                "too many deletions wait for the rows to be removed", hint="Try again in a minute."
            )

    async def update(self, change: Callable[[Manifest], Manifest]) -> Manifest:
        """Store what ``change`` makes of the manifest; may be repeated after an error.

        Raises ``FencedError`` when an agent of a later epoch has changed it.
        """
        async with self._lock:
            epoch = self._fence()
            while True:
                if self.current.epoch > epoch:
                    raise FencedError(f"another agent keeps the stream of {self.key}")
                wanted = _text(msgspec.structs.replace(change(self.current), epoch=epoch))
                if wanted != self._cell.text and not await self._cell.swap(wanted):
                    await self.load()
                    continue
                self._adopt(wanted)
                return self.current

    def _adopt(self, stored: str | None) -> None:
        self.current = Manifest() if stored is None else msgspec.json.decode(stored, type=Manifest)


def _text(manifest: Manifest) -> str:
    return msgspec.json.encode(manifest).decode()
