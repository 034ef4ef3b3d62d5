"""Reads the stream of states as far back as needed, and appends states to the stream under a lock.

The lock prevents a query and a correction from changing the same states concurrently: no other
writer changes the states between a read and the append that depends on the read. See docs/adr/0015.
"""

import fcntl
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from cachetools import LRUCache

from analytics.plan.fragments import StreamLocation
from analytics.plan.nodes import Plan
from analytics_worker.agent_clients import agent_client
from analytics_worker.query_lease import QueryLease
from analytics_worker.row_batches import MAX_APPEND_BYTES, batches, row_sizes
from analytics_worker.stateful.accumulators import Accumulator, accumulators_of
from analytics_worker.stateful.state_table import SNAPSHOT, StateEntry, StateTable
from mistbow.client.agent import AgentClient
from mistbow.errors import TooLargeError
from mistbow.streams.models import (
    Appended,
)
from mistbow.streams.schemas import STATES

_SNAPSHOT_TICKS = 64
_MIN_SNAPSHOT_MS = 60_000
_MAX_SNAPSHOT_MS = 30 * 86_400_000

_MAX_APPEND_ROWS = 20_000
_MAX_CACHED_TABLES = 8
_COLUMNS = ("accumulator", "key", "ts", "revision", "state")


def snapshot_ms(every_ms: int) -> int:
    """Return the interval (ms) of snapshots; a snapshot stores the states of all keys again.

    >>> snapshot_ms(200), snapshot_ms(1000), snapshot_ms(86_400_000) // 86_400_000
    (60000, 64000, 30)
    """
    longest = min(every_ms * _SNAPSHOT_TICKS, _MAX_SNAPSHOT_MS)
    return max(every_ms, longest, _MIN_SNAPSHOT_MS)


@dataclass(frozen=True, slots=True)
class StateAccess:
    """The access to the states of a group: their stream, the lease for appends, and the lock file.

    ``query``: the id of a query that stores states, and caches the states between batches; None:
    the access is read-only.
    """

    url: str
    location: StreamLocation
    lease: QueryLease
    lock: str
    query: str | None = None

    @property
    def read_only(self) -> "StateAccess":
        """A read-only copy of the access."""
        return replace(self, query=None)


@dataclass(slots=True, eq=False)
class _ReadStates:
    """The states that a stream has before the position ``next``."""

    table: StateTable
    next: int


_cached: LRUCache[StateAccess, _ReadStates] = LRUCache(_MAX_CACHED_TABLES)


@contextmanager
def locked(access: StateAccess) -> Iterator[None]:
    """Lock the states against other writers on this machine until the ``with`` block ends."""
    with Path(access.lock).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def states_for(access: StateAccess | None, plan: Plan, first: int) -> Iterator[StateTable]:
    """Yield the states for ticks from ``first`` (ms) on; when the block ends, store the new states.

    An accumulator reads the state before a tick, not the newest state, so a repeated batch has the
    same results. If ``access`` is None, the states are empty and not stored.
    """
    accumulators = accumulators_of(plan)
    if access is None or not accumulators:
        yield StateTable()
        return
    agent = agent_client(access.url, access.location.site)
    if access.query is None:
        yield read_back(agent, access.location.stream, accumulators, first).table
        return
    with locked(access):
        states = _up_to_date(access, agent, accumulators, first)
        table = states.table
        yield table
        _put_snapshots(table, accumulators)
        states.next = append_states(agent, access, table.unstored, states.next)
        # If this is not reached, the next batch reads back.
        table.unstored = []


def read_back(
    agent: AgentClient, stream: str, accumulators: Collection[Accumulator], first: int
) -> _ReadStates:
    """Return the states that are needed to continue at the tick ``first`` (ms), and all later
    states.
    """
    table = StateTable(floor=first)
    remaining = {each.id: each for each in accumulators}
    span = max(snapshot_ms(each.window.every_ms) for each in accumulators)
    following = None
    while remaining:
        since = max(first - span, -1)
        read = agent.read(
            stream,
            agent.seek(stream, max(since, 0)),
            match={"accumulator": sorted(remaining)},
            min_ts=max(since + 1, 0),
        )
        if following is None:
            following = read.position.next
        _add_rows(table, read.table)
        for id, accumulator in list(remaining.items()):
            # States before a snapshot, or before the accumulator's start, are not needed.
            if since <= accumulator.start or any(at < first for at in table.snapshots(id)):
                del remaining[id]
        span *= 4
    return _ReadStates(table, following or 0)


