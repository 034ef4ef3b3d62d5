"""Which sites results include and name, over random changes of a merge's sites.

The model stores for each tick the sites whose points its result includes, and the sites that the
result names as missing. The queries and the corrector of the model follow the rule of
``site_gaps``; the decisions about removed and new sites are those of the product.
"""

import uuid
from collections.abc import Collection, Iterator, Set
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import hypothesis.strategies as st
import msgspec
import pyarrow as pa
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from analytics.plan.fragments import Merge
from analytics_worker.lifecycle.runner_state import RunnerProgress
from analytics_worker.lifecycle.source_changes import SourceChanges
from analytics_worker.lifecycle.start import gap_of_new_site
from analytics_worker.lifecycle.target_writer import TargetWriter, describe_insights
from analytics_worker.merge import decisions
from analytics_worker.merge.decisions import (
    CHECKPOINT,
    Checkpoint,
    Decision,
    Joined,
    Left,
    Presence,
    SiteDecision,
    checkpoint_of,
    from_rows,
    read_presence,
    row_of,
)
from analytics_worker.merge.site_gaps import SiteGap, joined_ticks, last_gaps
from mistbow.client.agent import AgentClient
from mistbow.streams.schemas import EVENTS
from tests.analytics_worker.lifecycle.test_source_changes import merge_of

SITES = "bc"
"""The sites that are sources at times; the site ``a`` always is."""

_SUBSETS = st.sets(st.sampled_from(SITES)).map(frozenset)


@dataclass
class Result:
    """A stored result.

    ``included``, ``named``: the sites with points in it, and the sites that it names as missing.
    ``certain``, ``possible``: the sources of the query that wrote the first revision, if they are
    certain, and the sources of all queries that may have written it. ``skipped``: the sources
    that it lacked when a correction omitted it, since it may include points of a removed site.
    """

    included: frozenset[str]
    named: frozenset[str]
    certain: frozenset[str]
    possible: frozenset[str]
    skipped: frozenset[str] = frozenset()


@dataclass
class Streams:
    """An agent in memory with the target and the decisions of a merge."""

    url: str
    results: dict[int, Result] = field(default_factory=dict)
    rows: list[SiteDecision] = field(default_factory=list)
    target: dict[str, Any] = field(default_factory=dict)
    checkpoint: dict[str, Any] = field(default_factory=dict)

    def at(self, site: str) -> "Streams":
        del site
        return self

    def info(self, name: str) -> Any:
        attributes = self.checkpoint if name.startswith("decisions") else self.target
        return SimpleNamespace(attributes=dict(attributes))

    def claim(self, name: str) -> Any:
        del name
        return SimpleNamespace(epoch=1)

    def advance(self, name: str, epoch: int, *, attributes: dict[str, Any], **_: Any) -> Any:
        del name, epoch
        self.target |= attributes
        return SimpleNamespace(head=0, bytes=0)

    def append(self, name: str, rows: pa.Table, *, epoch: int) -> None:
        del name, epoch
        self.rows += from_rows(rows)

    def seek(self, name: str, time: int) -> int:
        del name, time
        return 0

    def read(self, name: str, start: int, *, min_ts: int = 0, **_: Any) -> Any:
        if name.startswith("results"):
            ticks = [tick for tick in self.results if tick >= min_ts]
            return SimpleNamespace(table=pa.table({"ts": pa.array(ticks, pa.int64())}))
        batches = [row_of(each) for each in self.rows[start:]]
        table = pa.Table.from_batches(batches, EVENTS)
        return SimpleNamespace(table=table, position=SimpleNamespace(next=len(self.rows)))


@dataclass
class Query:
    """A query. ``decided``: the position of its first own decision.

    ``is_elsewhere``: whether it runs on another worker than the former query. ``has_epochs``:
    whether it may write results of its own.
    """

    fragment: Merge
    decided: int = 0
    is_elsewhere: bool = False
    has_epochs: bool = True

    @property
    def sources(self) -> frozenset[str]:
        return self.fragment.sites


