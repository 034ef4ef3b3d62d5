"""Clients of live events that resume: the connection may break at each of the missed events."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa
import pytest
from msgspec.structs import replace

from analytics_enabler.api import events as events_module
from analytics_enabler.deployments.model import Deployment
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.domains.proxy import DomainProxy
from analytics_enabler.groups import Group
from analytics_enabler.live import result_hub
from analytics_enabler.live.events import MAX_QUEUED_EVENTS, CursorClock, EventQueue, encode_event
from analytics_enabler.live.result_hub import LiveResult, ResultHub, ResultSubscriber, _Feed
from analytics_enabler.live.topic_hub import TopicHub
from analytics_enabler.live.topics import Event
from analytics_enabler.results.cursor import Cursor, Since
from analytics_enabler.results.reader import ResultReader
from analytics_enabler.results.selection import ResultSelection
from analytics_enabler.results.streams import (
    ResultStreams,
    SiteUnreachableError,
    TooManyRowsError,
)
from mistbow.auth.callers import FOG
from mistbow.errors import NotFoundError
from mistbow.runtime.tasks import cancel_and_wait
from mistbow.streams.schemas import RESULT_ROWS
from tests.analytics_enabler.support import deployment

AFTER, NOW = 500, 9000
"""The cursor of the client, and the time at which it resumes."""

QUERIES = "a = COMPUTE AVG(x) EVERY 1 s"


@dataclass
class FixedDeployments:
    """Deployments that do not change."""

    deployments: dict[str, Deployment] = field(default_factory=dict)

    def find(self, deployment_id: str) -> Deployment:
        """Return a deployment."""
        try:
            return self.deployments[deployment_id]
        except KeyError:
            raise NotFoundError(f"there is no deployment {deployment_id}") from None


@dataclass
class Scene:
    """A hub of results whose followers have read results already."""

    streams: Any = None
    deployments: FixedDeployments = field(default_factory=FixedDeployments)

    def __post_init__(self) -> None:
        self.clock = CursorClock(lambda: NOW)
        deployments = cast(Deployments, self.deployments)
        streams, reader = cast(ResultStreams, self.streams), cast(ResultReader, None)
        self.hub = ResultHub(deployments, reader, streams, self.clock)

    def follow(self, name: str, count: int, *, began_at: int = 0, size: int = 0) -> _Feed:
        """Add the feed of a deployment with recent results, which fill ``size`` bytes each."""
        self.deployments.deployments[name] = deployment(QUERIES, deployment_id=name)
        feed = self.hub._feeds[name] = _Feed(name, began_at=began_at)
        feed.ready.set()
        for number in range(count):
            row = {"deployment_id": name, "insight": "a", "ts": number, "fill": ""}
            row["fill"] = "x" * (size - len(json.dumps(row)))
            feed.recent.append(LiveResult(AFTER + number, "a", None, json.dumps(row).encode()))
        return feed

    async def resume(self, *names: str, after: int = AFTER) -> EventQueue:
        """Return the queue of a client that resumes, with the events that it has missed."""
        queue = EventQueue()
        for name in names:
            await self.hub.subscribe(ResultSubscriber(queue, None, FOG), name, after)
        queue.release()
        return queue


@dataclass(frozen=True)
class ReceivedEvent:
    """An event as the client decodes it."""

    name: str
    cursor: int
    data: Any

    @property
    def results(self) -> set[tuple[str, int]]:
        """The results of the event: (deployment, time)."""
        rows = {"result": [self.data], "results": self.data.get("results")}.get(self.name, [])
        return {(row["deployment_id"], row["ts"]) for row in rows}


def decoded(text: bytes) -> list[ReceivedEvent]:
    found = []
    for block in text.split(b"\n\n")[:-1]:
        parts = dict(line.split(b": ", 1) for line in block.split(b"\n"))
        if b"id" in parts:
            data = json.loads(parts[b"data"])
            found.append(ReceivedEvent(parts[b"event"].decode(), int(parts[b"id"]), data))
    return found


async def received(queue: EventQueue) -> list[ReceivedEvent]:
    return decoded(await queue.get(1) or b"")


async def test_connection_that_breaks_at_any_missed_event_loses_no_result() -> None:
    scene = Scene()
    scene.follow("d-1", 600)
    scene.follow("d-2", 3)
    events = await received(await scene.resume("d-1", "d-2"))
    assert len(events) == 3
    for number in range(1, len(events) + 1):
        before = events[:number]
        again = await received(await scene.resume("d-1", "d-2", after=before[-1].cursor))
        assert len(set().union(*(each.results for each in [*before, *again]))) == 603


@dataclass
class StoredResults:
    """Two streams of results: one cannot be read, the other has one result with the time 7."""

    unreadable: str | None
    error: Exception
    after: int = AFTER

    async def computed_since(
        self, group: Group, selection: ResultSelection, since: Since
    ) -> pa.Table:
        """Return the stored result of a group, or raise the error."""
        assert since.time == self.after
        if group.scope == self.unreadable:
            raise self.error
        [uid] = selection.generations
        row = {"insight": uid, "key": "{}", "ts": 7, "value": 1.0, "revision": 0, "computed_at": 8}
        return pa.Table.from_pylist([row], schema=RESULT_ROWS)


def at_two_places(name: str) -> Deployment:
    """Return a deployment whose insight ``b`` is stored at the site ``edge``."""
    both = deployment(f"{QUERIES}; b = COMPUTE MAX(x) EVERY 1 s", deployment_id=name)
    one, other = both.generations
    return replace(both, generations=(one, replace(other, scope="edge")))


async def test_unreachable_site_is_a_gap_and_other_results_are_sent() -> None:
    scene = Scene(StoredResults("edge", SiteUnreachableError("edge")))
    scene.follow("d-1", 0, began_at=AFTER + 1)
    scene.deployments.deployments["d-1"] = at_two_places("d-1")
    scene.follow("d-2", 3)
    found = await received(await scene.resume("d-1", "d-2"))
    names = [(each.name, each.cursor) for each in found]
    assert names == [("result", AFTER), ("gap", AFTER), ("results", AFTER)]
    assert found[0].results == {("d-1", 7)}
    assert found[1].data == {"deployment_id": "d-1", "since": AFTER}


async def test_too_many_stored_results_are_a_gap() -> None:
    scene = Scene(StoredResults(None, TooManyRowsError()))
    scene.follow("d-1", 0, began_at=AFTER + 1)
    [gap] = await received(await scene.resume("d-1"))
    assert (gap.name, gap.cursor) == ("gap", AFTER)


@pytest.mark.parametrize(
    ("missed", "names"),
    [
        ({"d-1": 20_000}, ["gap"]),
        ({"d-1": 5_000, "d-2": 5_000, "d-3": 400, "d-4": 0}, ["results"] * 10 + ["gap", "results"]),
    ],
)
async def test_missed_results_above_the_size_of_the_queue_are_a_gap(
    missed: dict[str, int], names: list[str]
) -> None:
    scene = Scene()
    for name, count in missed.items():
        scene.follow(name, count, size=900)
    queue = await scene.resume(*missed)
    queue.put(encode_event("new", b"null", NOW))
    assert not queue.is_closed
    found = await received(queue)
    assert [each.name for each in found] == [*names, "new"]
    assert found[-1].cursor == NOW


async def test_batch_above_the_size_of_the_queue_is_sent_in_parts_and_resumed() -> None:
    scene = Scene()
    feed = scene.follow("d-1", 0)
    queue = await scene.resume("d-1")
    scene.follow("d-2", 20_000, size=900)
    batch = list(scene.hub._feeds["d-2"].recent)
    scene.hub._broadcast(feed, batch)
    found = await received(queue)
    assert {each.name for each in found} == {"results"}
    assert await queue.get(1) is None
    again = await received(await scene.resume("d-1", after=found[-1].cursor))
    assert [(each.name, each.data["since"]) for each in again] == [("gap", NOW)]


@pytest.mark.parametrize(("count", "after"), [(3, NOW), (2, AFTER + 1)])
async def test_client_resumes_from_stored_results_before_the_recent_ones(
    monkeypatch: pytest.MonkeyPatch, count: int, after: int
) -> None:
    monkeypatch.setattr(result_hub, "MAX_RECENT", 2)
    scene = Scene(StoredResults("edge", TooManyRowsError(), after))
    feed = scene.follow("d-1", 2)
    scene.hub._broadcast(feed, [LiveResult(NOW, "a", None, b"{}")] * count)
    [stored] = await received(await scene.resume("d-1", after=after))
    assert stored.results == {("d-1", 7)}


@dataclass(frozen=True)
class FixedTopic:
    """A topic with a view of several events, such as the decisions since a time."""

    count: int = 3

    async def poll(self) -> Sequence[Event]:
        """Return no change."""
        return ()

    def current(self, after: int | None) -> Sequence[Event]:
        """Return the events of the view."""
        return [("decision", number) for number in range(self.count)]


async def test_last_event_of_the_views_advances_the_cursor_of_a_client() -> None:
    hub = TopicHub({"decisions": FixedTopic(), "more": FixedTopic()}, CursorClock(lambda: NOW))
    for after, cursors in [(AFTER, [AFTER] * 5 + [800]), (None, [800] * 6)]:
        queue = EventQueue()
        await hub.subscribe(queue, ["decisions", "more"], after, 800)
        assert [each.cursor for each in await received(queue)] == cursors


async def test_view_of_more_events_than_the_queue_has_is_sent_to_a_client() -> None:
    count = MAX_QUEUED_EVENTS + 1
    queue = EventQueue()
    hub = TopicHub({"states": FixedTopic(count), "none": FixedTopic(0)}, CursorClock(lambda: NOW))
    await hub.subscribe(queue, ["states", "none"], None, NOW)
    assert not queue.is_closed
    assert len(await received(queue)) == count


class LoneDomain:
    """The proxy of an enabler that knows no other domain."""

    async def owner(self, deployment_id: str) -> None:
        """Return no owner."""


async def test_problem_of_an_insight_keeps_the_cursor_of_a_client_that_resumes() -> None:
    scene = Scene()
    scene.follow("d-1", 3)
    proxy = cast(DomainProxy, LoneDomain())
    hub = TopicHub({"decisions": FixedTopic()}, scene.clock)
    stream = events_module._Stream(scene.hub, hub, scene.clock, proxy, FOG)
    found: list[ReceivedEvent] = []
    async with aclosing(stream.events(["decisions"], ["d-none", "d-1"], AFTER)) as events:
        async for part in events:
            found += decoded(part)
            if found:
                break
    cursors = [(each.name, each.cursor) for each in found]
    assert cursors == [("problem", AFTER), ("results", AFTER)] + [("decision", AFTER)] * 2 + [
        ("decision", NOW)
    ]


class BlockedReader:
    """A reader of results whose first read does not end, because an agent does not answer."""

    def __init__(self) -> None:
        self.is_asked = asyncio.Event()
        self.is_cancelled = asyncio.Event()

    async def end(self, _selection: ResultSelection) -> Cursor:
        """Wait without end."""
        self.is_asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.is_cancelled.set()
        return Cursor("", {})


async def test_follower_ends_if_its_clients_disconnect_before_its_first_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(result_hub, "IDLE_S", 0.0)
    reader = BlockedReader()
    deployments = FixedDeployments({"d-1": deployment(QUERIES, deployment_id="d-1")})
    blocked, nothing = cast(ResultReader, reader), cast(ResultStreams, None)
    hub = ResultHub(cast(Deployments, deployments), blocked, nothing, CursorClock(lambda: NOW))

    def subscribing() -> asyncio.Task[None]:
        subscriber = ResultSubscriber(EventQueue(), None, FOG)
        return asyncio.create_task(hub.subscribe(subscriber, "d-1", None))

    first, second = subscribing(), subscribing()
    await reader.is_asked.wait()
    await cancel_and_wait([first])
    # The second client waits still: a timer of 0 s is due at the next step.
    for _ in range(3):
        await asyncio.sleep(0)
    assert not reader.is_cancelled.is_set()
    await cancel_and_wait([second])
    async with asyncio.timeout(5):
        await reader.is_cancelled.wait()
    assert hub._feeds == {}
