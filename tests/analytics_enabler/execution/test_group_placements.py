"""The placements of groups, which are stored before they take effect."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from analytics_enabler import journal
from analytics_enabler.execution.group_placements import GroupPlacement, GroupPlacements
from analytics_enabler.groups import Group
from analytics_enabler.journal import EventJournal
from mistbow.client.agent import AsyncAgentClient
from mistbow.errors import UnavailableError
from mistbow.streams.events import events_of
from mistbow.streams.schemas import EVENTS
from tests.analytics_enabler.support import MemoryJournal

PLACEMENTS = [
    GroupPlacement(group=Group(scope=site, scheduler="fair"), sites=(site,), nodes={"whole": "w1"})
    for site in "abc"
]
MOVED = [each.placed_on({"whole": "w2"}, 7) for each in PLACEMENTS]


class Journal(MemoryJournal):
    """A journal that stores each append, but may then fail to answer."""

    def __init__(self) -> None:
        super().__init__()
        self.appends: list[Mapping[str, Any]] = []
        self.answers = True

    async def append_all(self, events: Mapping[str, Any], at: int) -> None:
        """Store events."""
        self.appends.append(events)
        if not self.answers:
            self._unread = list(events.items())
            raise UnavailableError("no answer")


def by_id(placements: list[GroupPlacement]) -> dict[str, GroupPlacement]:
    return {each.group.id: each for each in placements}


async def test_changed_placements_of_all_groups_are_one_append() -> None:
    journal = Journal()
    placements = GroupPlacements(cast("Any", journal), lambda: 7)
    await placements.store(PLACEMENTS)
    await placements.store(PLACEMENTS)
    await placements.store([MOVED[0], MOVED[1], PLACEMENTS[2]])
    await placements.replace([MOVED[0], MOVED[2]])
    assert journal.appends == [
        by_id(PLACEMENTS),
        by_id(MOVED[:2]),
        {MOVED[1].group.id: None, MOVED[2].group.id: MOVED[2]},
    ]
    assert by_id(placements.all()) == by_id([MOVED[0], MOVED[2]])


async def test_append_without_answer_takes_no_effect_until_it_was_read() -> None:
    journal = Journal()
    placements = GroupPlacements(cast("Any", journal), lambda: 7)
    await placements.store(PLACEMENTS)
    await placements.refresh()
    journal.answers = False
    with pytest.raises(UnavailableError):
        await placements.store(MOVED)
    assert by_id(placements.all()) == by_id(PLACEMENTS)
    await placements.refresh()
    assert by_id(placements.all()) == by_id(MOVED)


class RecordingAgent:
    """An agent that stores the keys of the events of each append, up to ``max_appends``."""

    def __init__(self, max_appends: int) -> None:
        self.keys: list[list[str]] = []
        self.idempotency_keys: set[str] = set()
        self.read_from: list[int] = []
        self._max_appends = max_appends

    async def create_stream(self, *_: Any) -> None:
        """Accept a stream."""

    async def claim(self, _stream: str) -> Any:
        """Return the first epoch."""
        return SimpleNamespace(epoch=1)

    async def info(self, _stream: str) -> Any:
        """Return the attributes of a claimed stream."""
        return SimpleNamespace(epoch=1, attributes={"generation": 1})

    async def read(self, _stream: str, position: int) -> Any:
        """Record the position of a read; return no rows."""
        self.read_from.append(position)
        table = pa.Table.from_batches([], schema=EVENTS)
        return SimpleNamespace(table=table, position=SimpleNamespace(next=position))

    async def append(self, _stream: str, rows: Any, *, epoch: Any, idempotency_key: str) -> Any:
        """Record an append."""
        if len(self.keys) == self._max_appends:
            raise UnavailableError("no answer")
        self.keys.append([key for _, key, _ in events_of(rows)])
        self.idempotency_keys.add(idempotency_key)
        return SimpleNamespace(next=sum(map(len, self.keys)))


EVENTS_OF_SEVERAL_APPENDS = {"a": "12", "b": "12", "c": "12345678901234", "d": "12"}


@pytest.fixture
def short_appends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_APPEND_BYTES", 10)


@pytest.mark.usefixtures("short_appends")
async def test_events_that_are_too_large_for_one_append_are_several() -> None:
    agent = RecordingAgent(max_appends=3)
    events = EventJournal(cast("AsyncAgentClient", agent), "s", str)
    await events.append_all(EVENTS_OF_SEVERAL_APPENDS, 0)
    assert agent.keys == [["a", "b"], ["c"], ["d"]]
    assert len(agent.idempotency_keys) == 3
    await events.unread()
    assert agent.read_from == [4]


@pytest.mark.usefixtures("short_appends")
async def test_all_events_are_unread_after_one_of_several_appends_has_failed() -> None:
    agent = RecordingAgent(max_appends=2)
    events = EventJournal(cast("AsyncAgentClient", agent), "s", str)
    with pytest.raises(UnavailableError):
        await events.append_all(EVENTS_OF_SEVERAL_APPENDS, 0)
    await events.unread()
    assert agent.read_from == [0]
