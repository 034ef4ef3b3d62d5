"""Pings of live events, by which a client notices that its connection is lost."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import cast

import pytest

from analytics_enabler.api import events as events_module
from analytics_enabler.domains.proxy import DomainProxy
from analytics_enabler.live.events import CursorClock
from analytics_enabler.live.result_hub import ResultHub
from analytics_enabler.live.topic_hub import TopicHub
from analytics_enabler.live.topics import Event
from analytics_enabler.main import create_app
from analytics_enabler.settings import EnablerSettings
from mistbow.auth.callers import Caller
from tests.analytics_enabler.live.reader import reading
from tests.support.http_server import served

PING_S = 0.05


@pytest.fixture(autouse=True)
def _short_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "PING_S", PING_S)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    settings = EnablerSettings(home=tmp_path, agent_url="http://127.0.0.1:9")
    with served(create_app(settings)) as url:
        yield url


def test_idle_stream_sends_pings_at_the_interval_that_it_states(url: str) -> None:
    with reading(url, topics="decisions") as reader:
        hello = reader.next("hello")
        assert hello["ping_s"] == PING_S
        cursor = reader.last_id
        pings = [reader.next("ping")["at"] for _ in range(3)]
        assert hello["at"] <= pings[0] <= pings[1] <= pings[2]
        assert reader.last_id == cursor


class SlowTopic:
    """A topic whose first view takes a time."""

    async def poll(self) -> Sequence[Event]:
        """Wait for several intervals between pings."""
        await asyncio.sleep(6 * PING_S)
        return ()

    def current(self, after: int | None) -> Sequence[Event]:
        """Return the event of the view."""
        del after
        return [("slow", None)]


async def test_client_receives_pings_while_its_topics_are_read() -> None:
    clock = CursorClock()
    hub = TopicHub({"slow": SlowTopic()}, clock)
    no_results, no_domains = cast(ResultHub, None), cast(DomainProxy, None)
    caller = Caller("viewer", frozenset({"read"}))
    stream = events_module._Stream(no_results, hub, clock, no_domains, caller)
    names: list[bytes] = []
    async with aclosing(stream.events(["slow"], [], None)) as events:
        async for event in events:
            names.append(event.partition(b"event: ")[2].partition(b"\n")[0])
            if names[-1] == b"slow":
                break
    assert names[:3] == [b"hello", b"ping", b"ping"]
