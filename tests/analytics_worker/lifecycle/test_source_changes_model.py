"""The decisions about the sites of a merge, over random changes of its sources.

The model stores for each tick from which sites the tick's result was computed. Queries compute
results, and correctors correct them, with the plain classes that decide about sites.
"""

import uuid
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from analytics.plan.fragments import Merge
from analytics_worker.late_data.last_gaps import LastGaps, read_last_gaps
from analytics_worker.lifecycle.runner_state import RunnerProgress
from analytics_worker.lifecycle.source_changes import SourceChanges
from analytics_worker.lifecycle.start import gap_of_new_site
from analytics_worker.lifecycle.target_writer import TargetWriter, describe_insights
from analytics_worker.merge.decisions import (
    Decision,
    Joined,
    Left,
    Presence,
    SiteDecision,
    from_rows,
    read_presence,
    row_of,
)
from mistbow.client.agent import AgentClient
from tests.analytics_worker.lifecycle.test_source_changes import merge_of

SITES = "bc"
"""The sites that are sources at times; the site ``a`` always is."""

_ALWAYS = "a"


@dataclass
class Streams:
    """An agent in memory with the target and the decisions of a merge."""

    url: str
    rows: list[SiteDecision] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)

    def at(self, site: str) -> "Streams":
        del site
        return self

    def info(self, name: str) -> Any:
        return SimpleNamespace(attributes={} if name.startswith("decisions") else self.attributes)

    def claim(self, name: str) -> Any:
        del name
        return SimpleNamespace(epoch=1)

    def advance(self, name: str, epoch: int, *, attributes: dict[str, Any], **_: Any) -> Any:
        del name, epoch
        self.attributes |= attributes
        return SimpleNamespace(head=0, bytes=0)

    def append(self, name: str, rows: pa.Table, *, epoch: int) -> None:
        del name, epoch
        self.rows += from_rows(rows)

    def read(self, name: str, start: int) -> Any:
        del name
        batches = [row_of(each) for each in self.rows[start:]]
        table = pa.Table.from_batches(batches, row_of(SiteDecision(0, "", Left())).schema)
        return SimpleNamespace(table=table, position=SimpleNamespace(next=len(self.rows)))


@dataclass
class Candidate:
    """A query that catches up; ``is_elsewhere``: on another worker than the active query."""

    fragment: Merge
    is_elsewhere: bool


