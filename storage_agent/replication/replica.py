"""One replica: a stream of another site as it is kept here, and how far it was read.

The frontier of the replica's own stream is the position in the source, moved in one stroke with the
rows that it follows: after whatever crash, what is there and how far it goes agree. (A time it is
not: ``complete_to`` is.) Where the source begins to count anew, because it lost its store or the
end of it, the attribute ``base`` is what lies between the two; what was kept stays.
"""

import secrets
import time
from typing import Any

import msgspec

from mistbow.clock import Clock
from mistbow.errors import UnavailableError
from mistbow.streams.schemas import METADATA
from mistbow.streams.wire import Chunk
from storage_agent.fabric.journal import STORE
from storage_agent.monitoring.history import History
from storage_agent.replication.deletions import Deleted
from storage_agent.replication.told import Copy
from storage_agent.streams.segments import no_rows
from storage_agent.streams.state import State
from storage_agent.streams.streams import REPLICAS, Stream

OF = "of"
COPY = "copy"
_BASE = "base"
_COMPLETE = "complete"
_COMPLETE_TO = "complete_to"
_DELETED = "deleted"
_MISSED = "missed"
_MADE = "made"
_LOST = "lost"

_NOTE_S = 5.0


class Replica:
    """What is kept of the copy ``copy`` of a stream of the site ``of``."""

    def __init__(self, of: str, copy: Copy, stream: Stream, clock: Clock) -> None:
        self.of = of
        self.copy = copy
        self.history = History(stream.log)
        self.state = "waiting for its site"
        self._stream = stream
        self._clock = clock
        self._complete_to = int(self._attribute(_COMPLETE_TO, 0))
        self._noted = time.monotonic()
        self._heard = self.position
        self._goal: int | None = None

    @property
    def name(self) -> str:
        """The stream that it is kept in."""
        return self._stream.name

    @property
    def stream(self) -> Stream:
        """What it is kept in."""
        return self._stream

    @property
    def made(self) -> str:
        """Which replica this is: one that is made where this one was deleted is another."""
        return str(self._attribute(_MADE, ""))

    @property
    def position(self) -> int:
        """The number from which to read on at the source; what is stored here goes up to it."""
        return self._stream.log.frontier - int(self._attribute(_BASE, 0))

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self._stream.log.index.rows

    @property
    def store(self) -> str | None:
        """The store that the position is one of."""
        store: str | None = self._attribute(STORE, None)
        return store

    @property
    def complete(self) -> bool:
        """Whether it once had all that there was, and has lost nothing since."""
        return bool(self._attribute(_COMPLETE, False)) and not self.lost

    @property
    def lost(self) -> bool:
        """Whether rows of it are lost for good: it goes on, but is never complete again."""
        return bool(self._attribute(_LOST, False))

    @property
    def deleted(self) -> int | None:
        """The last deletion at the source that was done here too; None: there is nothing yet."""
        last: int | None = self._attribute(_DELETED, None)
        return last

    @property
    def heard(self) -> int:
        """The number before which everything was heard of the source, and what it had is stored."""
        return self._heard

    @property
    def missed(self) -> bool:
        """Whether its source has forgotten what was deleted before this replica heard of it."""
        return bool(self._attribute(_MISSED, False))

    @property
    def complete_to(self) -> int:
        """The time (ms) up to which it has all that did not come late."""
        return self._complete_to

    @property
    def stale_ms(self) -> int:
        """How old that is."""
        return max(0, self._clock() - self._complete_to)

    async def begin(self, store: str, first: int, head: int) -> None:
        """Read from a store whose stream goes from ``first`` to ``head``."""
        changes: dict[str, Any] = {}
        position = self.position
        if self.store != store:
            # A first store, or another one: its numbers begin anew, what is kept stays.
            position = first
            changes |= {_COMPLETE: None, _DELETED: None, _MISSED: None}
        elif position > head:
            position = head  # the source lost its end, which is only here now
        position = max(position, first)
        base = self._stream.log.frontier - position
        if (self.store, self._attribute(_BASE, 0)) != (store, base):
            changes |= {STORE: store, _BASE: base}
        if changes:
            await self._note(changes)
        self._heard = self.position
        self._goal = head

    async def add(self, chunk: Chunk) -> None:
        """Keep rows, once whatever happens; raises ``UnavailableError`` to be read again."""
        if chunk.note:
            await self._delete(msgspec.json.decode(chunk.note, type=Deleted))
            return
        log = self._stream.log
        reached = int(self._attribute(_BASE, 0)) + chunk.position.next
        if chunk.rows.num_rows:
            # If an append was stored although it seemed to fail, this key finds it, however much
            # of the source it had: then the log says from where to go on.
            key = f"replica-{log.frontier}"
            await self._stream.writer.append(chunk.rows, epoch=log.epoch, key=key, frontier=reached)
            if log.frontier != reached:
                raise UnavailableError("rows were stored before; what follows is read again")
        self._heard = chunk.position.next
        self._complete_to = max(self._complete_to, chunk.position.frontier)
        done = self._goal is not None and self._heard >= self._goal
        done = done and not self._attribute(_COMPLETE, False)
        if done or time.monotonic() - self._noted > _NOTE_S:
            await self.note(reached, complete=done)

    async def note(self, reached: int | None = None, *, complete: bool = False) -> None:
        """Store what changed without rows."""
        self._noted = time.monotonic()
        changes: dict[str, Any] = {_COMPLETE_TO: self._complete_to}
        if complete:
            changes[_COMPLETE] = True
        await self._note(changes, reached)

    async def take_up(self) -> None:
        """Note what this is a replica of, once."""
        if COPY not in self._stream.log.attributes:
            text = msgspec.json.encode(self.copy).decode()
            await self._note({OF: self.of, COPY: text, _MADE: secrets.token_hex(8)})

    async def _delete(self, deleted: Deleted) -> None:
        """Do what was deleted at the source; after a crash it is told, and done, again."""
        if deleted.missed:
            # Nothing is removed for that: the source may have less than there is here.
            await self._note({_MISSED: True, _COMPLETE: None})
            raise UnavailableError("its source has forgotten what was deleted meanwhile")
        if deleted.deletions:
            await self._close_place()
        for each in deleted.deletions:
            if not each.forgotten:
                writer = self._stream.writer
                await writer.delete(each.columns, each.keys, each.min_ts, each.max_ts)
        await self._note({_DELETED: deleted.last})

    async def _close_place(self) -> None:
        """Keep rows that were sent before, and are still on their way to Ignite, from landing."""
        log, before = self._stream.log, self._stream.log.frontier
        await self._stream.writer.append(no_rows(log.schema), epoch=log.epoch)
        if log.frontier != before:
            raise UnavailableError("rows were stored before; what follows is read again")

    def _attribute(self, name: str, default: Any) -> Any:
        return self._stream.log.attributes.get(name, default)

    async def _note(self, changes: dict[str, Any], frontier: int | None = None) -> None:
        await self._stream.writer.advance(self._stream.log.epoch, frontier, changes)


async def note_loss(stream: Stream) -> None:
    """Note of a replica's stream that rows of it are lost for good; may be repeated."""

    def lost(state: State) -> State:
        return msgspec.structs.replace(state, attributes={**state.attributes, _LOST: True})

    # Not by its writer, which refuses while it is not decided what becomes of the stream.
    await stream.log.state.update(lost)


def is_half_made(stream: Stream) -> bool:
    """Tell whether a stream was to be a replica, and has neither rows nor what it is one of."""
    ours = stream.name.startswith(REPLICAS) and stream.name.split("/")[2:] != [METADATA]
    return ours and COPY not in stream.log.attributes and stream.log.head == 0


def kept_in(stream: Stream, clock: Clock) -> Replica | None:
    """Return the replica that a stream holds, if it is one."""
    attributes = stream.log.attributes
    if OF not in attributes or COPY not in attributes:
        return None
    copy = msgspec.json.decode(attributes[COPY], type=Copy)
    return Replica(attributes[OF], copy, stream, clock)
