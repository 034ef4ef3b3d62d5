"""The watcher of a merge's sites while the site with the decisions does not answer."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pyarrow as pa
import pytest

from analytics.plan.fragments import StreamLocation
from analytics_worker.merge.decisions import Left, SiteDecision, from_rows, row_of
from analytics_worker.merge.merge_frontier import SiteProgress
from analytics_worker.query_lease import QueryLease
from analytics_worker.spark import site_watcher
from analytics_worker.spark.panes_options import PanesOptions
from analytics_worker.spark.site_watcher import SiteWatcher
from mistbow.errors import UnavailableError
from mistbow.streams.schemas import EVENTS

PROMISE = 6000
BEHIND = {"a": SiteProgress(9, 8000), "b": SiteProgress(7, 5000)}
"""The site b has not reached the promise."""


@dataclass
class FakeAgent:
    """An agent in memory with a stream of decisions.

    ``read_s``: the duration of a read (s). ``refusal_s``: the time (s) after which a read-only
    agent refuses a request. ``now``: the time (s).
    """

    url: str
    decisions: tuple[SiteDecision, ...] = ()
    is_silent: bool = False
    is_read_only: bool = False
    read_s: float = 0.0
    refusal_s: float = 0.5
    now: float = 100.0

    def at(self, site: str) -> "FakeAgent":
        del site
        return self

    def read(self, stream: str, start: int) -> Any:
        del stream
        if self.is_silent:
            self.now += 0.5
            raise UnavailableError("the site cloud does not answer")
        self.now += self.read_s
        rows = [row_of(each) for each in self.decisions[start:]]
        table = pa.Table.from_batches(rows, EVENTS)
        return SimpleNamespace(table=table, position=SimpleNamespace(next=len(self.decisions)))

    def info(self, stream: str) -> Any:
        del stream
        self._check_writable()
        return SimpleNamespace(attributes={"decides": "f"})

    def append(self, stream: str, rows: pa.RecordBatch, *, epoch: int) -> None:
        del stream, epoch
        self._check_writable()
        self.decisions += tuple(from_rows(pa.Table.from_batches([rows])))

    def _check_writable(self) -> None:
        if self.is_read_only:
            self.now += self.refusal_s
            raise UnavailableError("the site cloud stores nothing")


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> FakeAgent:
    # The process caches the decisions of each agent.
    agent = FakeAgent(f"http://{request.node.name}")
    monkeypatch.setattr(site_watcher, "agent_client", lambda *_: agent)
    return agent


@pytest.fixture
def watcher(agent: FakeAgent, tmp_path: Path) -> SiteWatcher:
    decisions, target = (StreamLocation("cloud", name) for name in ("decisions/q", "results/q"))
    lease = QueryLease.create(agent.url, target, tmp_path)
    lease.grant({decisions.stream: 1})
    options = {
        "url": agent.url,
        "sources": "[]",
        "panes": "[]",
        "patience": "5000",
        "decisions": msgspec.json.encode(decisions).decode(),
        "target": msgspec.json.encode(target).decode(),
        "lease": msgspec.json.encode(lease).decode(),
        "fingerprint": "f",
    }
    return SiteWatcher(PanesOptions.parse(options), {}, lambda: agent.now)


def test_no_tick_is_closed_until_the_decisions_are_read_again(
    agent: FakeAgent, watcher: SiteWatcher
) -> None:
    assert watcher.frontier(BEHIND, PROMISE) == 5000
    agent.is_silent = True
    caught_up = {"a": SiteProgress(9, 8000), "b": SiteProgress(8, 7000)}
    assert [watcher.frontier(caught_up, PROMISE) for _ in range(3)] == [-1, -1, -1]
    # Meanwhile, another query of the group has decided.
    agent.is_silent = False
    agent.decisions = (SiteDecision(5000, "b", Left()),)
    assert watcher.frontier(caught_up, PROMISE) == 8000
    assert watcher.absent(PROMISE) == ("b",)


def test_watcher_raises_the_error_of_a_long_outage_of_the_decisions(
    agent: FakeAgent, watcher: SiteWatcher
) -> None:
    for _ in range(2):
        agent.is_silent = True
        assert {watcher.frontier(BEHIND, PROMISE) for _ in range(20)} == {-1}
        with pytest.raises(UnavailableError, match="cloud does not answer"):
            watcher.frontier(BEHIND, PROMISE)
        # An answer ends the outage.
        agent.is_silent = False
        assert watcher.frontier(BEHIND, PROMISE) == 5000


def test_site_leaves_when_the_decision_can_be_stored_again(
    agent: FakeAgent, watcher: SiteWatcher
) -> None:
    watcher.frontier(BEHIND, PROMISE)
    agent.now += 5.1
    agent.is_read_only = True
    assert {watcher.frontier(BEHIND, PROMISE) for _ in range(20)} == {-1}
    agent.is_read_only = False
    assert watcher.frontier(BEHIND, PROMISE) == 8000
    assert [each.site for each in agent.decisions] == ["b"]


def test_watcher_raises_the_error_of_decisions_that_cannot_be_stored_for_long(
    agent: FakeAgent, watcher: SiteWatcher
) -> None:
    watcher.frontier(BEHIND, PROMISE)
    agent.now += 5.1
    agent.is_read_only = True
    while agent.now < 115.6:
        assert watcher.frontier(BEHIND, PROMISE) == -1
    with pytest.raises(UnavailableError, match="stores nothing"):
        watcher.frontier(BEHIND, PROMISE)


def test_site_of_a_dead_worker_leaves_sooner_once_for_each_order(
    agent: FakeAgent, watcher: SiteWatcher
) -> None:
    lease = watcher._options.lease
    assert lease is not None
    lease.note_orphaned_sites({"b": 7, "unknown": 7})
    assert watcher.frontier(BEHIND, PROMISE) == 5000
    # The next worker writes panes, and dies.
    moved = BEHIND | {"b": SiteProgress(8, 5500)}
    assert watcher.frontier(moved, PROMISE) == 5500
    agent.now += 2.1
    assert watcher.frontier(moved, PROMISE) == 5500
    lease.note_orphaned_sites({"b": 8})
    assert watcher.frontier(moved, PROMISE) == 8000
    assert [each.site for each in agent.decisions] == ["b"]


def test_sites_do_not_leave_because_the_decisions_could_not_be_read(
    agent: FakeAgent, watcher: SiteWatcher
) -> None:
    def leaving() -> list[str]:
        decided = watcher.merge.decide(BEHIND, watcher.presence, PROMISE, round(agent.now * 1000))
        return [each.site for each in decided]

    watcher.frontier(BEHIND, PROMISE)
    agent.is_silent = True
    while agent.now < 109:
        watcher.frontier(BEHIND, PROMISE)
    agent.is_silent = False
    watcher.frontier(BEHIND, PROMISE)
    assert leaving() == []
    agent.now += 5.1
    assert leaving() == ["b"]


def test_sites_do_not_leave_because_the_decisions_were_read_late(
    agent: FakeAgent, watcher: SiteWatcher
) -> None:
    watcher.frontier(BEHIND, PROMISE)
    agent.read_s = 6.0
    watcher.frontier(BEHIND, PROMISE)
    assert not watcher.merge.decide(BEHIND, watcher.presence, PROMISE, round(agent.now * 1000))


def test_sites_do_not_leave_because_decisions_were_refused_late(
    agent: FakeAgent, watcher: SiteWatcher
) -> None:
    watcher.frontier(BEHIND, PROMISE)
    agent.now += 5.1
    agent.is_read_only, agent.refusal_s = True, 6.0
    watcher.frontier(BEHIND, PROMISE)
    agent.now -= 5.1
    assert not watcher.merge.decide(BEHIND, watcher.presence, PROMISE, round(agent.now * 1000))


def test_watcher_waits_for_present_sites_only(agent: FakeAgent, watcher: SiteWatcher) -> None:
    agent.decisions = (SiteDecision(5000, "b", Left()),)
    listeners = {site: SimpleNamespace(progress=one, error=None) for site, one in BEHIND.items()}
    watcher._listeners = cast("Any", listeners)
    watcher.frontier(BEHIND, PROMISE)
    began = time.monotonic()
    assert watcher.progress(10.0, PROMISE) == BEHIND
    assert time.monotonic() < began + 5.0


@pytest.mark.parametrize(("has_left", "unsought"), [(True, ()), (False, ("b",))])
def test_first_micro_batch_waits_neither_for_sites_that_have_left_nor_for_unreachable_sites(
    agent: FakeAgent, watcher: SiteWatcher, has_left: bool, unsought: tuple[str, ...]
) -> None:
    if has_left:
        agent.decisions = (SiteDecision(5000, "b", Left()),)
    listeners = {site: SimpleNamespace(progress=one, error=None) for site, one in BEHIND.items()}
    watcher._listeners = cast("Any", listeners)
    watcher._options = replace(watcher._options, unsought=frozenset(unsought))
    began = time.monotonic()
    assert watcher.first(10.0, PROMISE)[0] == BEHIND
    assert time.monotonic() < began + 5.0


@pytest.mark.parametrize(("is_lost", "frontier"), [(False, 8000), (True, 5000)])
def test_first_micro_batch_waits_until_a_silent_site_has_left_unless_its_rows_cannot_be_read(
    agent: FakeAgent, watcher: SiteWatcher, is_lost: bool, frontier: int
) -> None:
    lease = watcher._options.lease
    assert lease is not None
    lease.note_orphaned_sites({"b": 7})
    listeners = {
        site: SimpleNamespace(progress=one, error=None, is_unreachable=is_lost and site == "b")
        for site, one in BEHIND.items()
    }
    watcher._listeners = cast("Any", listeners)
    agent.read_s = 0.9
    began = time.monotonic()
    assert watcher.first(30.0, 5000) == (BEHIND, frontier)
    assert time.monotonic() - began < 15
    assert [each.site for each in agent.decisions] == ["b"]
    assert watcher.absent(PROMISE) == ("b",)
