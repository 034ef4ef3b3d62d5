"""The presence of the sites of a merge, computed from the merge's decisions."""

from typing import Any

import msgspec
import pyarrow as pa
import pytest
from cachetools import LRUCache
from hypothesis import given
from hypothesis import strategies as st

from analytics.plan.fragments import StreamLocation
from analytics_worker.merge import decisions
from analytics_worker.merge.decisions import (
    CHECKPOINT,
    Checkpoint,
    Decision,
    Forgotten,
    Joined,
    Late,
    LateSpan,
    Left,
    Presence,
    SiteDecision,
    _CachedPresence,
    checkpoint_of,
    from_rows,
    read_presence,
    row_of,
)
from analytics_worker.merge.site_gaps import SiteGap
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
        SiteDecision(2, "a", Forgotten(1, ((0, 1), (2, 2**62)), ((1, 2),))),
        SiteDecision(3, "b", Late((LateSpan("p", 1000, 2000, 5000),))),
    ]
    assert list(from_rows(pa.Table.from_batches([row_of(one) for one in decided]))) == decided


def test_pruned_presence_has_open_gaps_recent_gaps_and_the_last_removal() -> None:
    known = presence_after((1, "a", Left()), (2, "b", Left()), (3, "b", Forgotten()))
    for ts in range(10, 310, 10):
        known.apply([SiteDecision(ts, "b", Left()), SiteDecision(ts + 5, "b", Joined())])
    pruned = known.pruned(before=1000)
    assert [(gap.site, gap.after) for gap in pruned.gaps] == [
        ("a", 1), ("b", 2), *(("b", ts) for ts in range(100, 310, 10))
    ]  # fmt: skip
    assert [gap.after for gap in known.pruned(before=85).gaps if gap.site == "b"][:3] == [2, 80, 90]


_DECISIONS = st.lists(
    st.builds(
        SiteDecision,
        st.integers(1, 50),
        st.sampled_from("ab"),
        st.sampled_from(
            [
                *(Left(), Left(), Left(7), Left(7, ((2, 9),)), Joined(), Joined(5), Joined()),
                *(Forgotten(), Forgotten(4, ((1, 3), (8, 2**62)), ((4, 6),))),
            ]
        ),
    ),
    max_size=40,
)


@given(_DECISIONS, _DECISIONS, st.integers(1, 50))
def test_pruned_presence_equals_the_presence_for_later_ticks(
    first: list[SiteDecision], later: list[SiteDecision], before: int
) -> None:
    known = Presence()
    known.apply(first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decisions, "_RETAINED_GAPS", 3)
        pruned = known.pruned(before)
    for presence in (known, pruned):
        presence.apply(later)
    assert pruned.open_gaps() == known.open_gaps()
    assert pruned.last_gaps == known.last_gaps
    for tick in range(before, 52):
        assert pruned.missing(tick) == known.missing(tick)
        assert pruned.next_change(tick) == known.next_change(tick)
    for site in ("a", "b"):
        assert pruned.removed_after(site) == known.removed_after(site)
        last = [[gap for gap in each.gaps if gap.site == site][-3:] for each in (pruned, known)]
        assert last[0] == last[1]


def test_checkpoint_goes_to_json_and_back() -> None:
    gaps = (
        SiteGap("a", 1, None, 2, 3),
        SiteGap("b", 1, 5, is_removed=True, uncertain=((0, 1), (7, 2**62))),
    )
    checkpoint = Checkpoint(7, gaps)
    attributes = msgspec.json.decode(msgspec.json.encode({CHECKPOINT: checkpoint}))
    assert checkpoint_of(attributes) == checkpoint
    assert checkpoint_of({CHECKPOINT: msgspec.to_builtins(checkpoint)}) == checkpoint
    assert checkpoint_of({}) == checkpoint_of({CHECKPOINT: {"gaps": 1}}) == Checkpoint()


class RecordingClient(AgentClient):
    """A client of an agent that records the positions at which it begins to read."""

    starts: tuple[int, ...] = ()

    def at(self, site: str) -> "RecordingClient":
        del site
        return self

    def read(self, name: str, start: int = 0, end: int | None = None, **named: Any) -> Any:
        self.starts += (start,)
        return super().read(name, start, end, **named)


@pytest.mark.parametrize("is_stored", [True, False])
def test_new_process_reads_only_the_decisions_since_a_checkpoint(
    agent: AgentClient, monkeypatch: pytest.MonkeyPatch, *, is_stored: bool
) -> None:
    location = StreamLocation("", f"decisions/checkpoint-{int(is_stored)}")
    agent.create_stream(location.stream, EVENTS)

    def append(epoch: int, *decided: tuple[int, str, Decision]) -> None:
        rows = pa.Table.from_batches([row_of(SiteDecision(*each)) for each in decided])
        agent.append(location.stream, rows, epoch=epoch)

    append(0, (10, "a", Left()), (20, "a", Joined()), (30, "b", Left()))
    epoch = agent.claim(location.stream).epoch
    head = agent.info(location.stream).head
    checkpoint = Checkpoint(head, tuple(read_presence(agent, location).gaps))
    if is_stored:
        attributes = {CHECKPOINT: msgspec.to_builtins(checkpoint)}
        agent.advance(location.stream, epoch, attributes=attributes)
    append(epoch, (40, "b", Joined()), (50, "a", Left()))
    expected = read_presence(agent, location)

    monkeypatch.setattr(decisions, "_presences", {})
    client = RecordingClient(agent.url)
    assert read_presence(client, location, None if is_stored else checkpoint) == expected
    assert client.starts == (head,)
    client.close()


def test_process_reads_the_presence_of_a_merge_again_after_others(
    agent: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "_presences", LRUCache(1))
    client = RecordingClient(agent.url)
    locations = [StreamLocation("", f"decisions/one-of-many-{number}") for number in range(2)]
    for location in locations:
        agent.create_stream(location.stream, EVENTS)
        agent.append(location.stream, row_of(SiteDecision(10, location.stream, Left())))
    for location in (*locations, locations[1], locations[0]):
        assert read_presence(client, location).missing(20) == (location.stream,)
    assert client.starts == (0, 0, 1, 0)
    client.close()


def test_process_forgets_old_gaps(agent: AgentClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "_MAX_GAPS", 30)
    monkeypatch.setattr(decisions, "RETAINED_MS", 0)
    location = StreamLocation("", "decisions/many")
    agent.create_stream(location.stream, EVENTS)
    decided = [
        SiteDecision(ts + end, "a", Joined() if end else Left())
        for ts in range(10, 410, 10)
        for end in (0, 5)
    ]
    agent.append(location.stream, pa.Table.from_batches([row_of(one) for one in decided]))
    assert [gap.after for gap in read_presence(agent, location).gaps] == list(range(200, 410, 10))


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


def test_checkpoint_of_a_lost_store_is_ignored(agent: AgentClient) -> None:
    location = StreamLocation("", "decisions/checkpoint-lost")
    agent.create_stream(location.stream, EVENTS)
    agent.append(location.stream, row_of(SiteDecision(15, "b", Left())))
    lost = Checkpoint(1000, (SiteGap("a", 10, None),))
    assert read_presence(agent, location, lost).missing(20) == ("b",)
