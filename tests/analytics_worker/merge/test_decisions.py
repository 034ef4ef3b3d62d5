"""The presence of the sites of a merge, computed from the merge's decisions."""

import pyarrow as pa
import pytest

from analytics.plan.fragments import StreamLocation
from analytics_worker.merge import decisions
from analytics_worker.merge.decisions import (
    Decision,
    Forgotten,
    Joined,
    Late,
    LateSpan,
    Left,
    Presence,
    SiteDecision,
    _CachedPresence,
    from_rows,
    read_presence,
    row_of,
)
from mistbow.client.agent import AgentClient
from mistbow.streams.schemas import EVENTS


def presence_after(*decided: tuple[int, str, Decision]) -> Presence:
    known = Presence()
    known.apply(SiteDecision(*one) for one in decided)
    return known


def test_site_is_missing_from_its_leaving_to_its_joining() -> None:
    known = presence_after((10, "a", Left()), (12, "b", Left()), (20, "a", Joined()))
    assert [known.missing(tick) for tick in (10, 11, 13, 20, 21)] == [
        (),
        ("a",),
        ("a", "b"),
        ("a", "b"),
        ("b",),
    ]
    assert known.open_gap("a") is None
    assert known.next_change(15) == 20
    assert known.next_change(21) is None


def test_site_neither_leaves_nor_joins_twice() -> None:
    known = presence_after(
        (5, "a", Joined()), (10, "a", Left()), (15, "a", Left()), (20, "a", Joined())
    )
    assert [(gap.after, gap.until) for gap in known.gaps] == [(10, 20)]


def test_gap_has_the_frontier_of_the_site_at_its_joining() -> None:
    known = presence_after(
        (10, "a", Left()), (700, "a", Joined(frontier=20)), (800, "a", Left()), (900, "a", Joined())
    )
    assert [gap.joined_at for gap in known.gaps] == [20, None]


def test_results_lack_a_site_since_its_last_removal_although_it_was_recorded_for_a_later_time() -> (
    None
):
    known = presence_after((20, "a", Left()), (20, "a", Forgotten()))
    assert known.removed_after("a") == 20
    known.apply([SiteDecision(10, "a", Left()), SiteDecision(10, "a", Forgotten())])
    assert known.removed_after("a") == 10
    known.apply([SiteDecision(15, "a", Left()), SiteDecision(18, "a", Joined())])
    assert known.removed_after("a") == 10
    assert known.removed_after("b") == 0


def test_decisions_go_to_rows_and_back() -> None:
    decided = [
        SiteDecision(1, "a", Left()),
        SiteDecision(2, "a", Joined()),
        SiteDecision(2, "a", Joined(frontier=1)),
        SiteDecision(2, "a", Forgotten()),
        SiteDecision(3, "b", Late((LateSpan("p", 1000, 2000, 5000),))),
    ]
    assert list(from_rows(pa.Table.from_batches([row_of(one) for one in decided]))) == decided


def test_presence_is_read_anew_after_the_site_lost_its_store(
    agent: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = StreamLocation("", "decisions/presence-anew")
    known = presence_after((10, "a", Left()))
    read_before_the_loss = {(agent.url, location): _CachedPresence(known, next=1000)}
    monkeypatch.setattr(decisions, "_presences", read_before_the_loss)
    agent.create_stream(location.stream, EVENTS)
    agent.append(location.stream, row_of(SiteDecision(15, "b", Left())))
    assert read_presence(agent, location).missing(20) == ("b",)
    agent.append(location.stream, row_of(SiteDecision(16, "c", Left())))
    assert read_presence(agent, location).missing(20) == ("b", "c")
