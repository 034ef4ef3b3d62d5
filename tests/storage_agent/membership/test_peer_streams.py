"""Subscriptions to the streams of a peer that is sometimes unreachable."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest
from structlog.testing import capture_logs

from mistbow.errors import UnavailableError
from mistbow.runtime.periodic import PeriodicTask
from storage_agent.membership import peer_streams
from storage_agent.membership.peer_streams import follow_while_reachable
from storage_agent.membership.peers import Peers


class SwitchedPeers:
    """Peers whose reachability the test sets."""

    def __init__(self) -> None:
        self.is_reachable = True
        self.change = asyncio.Event()

    def changed(self) -> asyncio.Event:
        return self.change

    def reachable(self, site: str) -> bool:
        del site
        return self.is_reachable

    def switch(self, *, is_reachable: bool) -> None:
        self.is_reachable = is_reachable
        former, self.change = self.change, asyncio.Event()
        former.set()


async def test_follow_recovers_only_after_a_follow_and_not_while_the_site_is_unreachable() -> None:
    peers = SwitchedPeers()
    failed, followed = asyncio.Event(), asyncio.Event()

    async def follow_once(_on_chunk: Callable[[], None]) -> None:
        if not failed.is_set():
            peers.switch(is_reachable=False)
            failed.set()
            raise ValueError("a defect")
        followed.set()
        await asyncio.Event().wait()

    with capture_logs() as events:
        following = asyncio.create_task(
            follow_while_reachable(cast("Peers", peers), "s", "raw", follow_once)
        )
        await failed.wait()
        # A change of another peer wakes the wait, but the site stays unreachable.
        peers.switch(is_reachable=False)
        peers.switch(is_reachable=True)
        await followed.wait()
        following.cancel()
    assert [event["event"] for event in events] == ["follow_failed"]


async def test_follow_recovers_at_its_first_chunk_and_not_when_it_fails_again() -> None:
    ended = asyncio.Event()
    calls = 0

    async def follow_once(on_chunk: Callable[[], None]) -> None:
        nonlocal calls
        calls += 1
        match calls:
            case 1:
                raise ValueError("a defect")
            case 2:
                raise UnavailableError("not yet")
            case 3:
                on_chunk()
                raise UnavailableError("interrupted")
        ended.set()
        await asyncio.Event().wait()

    with capture_logs() as events:
        following = asyncio.create_task(
            follow_while_reachable(cast("Peers", SwitchedPeers()), "s", "raw", follow_once)
        )
        await ended.wait()
        following.cancel()
    assert [event["event"] for event in events] == [
        "follow_failed",
        "follow_failed",
        "follow_recovered",
        "follow_interrupted",
    ]


async def test_pauses_grow_while_a_reachable_site_sends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    ended = asyncio.Event()

    async def wait(_event: asyncio.Event, seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    async def follow_once(on_chunk: Callable[[], None]) -> None:
        if len(pauses) == 8:
            on_chunk()
        if len(pauses) == 10:
            ended.set()
        raise UnavailableError("it does not answer")

    monkeypatch.setattr(
        peer_streams,
        "PeriodicTask",
        lambda work, schedule: PeriodicTask(work, schedule, wait=wait),
    )
    following = asyncio.create_task(
        follow_while_reachable(cast("Peers", SwitchedPeers()), "s", "raw", follow_once)
    )
    await ended.wait()
    following.cancel()
    assert pauses[:10] == [0, 0.25, 0.5, 1, 2, 4, 5, 5, 0.25, 0.5]
