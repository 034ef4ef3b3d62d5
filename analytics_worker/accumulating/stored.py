"""The stream of states: read back as far as needed, and written under a lock.

Who goes on from states and who mends them exclude each other: what is read under the lock is what
counts until the states that came of it are stored. See docs/adr/0015.
"""

import fcntl
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from analytics_worker.accumulating.accumulators import Accumulator, accumulators_of
from analytics_worker.accumulating.ledger import SNAPSHOT, Entry, Ledger
from analytics_worker.connection import connect
from mistbow.client.agent import AgentClient, Appended
from mistbow.errors import TooLargeError
from mistbow.plan.fragments import Place
from mistbow.plan.nodes import Plan
from mistbow.streams.parts import MOST_BYTES, parts, row_sizes
from mistbow.streams.schemas import STATES

_SNAPSHOT_TICKS = 64
_SNAPSHOT_MOST_MS = 30 * 86_400_000

_ROWS_AT_ONCE = 20_000
_MOST_KNOWN = 8
_FIELDS = ("accumulator", "key", "ts", "revision", "state")


def snapshot_ms(every_ms: int) -> int:
    """Return after how long (ms) all keys' states are written again, so that none before is needed.

    >>> snapshot_ms(1000), snapshot_ms(86_400_000) // 86_400_000
    (64000, 30)
    """
    return max(every_ms, min(every_ms * _SNAPSHOT_TICKS, _SNAPSHOT_MOST_MS))


@dataclass(frozen=True, slots=True)
class Account:
    """Where the states of a group are, and who asks for them.

    ``lock`` is a file. A ``query`` writes what it says, and remembers it from batch to batch under
    this name; who has none only reads.
    """

    url: str
    place: Place
    epoch: int
    lock: str
    query: str | None = None

    @property
    def reading(self) -> "Account":
        """The same, to read only."""
        return replace(self, query=None)


@dataclass(slots=True, eq=False)
class _Known:
    """What a process has read and written for a query: the numbers before ``next``."""

    ledger: Ledger
    next: int


_known: dict[Account, _Known] = {}


@contextmanager
def locked(account: Account) -> Iterator[None]:
    """Be the only one of this machine that reads states in order to write what comes of them."""
    with Path(account.lock).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def states_for(account: Account | None, plan: Plan, first: int) -> Iterator[Ledger]:
    """Provide the states for ticks from ``first`` (ms) on; store those that are put.

    They are those before each tick, not the newest: a batch that is repeated says the same.
    """
    accumulators = accumulators_of(plan)
    if account is None or not accumulators:
        yield Ledger()
        return
    agent = connect(account.url, account.place.site)
    if account.query is None:
        yield read_back(agent, account.place.stream, accumulators, first).ledger
        return
    with locked(account):
        known = _up_to_date(account, agent, accumulators, first)
        yield known.ledger
        _snapshots(known.ledger, accumulators)
        known.next = append_states(agent, account, known.ledger.fresh, known.next)
        # What was put and not stored makes the next one read back.
        known.ledger.fresh = []


def read_back(
    agent: AgentClient, stream: str, accumulators: Collection[Accumulator], first: int
) -> _Known:
    """Read what is needed to go on at a tick (ms), and all after it."""
    ledger = Ledger(floor=first)
    wanted = {each.id: each for each in accumulators}
    span = max(snapshot_ms(each.window.every_ms) for each in accumulators)
    following = None
    while wanted:
        since = max(first - span, -1)
        read = agent.read(
            stream,
            agent.seek(stream, max(since, 0)),
            match={"accumulator": sorted(wanted)},
            min_ts=max(since + 1, 0),
        )
        if following is None:
            following = read.position.next
        _learn(ledger, read.table)
        for id, accumulator in list(wanted.items()):
            # What is before a snapshot, or before there was anything, is not needed.
            if since <= accumulator.start or any(at < first for at in ledger.snapshots(id)):
                del wanted[id]
        span *= 4
    return _Known(ledger, following or 0)


def append_states(
    agent: AgentClient, account: Account, rows: list[tuple[str, str, Entry]], following: int
) -> int:
    """Store states; returns the number after them, if nothing else lies between."""
    for start, end in parts(row_sizes(_table(rows)), MOST_BYTES, _ROWS_AT_ONCE):
        for told in _append(agent, account, rows[start:end]):
            if told.first == following:
                following = told.next
    return following


def _append(
    agent: AgentClient, account: Account, rows: list[tuple[str, str, Entry]]
) -> list[Appended]:
    try:
        return [agent.append(account.place.stream, _table(rows), epoch=account.epoch)]
    except TooLargeError:
        # The agent takes less than it does unless it is told otherwise.
        half = len(rows) // 2
        if not half:
            raise
        return _append(agent, account, rows[:half]) + _append(agent, account, rows[half:])


def _up_to_date(
    account: Account, agent: AgentClient, accumulators: tuple[Accumulator, ...], first: int
) -> _Known:
    stream = account.place.stream
    known = _known.pop(account, None)
    if known is None or first < known.ledger.floor or known.ledger.fresh:
        known = read_back(agent, stream, accumulators, first)
    else:
        # What was mended meanwhile, and what another query of the same group said.
        known.ledger.floor = first
        read = agent.read(
            stream, known.next, match={"accumulator": [each.id for each in accumulators]}
        )
        _learn(known.ledger, read.table)
        known.next = read.position.next
    _known[account] = known
    while len(_known) > _MOST_KNOWN:
        del _known[next(iter(_known))]
    return known


def _learn(ledger: Ledger, rows: pa.Table) -> None:
    columns = [rows[name].to_pylist() for name in _FIELDS]
    for accumulator, key, tick, revision, state in zip(*columns, strict=True):
        ledger.learn(accumulator, key, Entry(tick, revision, state))


def _snapshots(ledger: Ledger, accumulators: tuple[Accumulator, ...]) -> None:
    """Put all keys of accumulators whose last snapshot is long ago, also of those that are idle."""
    last = max((entry.tick for _, _, entry in ledger.fresh), default=None)
    if last is None:
        return
    for accumulator in accumulators:
        id, span = accumulator.id, snapshot_ms(accumulator.window.every_ms)
        if any(at > last - span for at in ledger.snapshots(id)):
            continue
        for key, entries in list(ledger.entries(id)):
            entry = ledger.entry_before(id, key, last + 1)
            if entry is not None and entries and entry.tick < last:
                _put(ledger, id, key, replace(entry, tick=last, revision=0))
        # After all others: once it is there, they are.
        _put(ledger, id, SNAPSHOT, Entry(last, 0, ""))


def _put(ledger: Ledger, accumulator: str, key: str, entry: Entry) -> None:
    if ledger.learn(accumulator, key, entry):
        ledger.fresh.append((accumulator, key, entry))


def _table(rows: list[tuple[str, str, Entry]]) -> pa.Table:
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
