"""The manifest of a stream: the list of its runs, its tombstones, and its garbage."""

import asyncio
from collections.abc import Callable, Iterable, Sequence

import msgspec

from mistbow.errors import (
    ConflictError,
    FencedError,
    StorageFullError,
    TooLargeError,
    UnavailableError,
)
from storage_agent.ignite.client import IgniteClient
from storage_agent.ignite.text_cell import TextCell
from storage_agent.streams.runs import Run

MAX_BYTES = 5 * 2**20
"""The size of a manifest (bytes) above which its stream rejects appends and deletions.

The remaining bytes that Ignite accepts are reserved for compaction. A run takes up to 400 bytes, so
a stream can have 13,000 runs of up to 600,000 rows or 5 MiB.
"""

Fence = Callable[[], int]
"""A function that returns the epoch of this agent.

Only the agent with the greatest epoch compacts a stream.
"""


KeySet = tuple[tuple[str, ...], Sequence[tuple[str, ...]]]
"""(columns, keys): the names of columns, and the keys to delete, as values of these columns."""


class Tombstone(msgspec.Struct, frozen=True, kw_only=True, rename={"local": "forgotten"}):
    """Marks the rows with certain keys and times before a position as deleted.

    ``before``: the position (exclusive). ``keys``: the deleted keys, as values of ``columns``;
    empty: all keys. ``min_ts``, ``max_ts``: ms, inclusive; None if unbounded. ``created``: the time
    of the request (ms). ``local``: replicas retain the deleted rows (offload).
    """

    id: int
    before: int
    created: int
    columns: tuple[str, ...] = ()
    keys: tuple[tuple[str, ...], ...] = ()
    min_ts: int | None = None
    max_ts: int | None = None
    local: bool = False


def tombstones_of(key_sets: Iterable[KeySet], template: Tombstone) -> list[Tombstone]:
    """Return a copy of ``template`` for each key set."""
    return [
        msgspec.structs.replace(template, columns=columns, keys=tuple(map(tuple, keys)))
        for columns, keys in key_sets
    ]


class Garbage(msgspec.Struct, frozen=True, kw_only=True, rename={"segments": "commits"}):
    """Keys of Ignite that a compaction or an eviction has made unnecessary.

    The keys are removed after a grace period, because earlier readers may still read them.
    ``since``: the time of the compaction or eviction (ms). ``merged``: runs whose original segments
    are garbage. ``claims``: the positions of claims among these segments; claims are not removed,
    because a fenced agent may still have to read the claim that ended its epoch. ``segments``: the
    positions of evicted segments. ``runs``: (name, number of blocks) of runs to remove.
    """

    since: int
    merged: tuple[str, ...] = ()
    claims: tuple[int, ...] = ()
    segments: tuple[int, ...] = ()
    runs: tuple[tuple[str, int], ...] = ()


_MANIFEST_FIELDS = {"tombstones": "deletions", "last_tombstone": "deleted", "garbage": "trash"}


class Manifest(msgspec.Struct, frozen=True, kw_only=True, rename=_MANIFEST_FIELDS):
    """The runs of a stream in the order of positions, its tombstones, and its garbage.

    The segments outside runs follow the last run. ``epoch``: the epoch of the agent that changed
    the manifest last. ``first``: rows before this position are evicted. ``building``: (name, number
    of blocks) of the run that a compaction is writing. ``last_tombstone``: the greatest tombstone
    id that has been assigned.
    """

    epoch: int = 0
    first: int = 0
    runs: tuple[Run, ...] = ()
    tombstones: tuple[Tombstone, ...] = ()
    last_tombstone: int = 0
    building: tuple[str, int] | None = None
    garbage: tuple[Garbage, ...] = ()

    @property
    def next(self) -> int:
        """The position at which the segments outside runs begin."""
        return self.runs[-1].next if self.runs else self.first

    @property
    def deleted_before(self) -> int:
        """The position before which rows are deleted, also in replicas; 0: no tombstone exists."""
        return max((each.before for each in self.tombstones if not each.local), default=0)

    def with_tombstones(self, tombstones: Sequence[Tombstone]) -> "Manifest":
        """Return the manifest with additional tombstones, which get the next ids."""
        numbered = [
            msgspec.structs.replace(each, id=number)
            for number, each in enumerate(tombstones, self.last_tombstone + 1)
        ]
        return msgspec.structs.replace(
            self,
            tombstones=(*self.tombstones, *numbered),
            last_tombstone=self.last_tombstone + len(numbered),
        )

    def check_border(self, position: int) -> None:
        """Raise ``ConflictError`` if a position is inside a run, or if a run is being built.

        A tombstone applies to all rows of a run or to no row.
        """
        if self.building is not None or any(r.first < position < r.next for r in self.runs):
            raise ConflictError(f"position {position} is inside a run; a run cannot be divided")


