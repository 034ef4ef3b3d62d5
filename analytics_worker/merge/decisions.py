"""The decisions of a merge about its sites, as rows of a stream, and the resulting gaps.

A silent site leaves: later ticks are computed without its panes. When the site is back, it joins:
ticks after a decided time include the panes of the site again. All queries of a group read the same
decisions, so a replay repeats them, and each result can name its missing sites.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pyarrow as pa
from cachetools import LRUCache

from analytics.plan.fragments import StreamLocation
from analytics_worker.merge import site_gaps
from analytics_worker.merge.site_gaps import SiteGap, Span, gap_of_returned_source, removed_gap
from mistbow.client.agent import AgentClient
from mistbow.errors import ConflictError
from mistbow.streams.events import event_rows, events_of

CHECKPOINT = "checkpoint"
"""The attribute of a stream of decisions that contains a ``Checkpoint``."""

RETAINED_MS = 3_600_000
"""The time (ms) for which all gaps are retained: replayed results name the sites as missing."""

_RETAINED_GAPS = 21
"""The number of gaps of each site that are always retained: ``MergeFrontier`` counts 20 stays."""

_MAX_GAPS = 1000
"""The number of gaps above which a process discards old gaps."""

_MAX_PRESENCES = 256
"""The number of merges whose presence of sites a process caches; more are read again."""


class Left(msgspec.Struct, frozen=True, tag="left", omit_defaults=True):
    """A decision: the ticks after the decision's time are computed without the site.

    ``named_after``: the results after this time (ms) name the site as missing; None: the results
    after the decision's time. A new source was always absent, but only later results name it.
    ``uncertain``: as in ``SiteGap``.
    """

    named_after: int | None = None
    uncertain: tuple[Span, ...] = ()


class Joined(msgspec.Struct, frozen=True, tag="joined", omit_defaults=True):
    """A decision: the ticks after the decision's time include the site again.

    ``frontier``: the frontier (ms) of the site at the decision, which may be far behind the time
    from which on the decision applies; None: it is not recorded.
    """

    frontier: int | None = None


class Forgotten(msgspec.Struct, frozen=True, tag="forgotten", omit_defaults=True):
    """A decision: after the decision's time, the site is no longer a source, hence not missing.

    ``after``, ``uncertain``, ``named``: those of the gap of the removal (``SiteGap``). If ``after``
    is None, the open gap of the site becomes this gap.
    """

    after: int | None = None
    uncertain: tuple[Span, ...] = ()
    named: tuple[Span, ...] = ()


class LateSpan(msgspec.Struct, frozen=True):
    """The panes with the id ``pane`` that arrived after windows had closed; times in ms.

    ``first``, ``last``: the earliest and the latest end of a pane. Windows that end before ``due``
    were closed when the panes arrived.
    """

    pane: str
    first: int
    last: int
    due: int


class Late(msgspec.Struct, frozen=True, tag="late"):
    """A record, among the decisions, of the site's panes that arrived late."""

    spans: tuple[LateSpan, ...]


Decision = Left | Joined | Forgotten | Late


@dataclass(frozen=True, slots=True)
class SiteDecision:
    """A decision about a site; ``ts``: the time (ms) from which on the decision applies."""

    ts: int
    site: str
    decision: Decision


