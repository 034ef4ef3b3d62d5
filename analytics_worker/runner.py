"""Runs one fragment: starts its query, replaces it when the fragment changes, revives it.

A changed fragment starts as a second query beside the first, from an earlier number, and takes
over when it has caught up: results never pause. Both write under one epoch; what both emit is
equal but for a site that only one of them reads, and the first write of a row counts.
"""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeGuard

from analytics_worker.correcting.corrector import Corrector
from analytics_worker.starting import Epochs, account_of, start, tell_joined
from analytics_worker.streaming_library import Counts, Query, StreamingLibrary
from mistbow.client.agent import AgentClient
from mistbow.errors import MistbowError
from mistbow.plan.fragments import Fragment, Merge, Partial, Place
from mistbow.plan.status import FragmentStatus, State
from mistbow.streams.schemas import EVENTS
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_PAUSE = 0.2
_BACK_OFF = (1.0, 2.0, 4.0, 8.0)
_FENCED = "FencedError"
_TURN_S = 10.0
_FAILURES_TOLD = 3
"""So many failures in a row are told as such; it goes on trying."""


@dataclass(slots=True)
class Written:
    """What was written to a stream, by what its agent tells of it now and then."""

    rows: int = 0
    bytes: int = 0
    _seen: tuple[int, int] | None = None

    def look(self, head: int, size: int) -> None:
        """Take in a stream's head, and its bytes since its agent started."""
        if self._seen is not None:
            self.rows += max(0, head - self._seen[0])
            # An agent that has started again counts from nothing.
            self.bytes += size - self._seen[1] if size >= self._seen[1] else size
        self._seen = head, size


@dataclass(frozen=True, slots=True)
class Burden:
    """How a fragment fares under the load of its worker; times in ms since the epoch.

    Its results are ``lag_ms`` overdue, for long since ``lagging_since``; it rests since
    ``shed_since``, and goes on when that is None again.
    """

    lag_ms: int = 0
    lagging_since: int | None = None
    shed_since: int | None = None


class Turns:
    """Queries start one after the other: each starts many processes, and a node has few cores."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: object | None = None
        self._until = 0.0

    def take(self, owner: object) -> bool:
        """Return whether it is the owner's turn; one that takes too long loses it."""
        with self._lock:
            now = time.monotonic()
            if self._owner not in (None, owner) and now < self._until:
                return False
            self._owner, self._until = owner, now + _TURN_S
            return True

    def give_back(self, owner: object) -> None:
        """End the owner's turn, if it is."""
        with self._lock:
            if self._owner is owner:
                self._owner = None