def append_states(
    agent: AgentClient, access: StateAccess, rows: list[tuple[str, str, StateEntry]], following: int
) -> int:
    """Append states to the stream; return the position before which the caller has all rows.

    ``following``: this position before the append. If other writers' rows are between ``following``
    and the new rows, ``following`` is returned unchanged.
    """
    for start, end in batches(row_sizes(_table(rows)), MAX_APPEND_BYTES, _MAX_APPEND_ROWS):
        for appended in _append(agent, access, rows[start:end]):
            if appended.first == following:
                following = appended.next
    return following


def _append(
    agent: AgentClient, access: StateAccess, rows: list[tuple[str, str, StateEntry]]
) -> list[Appended]:
    stream, table = access.location.stream, _table(rows)

    def append(epoch: int) -> Appended:
        return agent.append(stream, table, epoch=epoch)

    try:
        return [access.lease.append(access.location, append)]
    except TooLargeError:
        # This agent is set to accept less than by default.
        half = len(rows) // 2
        if not half:
            raise
        return _append(agent, access, rows[:half]) + _append(agent, access, rows[half:])


def _up_to_date(
    access: StateAccess, agent: AgentClient, accumulators: tuple[Accumulator, ...], first: int
) -> _ReadStates:
    stream = access.location.stream
    states = _cached.pop(access, None)
    if states is None or first < states.table.floor or states.table.unstored:
        states = read_back(agent, stream, accumulators, first)
    else:
        # Corrections, and states of another query of the same group, may have come since.
        states.table.floor = first
        read = agent.read(
            stream, states.next, match={"accumulator": [each.id for each in accumulators]}
        )
        _add_rows(states.table, read.table)
        states.next = read.position.next
    _cached[access] = states
    return states


def _add_rows(table: StateTable, rows: pa.Table) -> None:
    columns = [rows[name].to_pylist() for name in _COLUMNS]
    for accumulator, key, tick, revision, state in zip(*columns, strict=True):
        table.add(accumulator, key, StateEntry(tick, revision, state))


def _put_snapshots(table: StateTable, accumulators: tuple[Accumulator, ...]) -> None:
    """Store a snapshot of all keys for each accumulator whose last snapshot is too old."""
    last = max((entry.tick for _, _, entry in table.unstored), default=None)
    if last is None:
        return
    for accumulator in accumulators:
        id, span = accumulator.id, snapshot_ms(accumulator.window.every_ms)
        if any(at > last - span for at in table.snapshots(id)):
            continue
        for key, entries in list(table.entries(id)):
            entry = table.entry_before(id, key, last + 1)
            if entry is not None and entries and entry.tick < last:
                table.put_entry(id, key, replace(entry, tick=last, revision=0))
        # The mark comes last: once it is stored, so are all keys.
        table.put_entry(id, SNAPSHOT, StateEntry(last, 0, ""))


def _table(rows: list[tuple[str, str, StateEntry]]) -> pa.Table:
    columns = {
        "accumulator": pa.array([id for id, _, _ in rows], pa.string()),
        "key": pa.array([key for _, key, _ in rows], pa.string()),
        "ts": pa.array([entry.tick for _, _, entry in rows], pa.int64()),
        "revision": pa.array([entry.revision for _, _, entry in rows], pa.int64()),
        "state": pa.array([entry.state for _, _, entry in rows], pa.string()),
    }
    encoded = [
        pc.dictionary_encode(columns[field.name]).cast(field.type)
        if pa.types.is_dictionary(field.type)
        else columns[field.name]
        for field in STATES
    ]
    return pa.Table.from_arrays(encoded, names=STATES.names)