@dataclass
class ModelCorrector:
    """Corrects results by the decisions, in order; ``next``, ``waiting`` as in the product."""

    streams: Streams
    sources: frozenset[str]
    next: int
    waiting: set[int] = field(default_factory=set)
    waits_at: int = 2**62

    def step(self, frontier: int, number: int, silent: Set[str], last: int | None) -> None:
        """Process decisions; ``last``: the process ends after this number of corrected ticks."""
        rows = self.streams.rows
        presence = Presence()
        presence.apply(rows[: self.next])
        affected, position = set(self.waiting), self.next
        for one in rows[self.next : self.next + number]:
            gap = presence.open_gap(one.site)
            if isinstance(one.decision, Joined):
                if one.ts > frontier:
                    break
                if gap is not None:
                    affected |= set(ticks_of(gap, one.ts))
            presence.apply([one])
            position += 1
        waiting = set()
        for done, tick in enumerate(sorted(affected)):
            if last is not None and done >= last:
                return
            if not self.correct(tick, silent):
                waiting.add(tick)
        if last is None:
            self.waits_at = min(self.waits_at, self.next) if waiting else 2**62
            self.next, self.waiting = position, waiting
            self.streams.target["decided"] = min(self.next, self.waits_at)

    def correct(self, tick: int, silent: Set[str]) -> bool:
        """Correct a tick; return False if it waits for a silent site."""
        result = self.streams.results.get(tick)
        if result is None:
            return True
        presence = read_presence(cast("AgentClient", self.streams), merge_of(GROUP).decisions)
        gaps = last_gaps(presence.gaps, self.sources)
        if (sites := gaps.uncertain(tick)) and sites <= result.named:
            gaps = gaps.lacking(sites, tick)
        if gaps.removed(tick):
            result.skipped |= self.sources - result.included
            return True
        sites = self.sources - gaps.absent(tick)
        if sites & silent:
            return False
        assert result.included <= sites, (tick, "the correction loses points", presence.gaps)
        result.included, result.named = sites, gaps.named(tick)
        return True


GROUP = "model"


def ticks_of(gap: SiteGap, until: int) -> Iterator[int]:
    for after, last in joined_ticks(gap, until):
        yield from range(after + 1, last + 1)


