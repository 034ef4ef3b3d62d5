"""A replica: the stored rows of another site's stream, and the position reached in that stream.

The frontier of the replica's own stream is not a time, but the position reached in the source. The
rows and this frontier are stored together, so they agree after any crash. If the source numbers its
rows again, because it lost its store or its last rows, the stored rows remain: the attribute
``base`` is then the difference between the frontier and the position in the source.
"""

import secrets
import time
from enum import StrEnum
from typing import Any

import msgspec

from mistbow.client.operation_model import Copy
from mistbow.clock import Clock
from mistbow.errors import UnavailableError
from mistbow.streams.wire import MAX_INT64, Chunk
from storage_agent.membership.journal import STORE
from storage_agent.replication.replica_attributes import (
    BASE,
    COPY,
    SOURCE,
    ReplicaAttributes,
    read_attributes,
)
from storage_agent.replication.source.deletions import DeletionNotice, decode_notice
from storage_agent.request_key import RequestKey
from storage_agent.streams.conform import conform_received
from storage_agent.streams.segments import empty_batch
from storage_agent.streams.state import State
from storage_agent.streams.streams import REPLICA_PREFIX, Stream, is_metadata_replica
from storage_agent.timeseries.history import History

# The stored attributes of a replica's stream that only this site reads.
_COMPLETE = "complete"
_COMPLETE_TO = "complete_to"
_DELETED = "deleted"
_MISSED_DELETIONS = "missed"
_INSTANCE = "made"
_LOST_ROWS = "lost"

_SAVE_S = 5.0


class FollowState(StrEnum):
    """What a replica does, as text for operators; agents publish these texts."""

    WAITING = "waiting for its site"
    FOLLOWING = "following"
    DISK_FULL = "too little free space on the disk"
    MISSED_DELETIONS = (
        "the source has dropped tombstones that the replica needs; withdraw the copy and request "
        "it again"
    )
    LOST_ROWS = "the replica has lost rows; withdraw the copy and request it again"
    TOO_LARGE = "the source sends rows in parts that are too large to store; upgrade the source"

    @property
    def is_problem(self) -> bool:
        """Whether an operator must act before the replica can have all rows."""
        return self not in (FollowState.WAITING, FollowState.FOLLOWING)


