"""The log of the enabler's decisions, with their reasons and authors.

The decisions are stored in a stream, and the newest are also in memory.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable
from enum import StrEnum

import msgspec

from analytics_enabler.journal import EventJournal
from mistbow.auth.callers import current_caller
from mistbow.clock import Clock
from mistbow.errors import FencedError
from mistbow.first_names import first_names
from mistbow.runtime.periodic import PeriodicTask, Schedule
from mistbow.telemetry import get_logger

log = get_logger(__name__)

MAX_DECISIONS = 1000
"""The maximum number of decisions in memory, and in the stream after its compaction."""

MAX_LISTED = 10
"""The maximum number of insights or fragments that the text of a decision lists."""

INTERVAL_S = 60.0
RETRY_S = 1.0
MAX_RETRY_S = 30.0

ENABLER = "enabler"
"""The author of decisions that no request and no scheduler causes."""


class DecisionKind(StrEnum):
    """The kinds of decisions: a family of subjects, and what happened to the subject."""

    DEPLOYMENT_SUBMITTED = "deployment_submitted"
    DEPLOYMENT_AMENDED = "deployment_amended"
    DEPLOYMENT_PAUSED = "deployment_paused"
    DEPLOYMENT_RESUMED = "deployment_resumed"
    DEPLOYMENT_DELETED = "deployment_deleted"
    DEPLOYMENT_MOVING = "deployment_moving"
    DEPLOYMENT_REFUSED = "deployment_refused"
    DEPLOYMENT_STAYED = "deployment_stayed"
    FRAGMENT_PLACED = "fragment_placed"
    FRAGMENT_MOVED = "fragment_moved"
    FRAGMENT_STOPPED = "fragment_stopped"
    SCHEDULER_FAILED = "scheduler_failed"
    SCHEDULER_RECOVERED = "scheduler_recovered"
    SITE_MISSING = "site_missing"
    SITE_RETURNED = "site_returned"
    WORKER_SUSPECTED = "worker_suspected"
    WORKER_DEAD = "worker_dead"
    WORKER_RETURNED = "worker_returned"
    HOTSPOT_FOUND = "hotspot_found"
    HOTSPOT_ENDED = "hotspot_ended"
    ENABLER_TOOK_OVER = "enabler_took_over"

    @property
    def family(self) -> str:
        """The kind of the subject.

        >>> DecisionKind.WORKER_DEAD.family
        'worker'
        """
        return self.partition("_")[0]

    @property
    def is_of_insights(self) -> bool:
        """Whether the subject is a deployment, or a group with the fragment."""
        return self.family in ("deployment", "fragment")


def listed(names: Iterable[str]) -> str:
    """Return the first names as a part of the text of a decision.

    >>> listed("abc"), listed(map(str, range(13))).endswith("8, 9 and 3 more")
    ('a, b, c', True)
    """
    return first_names(list(names), MAX_LISTED)


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision; ``at``: its time (ms since the epoch).

    ``subject``: the id of a deployment, or of a group whose fragment it concerns; or the name of a
    site, a worker or a scheduling request. ``by``: who decided: a token, a scheduler, a part of the
    enabler. ``number``: the number of the decision in the stream, from 0.
    """

    at: int
    kind: DecisionKind
    subject: str
    what: str
    why: str
    by: str
    number: int = -1

    @property
    def unnumbered(self) -> "Decision":
        """The decision without its number, for comparisons."""
        return msgspec.structs.replace(self, number=-1)


def decision_from_json(text: str) -> Decision:
    """Decode a decision from JSON."""
    decision: Decision = msgspec.json.decode(text, type=Decision)
    return decision


def token_author() -> str:
    """Return the author of a decision that the present request causes: its token."""
    return f"token {current_caller().name}"