class SourceChangesModel(RuleBasedStateMachine):
    """A merge whose sources leave, join, are added and are removed.

    ``tick``: the last tick with a result. ``frontier``: the stored frontier of the target.
    ``former``: the query before the last takeover, if both ran on one worker.
    """

    def __init__(self) -> None:
        super().__init__()
        self.streams = Streams(uuid.uuid4().hex)
        self.agent = cast("AgentClient", self.streams)
        self.tick = self.frontier = 0
        self.candidate: Query | None = None
        self.active: Query | None = Query(merge_of(GROUP, "a", "b"))
        self.former: Query | None = None
        self.fragment = self.active.fragment
        self.changes = self.new_changes()
        self.corrector = ModelCorrector(self.streams, self.active.sources, 0)
        self.streams.target |= describe_insights(self.fragment) | {"decided": 0}

    def teardown(self) -> None:
        """Let all sites join, and correct everything: no source may be missing then."""
        if self.candidate is not None:
            self.withdraw(is_begun=False)
        if self.active is not None:
            self.write_results(3, lag=0, first="active")
        self.start(frozenset(SITES), is_elsewhere=self.active is None)
        self.take_over([])
        self.end_handover()
        assert self.active is not None
        self.write_results(3, lag=0, first="active")
        for site in sorted(self.active.sources):
            self.join(site, 0)
        self.correct_gaps(len(self.streams.rows), frozenset(), None)
        for tick, result in self.streams.results.items():
            lacking = (self.active.sources & result.certain) - result.included - result.skipped
            assert not lacking, (tick, "is not corrected", self.presence.gaps)
        decisions._presences.pop((self.streams.url, self.fragment.decisions), None)

    def new_changes(self) -> SourceChanges:
        return SourceChanges(self.agent, TargetWriter(self.agent), lambda: self.tick)

    @property
    def presence(self) -> Presence:
        return read_presence(self.agent, self.fragment.decisions)

    @property
    def deciding(self) -> Query | None:
        """The query that decides about sites."""
        if self.active is not None:
            return self.active
        candidate = self.candidate
        return candidate if candidate is not None and candidate.has_epochs else None

    def decide(self, time: int, site: str, decision: Decision) -> None:
        self.streams.rows.append(SiteDecision(time, site, decision))

    @rule(
        ticks=st.integers(1, 3),
        lag=st.integers(0, 2),
        first=st.sampled_from(("active", "candidate")),
    )
    def write_results(self, ticks: int, lag: int, first: str) -> None:
        """Write results; ``first``: which of two queries writes a result first."""
        queries = [each for each in (self.active, self.candidate) if each and each.has_epochs]
        if not queries:
            return
        writer = queries[0] if first == "active" else queries[-1]
        self.write(ticks, writer, queries)
        if self.active is not None:
            self.frontier = max(self.frontier, self.tick - lag)

    def write(self, ticks: int, writer: Query, queries: list[Query]) -> None:
        """Write results; ``queries``: all queries that may write them."""
        presence = self.presence
        for _ in range(ticks):
            self.tick += 1
            self.streams.results[self.tick] = Result(
                writer.sources.difference(presence.missing(self.tick)),
                writer.sources.intersection(presence.named(self.tick)),
                frozenset.intersection(*(query.sources for query in queries)),
                frozenset(presence.named(self.tick)).union(*(one.sources for one in queries)),
            )

    def blur(self, after: int, sources: frozenset[str]) -> None:
        """Note that another query may have written results after a tick, too."""
        for tick, result in self.streams.results.items():
            if tick > after:
                result.certain &= sources
                result.possible |= sources

    @rule(site=st.sampled_from(SITES))
    def leave(self, site: str) -> None:
        query = self.deciding
        is_present = self.presence.open_gap(site) is None
        if query is not None and site in query.sources and is_present:
            self.decide(self.tick, site, Left())

    @rule(site=st.sampled_from(SITES), ahead=st.integers(0, 2))
    def join(self, site: str, ahead: int) -> None:
        query = self.deciding
        is_present = self.presence.open_gap(site) is None
        if query is not None and site in query.sources and not is_present:
            self.decide(self.tick + ahead, site, Joined())

    @precondition(lambda self: self.active is not None)
    @rule(
        number=st.integers(1, 8),
        silent=_SUBSETS,
        last=st.one_of(st.none(), st.none(), st.integers(0, 5)),
    )
    def correct_gaps(self, number: int, silent: Set[str], last: int | None) -> None:
        self.corrector.step(self.frontier, number, silent, last)
        if last is not None:
            self.restart_corrector()

    @precondition(lambda self: self.active is not None and self.frontier > 0)
    @rule(silent=_SUBSETS)
    def correct_late_panes(self, silent: Set[str]) -> None:
        """Correct all ticks after late panes of the site that is always present."""
        for tick in range(1, self.frontier + 1):
            if not self.corrector.correct(tick, silent):
                self.corrector.waiting.add(tick)
                self.corrector.waits_at = min(self.corrector.waits_at, self.corrector.next)

    @precondition(lambda self: self.active is not None and self.candidate is None)
    @rule(sites=_SUBSETS, is_elsewhere=st.booleans())
    def change_sources(self, sites: Set[str], is_elsewhere: bool) -> None:
        """Let a query with other sources take over without any interruption."""
        self.start(sites, is_elsewhere)
        self.take_over([])
        self.end_handover()

    def restart_corrector(self) -> None:
        """Let another process read the stored position and the decisions after the checkpoint."""
        self.corrector.next = self.streams.target["decided"]
        self.corrector.waiting, self.corrector.waits_at = set(), 2**62
        decisions._presences.pop((self.streams.url, self.fragment.decisions), None)

    @rule()
    def store_checkpoint(self) -> None:
        head = len(self.streams.rows)
        if self.corrector.next == head and not self.corrector.waiting:
            gaps = self.presence.pruned(max(0, self.tick - 3)).gaps
            checkpoint = msgspec.json.encode(Checkpoint(head, tuple(gaps)))
            self.streams.checkpoint = {CHECKPOINT: msgspec.json.decode(checkpoint)}
            assert checkpoint_of(self.streams.checkpoint).gaps == tuple(gaps)
            self.restart_corrector()

    @precondition(lambda self: self.candidate is None)
    @rule(sites=_SUBSETS, is_elsewhere=st.booleans())
    def start(self, sites: Collection[str], is_elsewhere: bool) -> None:
        if self.active is not None:
            self.end_handover()
        # A query starts later than the short time after which a site joins.
        joining = {gap.site for gap in self.presence.gaps if (gap.until or 0) > self.tick}
        sites = (set(sites) - joining) | (joining & set(self.streams.target["sites"]))
        fragment = merge_of(GROUP, "a", *sorted(sites - {"a"}))
        is_elsewhere = is_elsewhere or self.active is None
        for site in sorted(set(sites) - set(self.streams.target["sites"])):
            self.streams.rows += gap_of_new_site(self.presence, site, self.frontier, self.tick)
        self.candidate = Query(fragment, len(self.streams.rows), is_elsewhere, not is_elsewhere)
        self.blur(self.frontier, self.candidate.sources)

    @precondition(lambda self: self.candidate is not None and self.candidate.is_elsewhere)
    @rule()
    def claim(self) -> None:
        """Let the candidate claim the streams, which fences the active query."""
        assert self.candidate is not None
        self.active, self.candidate.has_epochs = None, True
        self.blur(self.frontier, self.candidate.sources)

    @precondition(lambda self: self.candidate is not None)
    @rule(is_begun=st.booleans())
    def withdraw(self, is_begun: bool) -> None:
        """Withdraw the candidate; ``is_begun``: after an attempt to take over."""
        candidate, self.candidate = self.candidate, None
        assert candidate is not None
        if candidate.is_elsewhere:
            return
        if is_begun:
            self.changes.begin(candidate.fragment, self.frontier + 1)
        if self.active is not None:
            self.changes.reopen(self.frontier)
            self.end_handover()

    @precondition(lambda self: self.candidate is not None)
    @rule(
        during=st.lists(
            st.sampled_from(
                ("begin", "write", "write candidate", "leave b", "join b", "leave c", "join c")
            ),
            max_size=6,
        )
    )
    def take_over(self, during: list[str]) -> None:
        """Let the candidate take over; ``during``: what the former query does meanwhile."""
        candidate = self.candidate
        assert candidate is not None
        if candidate.is_elsewhere:
            self.claim()
            self.changes = self.new_changes()
        self.changes.begin(candidate.fragment, self.frontier + 1)
        for step in during:
            verb, _, what = step.partition(" ")
            match verb:
                case "begin":
                    self.changes.begin(candidate.fragment, self.frontier + 1)
                case "write":
                    self.write_results(1, lag=1, first=what or "active")
                case "leave":
                    self.leave(what)
                case "join":
                    self.join(what, 0)
        self.blur(self.frontier + 1, candidate.sources)
        position = min(self.streams.target["decided"], candidate.decided)
        if not candidate.is_elsewhere:
            position = min(position, self.corrector.next)
        self.corrector = ModelCorrector(self.streams, candidate.sources, position)
        self.streams.target |= describe_insights(candidate.fragment) | {"decided": position}
        self.former = None if candidate.is_elsewhere else self.active
        self.active, self.candidate, self.fragment = candidate, None, candidate.fragment

    @precondition(lambda self: self.active is not None)
    @rule()
    def end_handover(self) -> None:
        """Record what is certain once the former query has stopped."""
        is_alone = self.candidate is None or self.candidate.is_elsewhere
        progress = SimpleNamespace(active=self.active, candidate=None if is_alone else 1)
        self.changes.settle(cast("RunnerProgress", progress))
        if is_alone and self.active is not None:
            gaps = last_gaps(self.presence.gaps, self.active.sources)
            assert not gaps.provisional, "corrections wait for ever"

    @precondition(lambda self: self.active and self.former and not self.candidate)
    @rule(ticks=st.integers(0, 2), left=st.one_of(st.none(), st.sampled_from(SITES)))
    def stop_late(self, ticks: int, left: str | None) -> None:
        """Stop the former query, which has written results and a decision after the handover."""
        former, self.former = self.former, None
        assert former is not None
        assert self.active is not None
        self.end_handover()
        frontier = self.tick
        self.write(ticks, former, [former, self.active])
        if left in former.sources and self.presence.open_gap(left) is None:
            self.decide(self.tick, left, Left())
        self.changes.note_late_stop(former.fragment, frontier)
        self.end_handover()

    @precondition(lambda self: self.candidate is not None and self.candidate.has_epochs)
    @rule()
    def fail_active(self) -> None:
        """End the active query only, so that the candidate decides about sites."""
        self.active = None

    @rule()
    def crash(self) -> None:
        """End the worker's process."""
        self.active = self.candidate = self.former = None
        self.changes = self.new_changes()
        self.restart_corrector()

    @invariant()
    def results_name_the_sources_that_they_lack(self) -> None:
        for tick, result in self.streams.results.items():
            assert not result.named & result.included, (tick, "a named site is included")
            assert result.named <= result.possible, (tick, "a named site was no source")
            lacking = result.certain - result.included
            assert lacking <= result.named, (tick, "a missing site is not named")