def manifest_key(stream: str) -> str:
    """Return the key of a manifest in Ignite's cache ``metadata``.

    ``stream``: the key of the stream's log.
    """
    return f"manifest/{stream}"


class ManifestCell:
    """The manifest of a stream in Ignite; only compare-and-set operations change the manifest.

    The changes are made one at a time. The first change stores the manifest in Ignite. ``fence``:
    returns the epoch of this agent.
    """

    def __init__(self, ignite: IgniteClient, stream: str, fence: Fence) -> None:
        self._fence = fence
        self._cell = TextCell(ignite, manifest_key(stream))
        self._lock = asyncio.Lock()
        self.current = Manifest()

    @property
    def key(self) -> str:
        """The key of the manifest in Ignite's cache ``metadata``."""
        return self._cell.key

    async def load(self) -> None:
        """Read the manifest from Ignite."""
        self._adopt(await self._cell.load())

    @property
    def is_uncertain(self) -> bool:
        """Whether Ignite may have another manifest than ``current``, or may get another one."""
        return self._cell.is_uncertain

    @property
    def exists(self) -> bool:
        """Whether Ignite has a manifest of the stream."""
        return self._cell.text is not None

    def check_capacity(self, tombstones: Sequence[Tombstone] = ()) -> None:
        """Raise a ``MistbowError`` if the manifest has no space for more tombstones or runs.

        ``tombstones``: check whether these tombstones can be added; empty: check whether further
        runs can be added.
        """
        taken = self._cell.size
        if not tombstones:
            if taken > MAX_BYTES:
                raise StorageFullError(
                    f"the manifest {self.key} is full: {len(self.current.runs)} runs",
                    hint="Set a shorter retention by PUT /config, or write to another stream.",
                )
            return
        needed = len(msgspec.json.encode(tombstones))
        if needed > MAX_BYTES // 2:
            raise TooLargeError(
                f"the deletion's filter takes {needed} bytes, more than {MAX_BYTES // 2}",
                hint="Delete fewer series or keys at once, or all of them.",
            )
        if taken + needed > MAX_BYTES:
            raise UnavailableError(
                "too many tombstones wait for compaction", hint="Try again in a minute."
            )

    async def settle(self) -> Manifest:
        """Return the manifest, after which no change that Ignite did not answer happens any more.

        The manifest may have new runs and evictions: ``StreamLog.reconcile`` applies them.
        """
        async with self._lock:
            await self._settle()
            return self.current

    async def update(self, change: Callable[[Manifest], Manifest]) -> Manifest:
        """Replace the manifest with the result of ``change``, and return the new manifest.

        ``change``: returns a manifest whose sequences are tuples. If another agent has changed the
        manifest meanwhile, ``change`` is called again. After an error, the method may be called
        again. Raises ``FencedError`` if an agent with a greater epoch has changed the manifest.
        """
        async with self._lock:
            epoch = self._fence()
            await self._settle()
            while True:
                if self.current.epoch > epoch:
                    raise FencedError(
                        f"another agent has claimed {self.key}, with the epoch {self.current.epoch}"
                    )
                new = msgspec.structs.replace(change(self.current), epoch=epoch)
                if not await self._cell.swap(_text(new)):
                    await self.load()
                    continue
                # Not decoded from the text: unchanged tombstones remain the same objects, so a
                # comparison with the former ones is fast.
                self.current = new
                return new

    async def _settle(self) -> None:
        if self._cell.is_uncertain:
            self._adopt(await self._cell.settle())

    def _adopt(self, stored: str | None) -> None:
        self.current = Manifest() if stored is None else msgspec.json.decode(stored, type=Manifest)


def _text(manifest: Manifest) -> str:
    return msgspec.json.encode(manifest).decode()