@dataclass(slots=True)
class Presence:
    """The gaps of all sites, according to the applied decisions."""

    gaps: list[SiteGap] = field(default_factory=list)

    def apply(self, decisions: Iterable[SiteDecision]) -> None:
        """Change the gaps by decisions.

        A decision has no effect if a missing site leaves, or if a present site joins.
        """
        for one in decisions:
            gap = self.open_gap(one.site)
            match one.decision:
                case Left(named_after, uncertain) if gap is None:
                    opened = SiteGap(one.site, one.ts, None, named_after, uncertain=uncertain)
                    self.gaps.append(gap_of_returned_source(self.gaps_of(one.site), opened))
                case Forgotten(int(after), uncertain, named):
                    removed = removed_gap(one.site, after, one.ts, uncertain, named)
                    self._replace(gap, removed)
                case Joined() | Forgotten() as ended if gap is not None:
                    joined_at = ended.frontier if isinstance(ended, Joined) else None
                    is_removed, until = isinstance(ended, Forgotten), max(one.ts, gap.after)
                    ended_gap = replace(
                        gap, until=until, joined_at=joined_at, is_removed=is_removed
                    )
                    self._replace(gap, ended_gap)

    def _replace(self, gap: SiteGap | None, by: SiteGap) -> None:
        if gap is None:
            self.gaps.append(by)
        else:
            self.gaps[self.gaps.index(gap)] = by

    def gaps_of(self, site: str) -> list[SiteGap]:
        """Return the gaps of a site, in the order of decisions."""
        return [gap for gap in self.gaps if gap.site == site]

    def open_gap(self, site: str) -> SiteGap | None:
        """Return the open gap of a site that has left and not joined again; None: the site has no
        open gap.
        """
        return next((gap for gap in self.open_gaps() if gap.site == site), None)

    def open_gaps(self) -> list[SiteGap]:
        """Return the gaps of all sites that have left and not joined again."""
        return [gap for gap in self.gaps if gap.until is None]

    @property
    def last_gaps(self) -> dict[str, SiteGap]:
        """The last gap of each site that has ever left: site -> gap."""
        return {gap.site: gap for gap in self.gaps}

    def removed_after(self, site: str) -> int:
        """Return the time (ms) after which results lack a site since its last removal; 0: no
        removal.
        """
        # The last record counts, since a site can turn out to be missing since an earlier time.
        gaps = (gap for gap in reversed(self.gaps) if gap.site == site and gap.is_removed)
        return next((gap.after for gap in gaps), 0)

    def pruned(self, before: int) -> "Presence":
        """Return the presence without the gaps that ended before a time (ms).

        Open gaps, the last gaps of each site, and the site's last removal are retained.
        """
        counts, removed = Counter[str](), set[str]()
        retained: list[SiteGap] = []
        for gap in reversed(self.gaps):
            counts[gap.site] += 1
            is_recent = gap.until is None or gap.until >= before
            is_last_removal = gap.is_removed and gap.site not in removed
            if is_last_removal:
                removed.add(gap.site)
            if is_recent or is_last_removal or counts[gap.site] <= _RETAINED_GAPS:
                retained.append(gap)
        return Presence(retained[::-1])

    def missing(self, tick: int) -> tuple[str, ...]:
        """Return the names of the sites that are missing at a tick (ms), sorted."""
        return site_gaps.missing(self.gaps, tick)

    def named(self, tick: int) -> tuple[str, ...]:
        """Return the names of the sites that the result at a tick (ms) names as missing, sorted."""
        return site_gaps.named(self.gaps, tick)

    def next_change(self, tick: int) -> int | None:
        """Return the first time (ms) at which a gap that contains ``tick`` ends; None if no end is
        known.
        """
        ends = [gap.until for gap in self.gaps if gap.until is not None and gap.contains(tick)]
        return min(ends, default=None)


def row_of(decision: SiteDecision) -> pa.RecordBatch:
    """Return a decision as a row (``EVENTS``) of the stream of decisions."""
    event = msgspec.json.encode(decision.decision).decode()
    return event_rows(decision.ts, {decision.site: event})


def from_rows(rows: pa.Table) -> Iterator[SiteDecision]:
    """Yield the decisions in rows (``EVENTS``) of the stream of decisions, in the order of the
    rows.
    """
    for ts, site, event in events_of(rows):
        yield SiteDecision(ts, site, msgspec.json.decode(event, type=Decision))


class Checkpoint(msgspec.Struct, frozen=True):
    """The gaps of all sites after the decisions before the position ``next``.

    It is an attribute of the stream of decisions, so that a process reads only later decisions.
    """

    next: int = 0
    gaps: tuple[SiteGap, ...] = ()


def checkpoint_of(attributes: Mapping[str, Any]) -> Checkpoint:
    """Return the checkpoint among the attributes of a stream of decisions.

    Without a checkpoint, or with one of another version, return that before the first decision.
    """
    try:
        return msgspec.convert(attributes.get(CHECKPOINT, {}), Checkpoint)
    except msgspec.ValidationError:
        return Checkpoint()


@dataclass(slots=True)
class _CachedPresence:
    """The presence of sites after all decisions before the position ``next``.

    ``next`` is None until the presence is read.
    """

    presence: Presence = field(default_factory=Presence)
    next: int | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


_presences: LRUCache[tuple[str, StreamLocation], _CachedPresence] = LRUCache(_MAX_PRESENCES)
_presences_lock = threading.Lock()


def read_presence(
    agent: AgentClient, decisions: StreamLocation, checkpoint: Checkpoint | None = None
) -> Presence:
    """Return the presence of sites after all decisions in a stream.

    A process reads each decision once, since it caches the presence of the merges that were read
    last. ``checkpoint``: where a process begins; None: at the stored checkpoint.
    """
    with _presences_lock:
        cached = _presences.setdefault((agent.url, decisions), _CachedPresence())
    site = agent.at(decisions.site)
    with cached.lock:
        if cached.next is None:
            begin = checkpoint or checkpoint_of(site.info(decisions.stream).attributes)
            cached.presence, cached.next = Presence(list(begin.gaps)), begin.next
        try:
            rows = site.read(decisions.stream, cached.next)
        except ConflictError:
            # The site lost its store: its stream begins anew.
            cached.presence, cached.next = Presence(), 0
            rows = site.read(decisions.stream, cached.next)
        cached.presence.apply(from_rows(rows.table))
        cached.next = rows.position.next
        if rows.table.num_rows and len(cached.presence.gaps) > _MAX_GAPS:
            newest = max(gap.after for gap in cached.presence.gaps)
            cached.presence = cached.presence.pruned(newest - RETAINED_MS)
        return Presence(list(cached.presence.gaps))