class DecisionLog:
    """The decisions of an enabler; only the enabler with the lease of the stream appends to it.

    A decision is recorded without waiting. It is stored by a task, which tries again until the
    storage agent accepts it. The key of a row is the number of the decision modulo
    ``MAX_DECISIONS``, so that the compaction by key bounds the stream.
    """

    def __init__(
        self,
        journal: EventJournal[Decision],
        is_in_charge: Callable[[], Awaitable[bool]],
        clock: Clock,
    ) -> None:
        """Create the log; ``is_in_charge``: whether this enabler has the lease of deployments."""
        self._journal = journal
        self._is_in_charge = is_in_charge
        self._clock = clock
        self._stored: deque[Decision] = deque(maxlen=MAX_DECISIONS)
        self._waiting: deque[Decision] = deque(maxlen=MAX_DECISIONS)
        self._latest: dict[tuple[str, str], Decision] = {}
        self._next_number = 0
        self._is_current = False
        self._storing = asyncio.Lock()
        self._task = PeriodicTask(
            self._store_waiting,
            Schedule("decision_storage", INTERVAL_S, retry_s=RETRY_S, max_retry_s=MAX_RETRY_S),
        )
        self.is_loaded = False
        """Whether the stored decisions have been read."""

    async def run(self) -> None:
        """Store decisions until cancelled."""
        await self._task.run()

    def record(self, kind: DecisionKind, subject: str, *, what: str, why: str, by: str) -> None:
        """Record a decision at the present time; see ``Decision`` for the arguments."""
        decision = Decision(at=self._clock(), kind=kind, subject=subject, what=what, why=why, by=by)
        log.info("decision_recorded", kind=kind, subject=subject, what=what, why=why, by=by)
        self._waiting.append(decision)
        # This decision is the latest one, even if the clock was set back.
        self._set_latest(decision)
        self._task.wake()

    def latest_kind(self, family: str, subject: str) -> DecisionKind | None:
        """Return the kind of the latest decision about a subject; None: no decision."""
        latest = self._latest.get((family, subject))
        return None if latest is None else latest.kind

    def newest(
        self, limit: int, *, since: int | None = None, subjects: Collection[str] | None = None
    ) -> list[Decision]:
        """Return the newest ``limit`` decisions, in the order of time.

        ``since``: the earliest time (ms); None: no bound. ``subjects``: only decisions about these
        deployments, and about fragments of these groups; None: all decisions.
        """
        found = [
            each
            # Decisions of another enabler were copied later than they were taken.
            for each in sorted((*self._stored, *self._waiting), key=lambda each: each.at)
            if (since is None or each.at >= since)
            and (subjects is None or (each.subject in subjects and each.kind.is_of_insights))
        ]
        return found[-limit:]

    async def copy(self, decisions: Iterable[Decision]) -> None:
        """Store the decisions of another enabler of the domain that this log lacks.

        They get numbers of this log. Decisions older than all of a full log are not copied.
        """
        async with self._storing:
            if not self._is_current:
                await self._load()
            new = sorted(decisions, key=lambda each: each.number)
            stored = {each.unnumbered for each in self._stored} if new else set()
            is_full = len(self._stored) == MAX_DECISIONS
            oldest = min((each.at for each in self._stored), default=0) if is_full else 0
            for decision in new:
                if decision.unnumbered not in stored and decision.at >= oldest:
                    await self._append(msgspec.structs.replace(decision, number=self._next_number))
                    self._note(decision)

    async def reclaim(self) -> None:
        """Drop the decisions that are not stored; then claim the stream, and read it as a whole.

        Until then, the decisions that were read before are retained for readers.
        """
        async with self._storing:
            self._journal.reclaim()
            self._waiting.clear()
            self._is_current = self.is_loaded = False
        self._task.wake()

    async def _store_waiting(self) -> float | None:
        async with self._storing:
            return await self._store()

    async def _store(self) -> float | None:
        """Store the waiting decisions; return the pause (s) until the next call."""
        if self._is_current and not self._waiting:
            return None
        if not await self._is_in_charge():
            return RETRY_S
        if not self._is_current:
            await self._load()
        while self._waiting:
            first = self._waiting[0]
            await self._append(msgspec.structs.replace(first, number=self._next_number))
            # A full queue may have dropped the decision meanwhile.
            if self._waiting and self._waiting[0] is first:
                self._waiting.popleft()
        return None

    async def _append(self, decision: Decision) -> None:
        key = str(decision.number % MAX_DECISIONS)
        try:
            await self._journal.append(key, decision, decision.at)
        except FencedError:
            # If two enablers start at once, each may have claimed one of the two streams last. The
            # enabler with the lease of the deployments continues, and claims this stream again.
            self._journal.reclaim()
            self._is_current = False
            raise
        except BaseException:
            # The decision may have been stored although the answer was lost.
            self._is_current = False
            raise
        self._add(decision)

    async def _load(self) -> None:
        unread = [decision for _, decision in await self._journal.unread()]
        if not self.is_loaded:
            self._stored.clear()
            self._latest.clear()
            self._next_number = 0
        for decision in sorted(unread, key=lambda each: each.number):
            if decision.number >= self._next_number:
                self._add(decision)
                if self._waiting and decision.unnumbered == self._waiting[0]:
                    self._waiting.popleft()
        for decision in (*self._stored, *self._waiting):
            self._note(decision)
        self._is_current = self.is_loaded = True

    def _add(self, decision: Decision) -> None:
        self._stored.append(decision)
        self._next_number = decision.number + 1

    def _note(self, decision: Decision) -> None:
        """Note a stored decision, unless a later one about its subject is known."""
        latest = self._latest.get((decision.kind.family, decision.subject))
        if latest is None or decision.at >= latest.at:
            self._set_latest(decision)

    def _set_latest(self, decision: Decision) -> None:
        if len(self._latest) > 2 * MAX_DECISIONS:
            by_time = sorted(self._stored, key=lambda each: each.at)
            self._latest = {(each.kind.family, each.subject): each for each in by_time}
        self._latest[decision.kind.family, decision.subject] = decision
