"""The watcher of the sites of a merge, which runs in the driver of the merge's query."""

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from analytics.plan.fragments import StreamLocation
from analytics.plan.target_attributes import TargetAttributes
from analytics_worker.agent_clients import agent_client
from analytics_worker.merge.decisions import Presence, SiteDecision, read_presence, row_of
from analytics_worker.merge.merge_frontier import MergeFrontier, SiteProgress
from analytics_worker.spark.panes_options import PanesOptions
from mistbow.clock import system_clock
from mistbow.errors import NotFoundError, UnavailableError
from mistbow.runtime.periodic import PeriodicThread, Schedule

_RETRY_S = 0.3
_LISTEN_MS = 2000
_SILENCE_S = _LISTEN_MS / 1000 + 1.0
_UNDECIDED_S = 1.0
"""The time (s) after which a query takes over from another query that ought to have decided."""

_MAX_UNREAD_S = 10.0
"""The time (s) for which decisions cannot be read, or not be stored, before the query ends.

Another query costs a start, and would need the decisions too.
"""

_FIRST_POLL_S = 0.25
_SLOW_REQUEST_S = 1.0
"""The time (s) of a slow request about decisions, after which the observations of sites are old."""

_ALL_ROWS = 2**62


class SiteWatcher:
    """Watches the sites of a merge, and decides which sites are missing.

    ``starts``: site -> the position from which on the site's panes are watched.
    """

    def __init__(
        self,
        options: PanesOptions,
        starts: Mapping[str, int],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.presence = Presence()
        self._monotonic = monotonic
        self._undecided_since: float | None = None
        self._unread_since: float | None = None
        self._unstored_since: float | None = None
        self._orphans: dict[str, int] = {}
        self.merge = MergeFrontier(
            options.grain_ms,
            options.patience_ms,
            options.since,
            options.after,
            monotonic,
            resumed=options.resumed,
            unreachable=options.unsought,
        )
        self._options = options
        self._changed = threading.Event()
        self._listeners = {
            location.data_site: _SiteListener(
                options.url, location, starts.get(location.data_site, 0), self._changed
            )
            for location in options.sources
        }

    def first(self, wait_s: float, promise: int) -> tuple[dict[str, SiteProgress], int]:
        """Return the progress and the frontier for the first micro-batch.

        Waits until all present sites have reached the tick ``promise`` (ms), for at most
        ``wait_s``. The results of this tick are stored already. So if any site has reached the next
        tick, the method also waits until the others reach it, or leave because they are silent. It
        does not wait for sites that have left, nor, for the tick ``promise``, for sites that did
        not answer when the query started.
        """
        deadline = time.monotonic() + wait_s
        self._read_decisions()
        ignored = {*self.absent(promise), *self._options.unsought}
        progress = self._await_progress(wait_s, promise, ignored)
        following = self.merge.next_promise(promise)
        while (frontier := self.frontier(progress, promise)) >= promise > 0:
            furthest = max(one.frontier for one in progress.values())
            if not frontier < following <= furthest:
                break
            further = self.frontier(progress, following)
            absent, then = set(self.absent(promise)), set(self.absent(following))
            # The first tick needs a batch of its own if a site joins after it, or if an unreachable
            # site leaves, because this site may have rows of the first tick.
            is_one_batch = absent <= then and self.unreachable.isdisjoint(then - absent)
            if further >= following and is_one_batch:
                return progress, further
            if further >= following or further < 0:
                break  # waiting would change nothing
            left = deadline - time.monotonic()
            if left <= 0:
                break
            progress = self._await_progress(
                min(left, _FIRST_POLL_S), following, self.absent(following)
            )
        return progress, frontier

    def progress(self, wait_s: float, promise: int) -> dict[str, SiteProgress]:
        """Return a dict: site -> the progress of the site's panes.

        Waits until all present sites have reached the promised tick (ms), at most for ``wait_s``.
        Raises the error of a site whose stream cannot be read.
        """
        return self._await_progress(wait_s, promise, self.absent(promise))

    def _await_progress(
        self, wait_s: float, promise: int, ignored: Collection[str]
    ) -> dict[str, SiteProgress]:
        deadline = time.monotonic() + wait_s
        while True:
            progress = {site: one.progress for site, one in self._listeners.items()}
            for listener in self._listeners.values():
                if listener.error is not None:
                    raise listener.error  # the query is started again, from an earlier position
            left = deadline - time.monotonic()
            present = (one.frontier for site, one in progress.items() if site not in ignored)
            if left <= 0 or min(present, default=-1) >= promise:
                return progress
            self._changed.wait(left)
            self._changed.clear()

    def frontier(self, progress: Mapping[str, SiteProgress], promise: int) -> int:
        """Store decisions about sites that leave or join, then return the frontier of the merge.

        The frontier is the event time (ms) up to which the panes of all present sites have arrived;
        -1: unknown, because decisions cannot be read or stored at present. ``promise``: the next
        tick (ms) to close.
        """
        if not self._read_decisions():
            return -1
        self._note_orphans(progress)
        decisions = self.merge.decide(progress, self.presence, promise, system_clock())
        if not decisions:
            self._undecided_since = self._unstored_since = None
        elif not self._store(decisions):
            return -1
        return self.merge.frontier(progress, self.presence, promise)

    def absent(self, promise: int) -> tuple[str, ...]:
        """Return the names of the sites that are missing at the next tick to close (``promise``,
        ms).
        """
        return self.merge.absent(self.presence, promise)

    @property
    def unreachable(self) -> frozenset[str]:
        """The sites that do not answer at present."""
        return frozenset(site for site, one in self._listeners.items() if one.is_unreachable)

    def _note_orphans(self, progress: Mapping[str, SiteProgress]) -> None:
        """Note, once for each order, the sites whose partial fragments are orphaned."""
        lease = self._options.lease
        for site, number in ({} if lease is None else lease.orphaned_sites).items():
            # Before the first answer of a site, the position of its last panes is unknown.
            is_known = site in progress and progress[site].frontier >= 0
            if is_known and self._orphans.get(site) != number:
                self._orphans[site] = number
                self.merge.note_orphan(site, progress[site].frontier)

    def _store(self, decisions: Sequence[SiteDecision]) -> bool:
        """Store decisions if this query decides, and return whether the needed sites answer.

        Raises ``UnavailableError`` if they do not answer for ``_MAX_UNREAD_S``.
        """
        began = self._monotonic()
        try:
            is_deciding = self._may_decide()
            for decision in decisions if is_deciding else ():
                store_decision(self._options, decision)
        except UnavailableError:
            # The site that is to leave may be the one with the decisions, and return soon.
            now = self._monotonic()
            self._unstored_since = since = self._unstored_since or now
            if now - since > _MAX_UNREAD_S:
                raise
            return False
        finally:
            self._exclude_if_slow(self._monotonic() - began)
        self._unstored_since = None
        return not is_deciding or self._read_decisions()

    def _may_decide(self) -> bool:
        location, lease = self._options.target, self._options.lease
        if location is None or lease is None:
            return False
        if lease.epochs is None:
            # The query with the epochs decides, if it still runs.
            since = self._undecided_since = self._undecided_since or self._monotonic()
            if self._monotonic() - since > _UNDECIDED_S:
                lease.request()
            return False
        # Two queries of a group may read different streams: only one of them decides.
        target = agent_client(self._options.url, location.site).info(location.stream)
        return TargetAttributes.of(target).deciding == self._options.fingerprint

    def _read_decisions(self) -> bool:
        """Read the decisions, and return whether their site answers.

        Raises ``UnavailableError`` if the site does not answer for ``_MAX_UNREAD_S``.
        """
        location = self._options.decisions
        if location is None:
            return True
        began = self._monotonic()
        try:
            agent = agent_client(self._options.url)
            self.presence = read_presence(agent, location, self._options.checkpoint)
        except UnavailableError:
            self._unread_since = since = self._unread_since or began
            self._undecided_since = None
            if self._monotonic() - since > _MAX_UNREAD_S:
                raise
            return False
        waited = self._monotonic() - (self._unread_since or began)
        if self._unread_since is not None:
            self._unread_since = None
            self.merge.exclude(waited)
        else:
            self._exclude_if_slow(waited)
        return True

    def _exclude_if_slow(self, waited_s: float) -> None:
        """Exclude a slow request from the silence of sites.

        The agent may not have answered about the sites either, so they need not be silent.
        """
        if waited_s > _SLOW_REQUEST_S:
            self.merge.exclude(waited_s)


class _SiteListener:
    """Follows the progress of one site's panes by long polling."""

    def __init__(
        self, url: str, location: StreamLocation, start: int, changed: threading.Event
    ) -> None:
        self.progress = SiteProgress(start)
        self.error: Exception | None = None
        self._answered_at = time.monotonic()
        self._client = agent_client(url, location.site)
        self._stream = location.stream
        self._changed = changed
        # Without pauses: the agent answers when there is progress, or after _LISTEN_MS.
        fields = {"site": location.data_site}
        schedule = Schedule("site_progress", interval_s=0, retry_s=_RETRY_S, fields=fields)
        self._thread = PeriodicThread(self._listen, schedule)
        self._thread.start()

    @property
    def is_unreachable(self) -> bool:
        """Whether the site has not answered for longer than a long poll takes."""
        return time.monotonic() - self._answered_at > _SILENCE_S

    def _listen(self) -> float | None:
        before = self.progress
        try:
            offset = self._client.offset(
                self._stream,
                before.next,
                _ALL_ROWS,
                wait_ms=_LISTEN_MS,
                after_frontier=max(before.frontier, 0),
            )
        except NotFoundError:
            self._answered_at = time.monotonic()
            return _RETRY_S  # the site computes nothing yet
        except UnavailableError:
            return _RETRY_S
        except Exception as error:
            # For example a stream that is shorter than before, since its store was lost.
            self.error = error
            self._changed.set()
            self._thread.stop()
            return None
        self._answered_at = time.monotonic()
        # A stream without rows has the frontier 0, which is no progress.
        frontier = max(offset.frontier or -1, before.frontier)
        self.progress = SiteProgress(offset.next, frontier)
        if self.progress != before:
            self._changed.set()
        return None


def store_decision(options: PanesOptions, decision: SiteDecision) -> None:
    """Append a decision to the stream of decisions; without such a stream, do nothing."""
    location, lease = options.decisions, options.lease
    if location is not None and lease is not None:
        client = agent_client(options.url, location.site)
        rows = row_of(decision)
        lease.append(location, lambda epoch: client.append(location.stream, rows, epoch=epoch))