class SourceChangesModel(RuleBasedStateMachine):
    """A merge whose sources leave, join, are added and are removed."""

    def __init__(self) -> None:
        super().__init__()
        self.group = uuid.uuid4().hex
        self.streams = Streams(url=self.group)
        self.agent = cast("AgentClient", self.streams)
        self.changes = self.new_changes()
        self.active = merge_of(self.group, _ALWAYS, *SITES)
        self.candidate: Candidate | None = None
        self.tick = 0
        self.results: dict[int, frozenset[str]] = {}
        self.in_force = set(self.sources)
        self.early: set[tuple[int, str]] = set()
        self.changes.begin(self.active, 0)
        self.streams.attributes |= describe_insights(self.active) | {"decided": 0}
        self.settle()

    def new_changes(self) -> SourceChanges:
        return SourceChanges(self.agent, TargetWriter(self.agent))

    @property
    def sources(self) -> set[str]:
        return {source.data_site for source in self.active.sources}

    @property
    def presence(self) -> Presence:
        return read_presence(self.agent, self.active.decisions)

    @property
    def gaps(self) -> LastGaps:
        return read_last_gaps(self.agent, self.active)

    def settle(self) -> None:
        candidate = None if self.candidate is None or self.candidate.is_elsewhere else 1
        query = SimpleNamespace(fragment=self.active)
        progress = SimpleNamespace(active=query, candidate=candidate)
        self.changes.settle(cast("RunnerProgress", progress))

    def decide(self, time: int, site: str, decision: Decision) -> None:
        self.streams.rows.append(SiteDecision(time, site, decision))

    def is_missing(self, site: str) -> bool:
        return self.presence.open_gap(site) is not None

    @rule(ticks=st.integers(1, 3))
    def write_results(self, ticks: int) -> None:
        for _ in range(ticks):
            self.tick += 1
            missing = self.presence.missing(self.tick)
            self.results[self.tick] = frozenset(self.sources.difference(missing))

    @rule(site=st.sampled_from(SITES))
    def leave(self, site: str) -> None:
        # If a site left before the tick at which it joins, its gaps would overlap. Then ticks in
        # both gaps count as uncorrected until both are corrected.
        gap = self.presence.last_gaps.get(site)
        is_present = gap is None or (gap.until is not None and gap.until <= self.tick)
        if site in self.sources and is_present:
            self.decide(self.tick, site, Left())

    @rule(site=st.sampled_from(SITES), ahead=st.integers(0, 2))
    def join(self, site: str, ahead: int) -> None:
        # A site joins later than ever before, since it joins ahead of the clock.
        times = [gap.until for gap in self.presence.gaps if gap.until is not None]
        if site in self.sources and self.is_missing(site) and self.tick + ahead not in times:
            self.decide(self.tick + ahead, site, Joined())

    @rule(number=st.integers(1, 8))
    def correct_gaps(self, number: int) -> None:
        """Process decisions: correct the ticks in gaps that have ended."""
        first: int = self.streams.attributes["decided"]
        presence, gaps = Presence(), self.gaps
        presence.apply(self.streams.rows[:first])
        for one in self.streams.rows[first : first + number]:
            gap = presence.open_gap(one.site)
            if isinstance(one.decision, Joined) and gap is not None:
                if one.ts > self.tick:
                    break
                for tick in range(gap.after + 1, one.ts + 1):
                    self.correct(tick, one.site, gaps)
            presence.apply([one])
            self.streams.attributes["decided"] += 1

    def correct(self, tick: int, joined: str, gaps: LastGaps) -> None:
        if gaps.removed(tick):
            # The result stays as it is, also if other sites are read again.
            self.results.pop(tick, None)
        elif (before := self.results.get(tick)) is not None:
            self.results[tick] = after = frozenset(self.sources - gaps.absent(tick))
            # The join of another site, too, will correct the tick.
            self.early |= {(tick, site) for site in after - before - {joined}}

    @precondition(lambda self: self.candidate is None)
    @rule(sites=st.sets(st.sampled_from(SITES)), is_elsewhere=st.booleans())
    def start(self, sites: Set[str], is_elsewhere: bool) -> None:
        fragment = merge_of(self.group, _ALWAYS, *sorted(sites))
        self.candidate = Candidate(fragment, is_elsewhere)
        for site in sorted(sites - set(self.streams.attributes["sites"])):
            for decision in gap_of_new_site(self.presence, site, self.tick):
                self.streams.rows.append(decision)

    @precondition(lambda self: self.candidate is not None)
    @rule(is_begun=st.booleans())
    def withdraw(self, is_begun: bool) -> None:
        """Withdraw the candidate; ``is_begun``: after an attempt to take over."""
        candidate, self.candidate = self.candidate, None
        assert candidate is not None
        if candidate.is_elsewhere:
            return
        if is_begun:
            self.changes.begin(candidate.fragment, self.tick)
        self.changes.reopen()
        self.settle()

    @precondition(lambda self: self.candidate is not None)
    @rule(attempts=st.integers(1, 2), during=st.data())
    def take_over(self, attempts: int, during: st.DataObject) -> None:
        candidate = self.candidate
        assert candidate is not None
        if candidate.is_elsewhere:
            self.changes = self.new_changes()
        for _ in range(attempts):
            self.changes.begin(candidate.fragment, self.tick)
            if during.draw(st.booleans()) and not candidate.is_elsewhere:
                self.write_results(1)
                self.decide_about_sites(during)
        self.changes.begin(candidate.fragment, self.tick)
        if not candidate.is_elsewhere:
            self.decide_about_sites(during)
        self.streams.attributes |= describe_insights(candidate.fragment)
        self.candidate, self.active = None, candidate.fragment
        self.in_force |= self.sources
        self.settle()

    def decide_about_sites(self, during: st.DataObject) -> None:
        """Let the query of the former fragment decide that sites leave or join."""
        for site in SITES:
            change = during.draw(st.sampled_from(("none", "leaves", "joins")))
            if change == "leaves":
                self.leave(site)
            elif change == "joins":
                self.join(site, 0)

    @invariant()
    def corrections_are_right(self) -> None:
        """No correction omits or loses points without naming their site."""
        gaps = self.gaps
        for tick, sites in self.results.items():
            removed, absent = gaps.removed(tick), gaps.absent(tick)
            others = frozenset(SITES) - self.sources
            assert removed == sites & others - absent, (tick, "the results of removed sites")
            assert absent <= self.in_force, (tick, "the site was never a source")
            included = {site for site in sites if (tick, site) not in self.early}
            assert not absent & included & others, (tick, "the result includes this site")
            lacking = self.sources - sites
            assert lacking <= absent | set(self.uncorrected(tick)), (tick, "the result lacks these")

    def uncorrected(self, tick: int) -> Iterator[str]:
        """Yield the sites whose join is yet to correct a tick."""
        first: int = self.streams.attributes["decided"]
        presence = Presence()
        for number, one in enumerate(self.streams.rows):
            gap = presence.open_gap(one.site)
            joins = isinstance(one.decision, Joined) and gap is not None and number >= first
            if joins and gap is not None and gap.after < tick <= one.ts:
                yield one.site
            presence.apply([one])


TestSourceChanges = SourceChangesModel.TestCase
TestSourceChanges.settings = settings(max_examples=60, stateful_step_count=25)