class FragmentRunner:
    """The queries of one fragment, watched by a thread of their own."""

    def __init__(
        self, library: StreamingLibrary, agent: AgentClient, fragment: Fragment, turns: Turns
    ) -> None:
        self._library = library
        self._turns = turns
        self._agent = agent
        self._wanted = fragment
        self._active: Query | None = None
        self._candidate: Query | None = None
        self._epochs = Epochs(agent)
        self._frontier = 0
        self._error: str | None = None
        self._failures = 0
        self._retry_at = 0.0
        self._fenced = False
        self._past = Counts()
        self._written = Written()
        self.burden = Burden()
        """How it fares; whoever watches the worker's load sets it."""
        self._stopped = threading.Event()
        self._corrector = Corrector(library, agent)
        self._threads = [
            threading.Thread(target=self._watch, name=f"run-{fragment.id}", daemon=True),
            threading.Thread(target=self._correct, name=f"correct-{fragment.id}", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def accept(self, fragment: Fragment) -> None:
        """Run this version of the fragment from now on."""
        self._wanted = fragment
        if self._fenced:
            self._epochs, self._fenced, self._error = Epochs(self._agent), False, None

    @property
    def fragment(self) -> Fragment:
        """The fragment that is to run."""
        return self._wanted

    @property
    def target(self) -> Place:
        """The stream that it writes."""
        return self._wanted.target

    @property
    def done(self) -> int | None:
        """Up to when results are complete, ms since the epoch; None while it starts."""
        active = self._active
        if active is not None:
            return active.frontier
        return None if self.burden.shed_since is None else self._frontier

    def status(self) -> FragmentStatus:
        """Return how far the fragment is."""
        queries = [query for query in (self._active, self._candidate) if query is not None]
        counts = sum((query.counts for query in queries), start=self._past)
        state: State = "starting" if self._active is None else "running"
        if self._fenced:
            state = "fenced"
        elif self._failures >= _FAILURES_TOLD:
            state = "failed"
        elif self.burden.shed_since is not None:
            state = "shed"
        return FragmentStatus(
            id=self._wanted.id,
            fingerprint=self._wanted.fingerprint,
            state=state,
            active=None if self._active is None else self._active.fragment.fingerprint,
            frontier=self._frontier,
            error=self._error,
            lag_ms=self.burden.lag_ms,
            lagging_since=self.burden.lagging_since,
            shed_since=self.burden.shed_since,
            queries=len(queries),
            batches=counts.batches,
            rows_dropped=counts.rows_dropped,
            rows_written=self._written.rows,
            bytes_written=self._written.bytes,
            spent_ms=dict(counts.spent_ms),
            troubles=dict(self._troubles()),
        )

    def _troubles(self) -> Iterator[tuple[str, str]]:
        if isinstance(self._wanted, Partial):
            return
        told = self._library.troubles()
        for insight in self._wanted.plan.insights:
            trouble = told.get(insight.uid)
            if trouble is not None and trouble.missing:
                yield insight.uid, str(trouble)

    def stop(self) -> None:
        """Stop everything; returns when nothing runs any more."""
        self._stopped.set()
        self._corrector.stop()
        for thread in self._threads:
            thread.join()
        self._turns.give_back(self)
        self._drop_queries()

    def _watch(self) -> None:
        self._library.adopt_thread()
        while not self._stopped.wait(_PAUSE):
            try:
                self._step()
            except MistbowError as error:
                self._fail(f"{type(error).__name__}: {error.message}")
            except Exception as error:
                if not self._library.is_alive():
                    return
                self._fail(str(error))

    def _step(self) -> None:
        if self._fenced:
            return
        self._observe()
        if self._candidate is None or self._candidate.begun:
            self._turns.give_back(self)
        if self._active is not None and self._active.frontier > self._frontier:
            self._advance(self._active)
        if self.burden.shed_since is not None:
            self._rest()
            return
        if time.monotonic() < self._retry_at:
            return
        if self._is_stranded(self._candidate):
            self._end(self._candidate)
            self._candidate = None
        if self._candidate is None and not self._is_wanted(self._active):
            if not self._turns.take(self):
                return
            self._candidate = self._start(self._wanted)
        if self._candidate is not None and self._has_caught_up(self._candidate):
            self._take_over(self._candidate)

    def _rest(self) -> None:
        """Run nothing: a later query goes on where the results end, as after a restart."""
        self._turns.give_back(self)
        self._drop_queries()
        self._failures, self._retry_at = 0, 0.0

    def _is_wanted(self, query: Query | None) -> bool:
        return query is not None and query.fragment.fingerprint == self._wanted.fingerprint

    def _is_stranded(self, query: Query | None) -> TypeGuard[Query]:
        """Return whether its panes may never catch up, now that nobody wants them any more."""
        return (
            query is not None and isinstance(query.fragment, Merge) and not self._is_wanted(query)
        )

    def _observe(self) -> None:
        """Take in how far the queries are; what has failed goes, and the other one stays."""
        for query in (self._active, self._candidate):
            if query is None or self._fenced:
                continue
            query.observe()
            if query.error is not None:
                if query is self._active:
                    self._active = None
                    self._let_decide(self._candidate)
                else:
                    self._candidate = None
                self._end(query)
                self._fail(query.error)

    def _start(self, fragment: Fragment) -> Query:
        if self._active is None:
            # A new claim shows, or fences off, what may still be on its way from a query before.
            self._epochs = Epochs(self._agent)
        self._epochs.of_target(fragment)
        self._library.weigh(fragment.salience)
        target = self._agent.at(fragment.target.site).info(fragment.target.stream)
        self._frontier = max(target.frontier, 0)
        query = start(
            self._library, self._agent, fragment, target, self._epochs, alone=self._active is None
        )
        log.info(
            "start", fragment=fragment.id, fingerprint=fragment.fingerprint,
            frontier=self._frontier,
        )  # fmt: skip
        return query

    def _has_caught_up(self, candidate: Query) -> bool:
        """Return whether it has told all that it has to up to where the results are."""
        running = self._active.frontier if self._active is not None else 0
        # These may be further by ticks of others: what it closes is a multiple of its own grain.
        grain = candidate.fragment.grain_ms
        told = max(running, self._frontier) // grain * grain
        return candidate.frontier >= max(told, 1)

    def _take_over(self, candidate: Query) -> None:
        fragment = candidate.fragment
        if not isinstance(fragment, Partial):
            epoch = self._epochs.of_target(fragment)
            account = account_of(self._agent, fragment, self._epochs)
            notes = self._corrector.begin(fragment, epoch, candidate.decided, account)
            sources = fragment.sources if isinstance(fragment, Merge) else (fragment.source,)
            notes["outputs"] = [one.uid for one in fragment.plan.insights]
            notes["sites"] = [place.site for place in sources]
            notes["decides"] = fragment.fingerprint
            self._note(fragment, notes)
        former, self._active, self._candidate = self._active, candidate, None
        if former is not None:
            self._end(former)
            if isinstance(fragment, Merge):
                until = former.frontier + fragment.grain_ms
                decisions = self._epochs.of(fragment.decisions, EVENTS)
                tell_joined(self._agent, former.fragment, fragment, until, decisions)
        log.info("running", fragment=fragment.id, frontier=candidate.frontier)

    def _let_decide(self, candidate: Query | None) -> None:
        """Let a candidate decide who is missing, now that there is nobody else to do so."""
        if candidate is not None:
            self._note(candidate.fragment, {"decides": candidate.fragment.fingerprint})

    def _advance(self, active: Query) -> None:
        frontier = active.frontier
        self._note(active.fragment, _positions(active), frontier)
        self._frontier = frontier
        if self._is_wanted(active):
            self._error, self._failures = None, 0

    def _note(self, fragment: Fragment, notes: dict[str, Any], frontier: int | None = None) -> None:
        target = fragment.target
        state = self._agent.at(target.site).advance(
            target.stream, self._epochs.of_target(fragment), frontier=frontier, attributes=notes
        )
        self._written.look(state.head, state.bytes)

    def _correct(self) -> None:
        self._library.adopt_thread()
        self._library.weigh(None)
        took = 0.0
        while not self._stopped.wait(_rest(took)):
            if self._active is None or self._fenced or isinstance(self._wanted, Partial):
                continue
            began = time.monotonic()
            try:
                self._corrector.step(self._frontier)
            except MistbowError as error:
                log.warning("correction put off", reason=error.message)
            except Exception as error:
                if not self._library.is_alive():
                    return
                log.warning("correction put off", reason=str(error)[:500])
            took = time.monotonic() - began

    def _fail(self, reason: str) -> None:
        self._error = reason.strip().splitlines()[0][:500] if reason.strip() else "unknown"
        if _FENCED in reason:
            self._fenced = True
            self._drop_queries()
        self._retry_at = time.monotonic() + _BACK_OFF[min(self._failures, len(_BACK_OFF) - 1)]
        self._failures += 1
        log.warning("fragment failed", fragment=self._wanted.id, reason=reason[:2000])

    def _drop_queries(self) -> None:
        for query in (self._candidate, self._active):
            if query is not None:
                self._end(query)
        self._active = self._candidate = None

    def _end(self, query: Query) -> None:
        self._past += query.counts
        query.stop()


def _positions(query: Query) -> dict[str, Any]:
    """Return from which numbers a later query has to read at least, besides what it needs."""
    fragment = query.fragment
    match fragment:
        case Partial():
            # What was read before came too late for no pane that closes after the frontier.
            read = query.read_to(query.frontier - fragment.reach_ms)
            return {} if read is None else {"read": {fragment.source.stream: read}}
        case Merge():
            read = query.read_to() or {}
            streams = {place.site: place.stream for place in fragment.sources}
            return {"read": {streams[site]: number for site, number in read.items()}}
        case _:
            return {}


def _rest(took: float) -> float:
    """Return how long (s) to leave the stream alone after a batch of corrections beside it."""
    return min(max(1.0, 4 * took), 10.0)
