"""The journal of an enabler: what it stores at once, and which events are unread."""

from typing import cast

import msgspec
import pytest

from analytics_enabler import journal
from analytics_enabler.journal import EventJournal
from mistbow.client.agent import AsyncAgentClient
from mistbow.errors import FencedError, UnavailableError
from tests.analytics_enabler.stored_events import StoredEvents

EVENTS_OF_SEVERAL_APPENDS = {"a": "12", "b": "12", "c": "12345678901234", "d": "12"}


def journal_over(agent: StoredEvents) -> EventJournal[str]:
    return EventJournal(cast("AsyncAgentClient", agent), "s", msgspec.json.decode)


@pytest.fixture
def agent() -> StoredEvents:
    return StoredEvents()


@pytest.fixture
def short_appends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_APPEND_BYTES", 10)


@pytest.mark.usefixtures("short_appends")
async def test_events_that_are_too_large_for_one_append_are_several(agent: StoredEvents) -> None:
    events = journal_over(agent)
    await events.unread()
    await events.append_all(EVENTS_OF_SEVERAL_APPENDS, 0)
    assert [list(each) for each in agent.appends] == [["a", "b"], ["c"], ["d"]]
    assert len(agent.idempotency_keys) == 3
    assert await events.unread() == []


@pytest.mark.usefixtures("short_appends")
async def test_all_events_are_unread_after_one_of_several_appends_has_failed(
    agent: StoredEvents,
) -> None:
    events = journal_over(agent)
    await events.unread()
    agent.max_appends = 2
    with pytest.raises(UnavailableError):
        await events.append_all(EVENTS_OF_SEVERAL_APPENDS, 0)
    assert await events.unread() == list(EVENTS_OF_SEVERAL_APPENDS.items())[:3]


async def test_stream_is_claimed_and_read_once_while_all_appends_are_answered(
    agent: StoredEvents,
) -> None:
    agent.appends = [{"a": '"1"'}]
    events = journal_over(agent)
    assert not events.is_current
    assert await events.unread() == [("a", "1")]
    await events.append("b", "2", 0)
    assert events.is_current
    assert await events.unread() == []
    assert (agent.claims, agent.reads) == (1, [0])


@pytest.mark.parametrize("is_stored", [True, False])
async def test_append_without_answer_is_unread_if_it_was_stored(
    agent: StoredEvents, is_stored: bool
) -> None:
    events = journal_over(agent)
    await events.unread()
    agent.max_appends, agent.stores_last = 0, is_stored
    with pytest.raises(UnavailableError):
        await events.append("b", "2", 0)
    assert not events.is_current
    agent.max_appends = 2
    assert await events.unread() == ([("b", "2")] if is_stored else [])
    assert events.is_current
    await events.append("c", "3", 0)
    assert agent.reads == [0, 0]


async def test_reclaimed_stream_is_read_from_its_start_with_the_events_of_the_other_enabler(
    agent: StoredEvents,
) -> None:
    events, other = journal_over(agent), journal_over(agent)
    assert not await events.has_lease()
    await events.unread()
    await events.append("a", "1", 0)
    assert await events.has_lease()
    await other.unread()
    await other.append("b", "2", 0)
    assert [await each.has_lease() for each in (events, other)] == [False, True]
    with pytest.raises(FencedError):
        await events.append("c", "3", 0)
    assert events.fenced
    events.reclaim()
    assert not events.fenced
    assert await events.unread() == [("a", "1"), ("b", "2")]
    await events.append("c", "3", 0)
    assert agent.reads == [0, 0, 0]