class Replica:
    """The replica at this site of a stream of the site ``source``, as defined by ``copy``.

    ``replaces``: see ``History``.
    """

    def __init__(
        self, source: str, copy: Copy, stream: Stream, clock: Clock, *, replaces: bool = False
    ) -> None:
        self.source = source
        self.copy = copy
        self.history = History(stream.log, replaces=replaces)
        self._state = FollowState.WAITING
        self._stream = stream
        self._clock = clock
        self._complete_to = int(self._attribute(_COMPLETE_TO, 0))
        self._saved = time.monotonic()
        self._received = self.position
        self._goal: int | None = None

    @property
    def name(self) -> str:
        """The name of the stream that stores the replica."""
        return self._stream.name

    @property
    def state(self) -> FollowState:
        """What the replica does at present."""
        return self._state

    def enter(self, state: FollowState) -> None:
        """Enter a state, but not ``WAITING`` after ``TOO_LARGE``, which an operator must see."""
        if (self._state, state) != (FollowState.TOO_LARGE, FollowState.WAITING):
            self._state = state

    @property
    def stream(self) -> Stream:
        """The stream that stores the replica."""
        return self._stream

    @property
    def instance(self) -> str:
        """The random id of this replica; a later replica of the same copy has another id."""
        return str(self._attribute(_INSTANCE, ""))

    @property
    def position(self) -> int:
        """The position in the source up to which the replica has stored all rows."""
        return self._stream.log.frontier - self._attributes.base

    @property
    def rows(self) -> int:
        """The number of rows in the replica."""
        return self._stream.log.index.rows

    @property
    def store(self) -> str | None:
        """The name of the source's store to which ``position`` refers; None before ``begin``."""
        return self._attributes.store

    @property
    def complete(self) -> bool:
        """Whether the replica has once had all rows of the source, and has lost none since."""
        return bool(self._attribute(_COMPLETE, False)) and not self.has_lost_rows

    @property
    def has_lost_rows(self) -> bool:
        """Whether rows of the replica are permanently lost.

        A replica that has lost rows does not become complete again.
        """
        return bool(self._attribute(_LOST_ROWS, False))

    @property
    def deleted(self) -> int | None:
        """The number of the source's last deletion that the replica applied.

        None: the replica is empty.
        """
        last: int | None = self._attribute(_DELETED, None)
        return last

    @property
    def received(self) -> int:
        """The position in the source up to which all rows and deletions were received."""
        return self._received

    @property
    def missed_deletions(self) -> bool:
        """Whether the source dropped tombstones that the replica had not received."""
        return bool(self._attribute(_MISSED_DELETIONS, False))

    @property
    def complete_to(self) -> int:
        """The time (ms) up to which the replica has all rows, except late rows."""
        return self._complete_to

    @property
    def stale_ms(self) -> int:
        """The time (ms) that has passed since ``complete_to``."""
        return max(0, self._clock() - self._complete_to)

    async def begin(self, store: str, first: int, head: int) -> None:
        """Adapt the replica to the present stream of its source, before following the stream.

        ``store``: the name of the source's store. ``first``, ``head``: the first position and the
        head of the stream. Raises ``UnavailableError`` if these are no positions.
        """
        _check_position(first)
        _check_position(head)
        changes: dict[str, Any] = {}
        position = self.position
        if self.store != store:
            # A first store, or another one: positions begin anew, stored rows stay.
            position = first
            changes |= {_COMPLETE: None, _DELETED: None, _MISSED_DELETIONS: None}
        elif position > head:
            position = head  # the source lost its end, which is only here now
        position = max(position, first)
        base = self._stream.log.frontier - position
        if (self.store, self._attributes.base) != (store, base):
            changes |= {STORE: store, BASE: base}
        if changes:
            await self._set_attributes(changes)
        self._received = self.position
        self._goal = head

    async def add(self, chunk: Chunk) -> None:
        """Store the rows of a chunk exactly once, or apply the deletions in the chunk.

        Raises ``UnavailableError`` if the caller must read the source again from ``position``, and,
        without storing anything, if the stream cannot store the chunk.
        """
        if chunk.note:
            await self._apply(decode_notice(chunk.note, self._stream.log.schema))
            return
        log = self._stream.log
        reached = self._attributes.base + chunk.position.next
        _check_position(reached)
        rows = conform_received(chunk.rows, log.schema)
        if rows.num_rows:
            # If an append was stored although it seemed to fail, this key finds it, however many
            # rows it had: then the replica continues at the frontier of the log.
            key = RequestKey(f"replica-{log.frontier}")
            await self._stream.writer.append(rows, epoch=log.epoch, key=key, frontier=reached)
            if log.frontier != reached:
                raise UnavailableError(
                    "an append that had timed out was stored; the later rows are requested again"
                )
        self._received = chunk.position.next
        self._complete_to = max(self._complete_to, chunk.position.frontier)
        done = self._goal is not None and self._received >= self._goal
        done = done and not self._attribute(_COMPLETE, False)
        if done or time.monotonic() - self._saved > _SAVE_S:
            await self.save_progress(reached, complete=done)

    async def save_progress(self, reached: int | None = None, *, complete: bool = False) -> None:
        """Store ``complete_to`` and ``complete``, which are not stored with the rows.

        ``reached``: the new frontier of the replica's stream; None: the frontier does not change.
        ``complete``: whether the replica has become complete.
        """
        self._saved = time.monotonic()
        changes: dict[str, Any] = {_COMPLETE_TO: self._complete_to}
        if complete:
            changes[_COMPLETE] = True
        await self._set_attributes(changes, reached)

    async def register(self) -> None:
        """Store the source, the copy and a new instance as attributes of the stream.

        Does nothing if the attributes are stored already.
        """
        if COPY not in self._stream.log.attributes:
            text = msgspec.json.encode(self.copy).decode()
            await self._set_attributes(
                {SOURCE: self.source, COPY: text, _INSTANCE: secrets.token_hex(8)}
            )

    async def _apply(self, notice: DeletionNotice) -> None:
        """Apply the deletions of a notice; a repeated notice, after a crash, does no harm.

        Raises ``UnavailableError`` if the caller must read the source again.
        """
        if notice.was_incomplete:
            # Nothing is deleted here for that: the source may have fewer rows than the replica.
            await self._set_attributes({_MISSED_DELETIONS: True, _COMPLETE: None})
            raise UnavailableError("the source has dropped tombstones of recent deletions")
        if notice.deletions:
            await self._fence_pending_append()
        for each in notice.deletions:
            if not each.local:
                writer = self._stream.writer
                await writer.delete(each.columns, each.keys, each.min_ts, each.max_ts)
        await self._set_attributes({_DELETED: notice.last})

    async def _fence_pending_append(self) -> None:
        """Append an empty segment, so that an append that timed out can no longer be stored.

        Raises ``UnavailableError`` if such an append was stored meanwhile.
        """
        log, before = self._stream.log, self._stream.log.frontier
        await self._stream.writer.append(empty_batch(log.schema), epoch=log.epoch)
        if log.frontier != before:
            raise UnavailableError(
                "an append that had timed out was stored; the deletions are requested again"
            )

    @property
    def _attributes(self) -> ReplicaAttributes:
        return read_attributes(self._stream.log.attributes)

    def _attribute(self, name: str, default: Any) -> Any:
        return self._stream.log.attributes.get(name, default)

    async def _set_attributes(self, changes: dict[str, Any], frontier: int | None = None) -> None:
        await self._stream.writer.advance(self._stream.log.epoch, frontier, changes)


async def record_loss(stream: Stream) -> None:
    """Record in the attributes of a replica's stream that rows are permanently lost."""

    def lost(state: State) -> State:
        return msgspec.structs.replace(state, attributes={**state.attributes, _LOST_ROWS: True})

    # Not by the stream's writer, which refuses writes until the loss is accepted.
    await stream.log.state.update(lost)


def _check_position(position: int) -> None:
    """Raise ``UnavailableError`` if a number of a source is no position; the source may lie."""
    if not 0 <= position <= MAX_INT64:
        raise UnavailableError("the source states a position below 0, or above 2^63 - 1")


def _is_replica(stream: Stream) -> bool:
    """Return whether the name of a stream is that of a replica, but not of a metadata replica."""
    return stream.name.startswith(REPLICA_PREFIX) and not is_metadata_replica(stream.name)


def is_half_made(stream: Stream) -> bool:
    """Return whether a stream is empty, and was created for a replica that was never registered."""
    is_registered = COPY in stream.log.attributes
    return _is_replica(stream) and not is_registered and stream.log.head == 0


def open_replica(stream: Stream, clock: Clock, *, replaces: bool = False) -> Replica | None:
    """Return the replica that a stream stores; None if the stream stores no replica."""
    # Clients give other streams attributes of any names, with any values.
    if not _is_replica(stream):
        return None
    attributes = read_attributes(stream.log.attributes)
    source, copy = attributes.source, attributes.copy
    if source is None or copy is None:
        return None
    return Replica(source, copy, stream, clock, replaces=replaces)
