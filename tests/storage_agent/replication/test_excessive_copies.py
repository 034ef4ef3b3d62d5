"""Copies that a stolen source requests at this site: their number, and the space on the disk."""

import asyncio

from structlog.testing import capture_logs

from mistbow.client.operation_model import Copy, SeriesFilter
from mistbow.runtime.tasks import cancel_and_wait
from mistbow.streams.events import event_rows
from mistbow.streams.schemas import EVENTS
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.facts import COPIES, encode_fact
from storage_agent.membership.heartbeat import Heartbeat
from storage_agent.replication.follower.follower import Follower
from storage_agent.settings import AgentSettings
from storage_agent.streams.streams import Streams
from tests.storage_agent.conftest import ManualClock

MAX_ROUNDS = 200
SOURCE_URL = "http://127.0.0.1:9"


def copies(target: str, number: int) -> tuple[Copy, ...]:
    return tuple(
        Copy(
            id=f"{each:012x}",
            target=target,
            why="",
            since=0,
            filter=SeriesFilter(metric=(f"m{each}",)),
        )
        for each in range(number)
    )


async def membership_with_copies(
    streams: Streams, settings: AgentSettings, clock: ManualClock, number: int
) -> FabricMembership:
    """Return a membership whose reachable peer requests ``number`` copies at its site."""
    await streams.create("replicas/edge/metadata", EVENTS)
    stream = await streams.get("replicas/edge/metadata")
    stated = {COPIES: encode_fact(copies(settings.site, number))}
    await stream.writer.append(event_rows(clock(), stated))
    membership = FabricMembership(settings, clock)
    await membership.open(streams, (), lambda _: False)
    await membership.flush()  # its tasks run now
    heartbeat = Heartbeat(site="edge", node="n", url=SOURCE_URL, instance="e")
    membership.peers.record_answer(SOURCE_URL, heartbeat, 1.0)
    return membership


def ids(follower: Follower) -> list[str]:
    return [each.copy.id for each in follower.replicas("edge")]


async def test_follower_accepts_at_most_200_copies_of_a_source(
    streams: Streams, settings: AgentSettings, clock: ManualClock
) -> None:
    membership = await membership_with_copies(streams, settings, clock, 300)
    follower = Follower(membership, settings.home, 0, clock)
    follower.open(streams)
    with capture_logs() as events:
        await follower.reconcile()
        running = asyncio.create_task(follower.run())
        # One round creates replicas for a limited time only.
        for _ in range(MAX_ROUNDS):
            if len(accepted := ids(follower)) >= 200:
                break
            await follower.reconcile()
        # The other order would select others; replicas that exist precede them.
        published = copies(settings.site, 300)
        membership.facts_of("edge").apply(COPIES, encode_fact(published[::-1]))
        await follower.reconcile()
    assert accepted == [each.id for each in published[:200]]
    assert ids(follower) == accepted
    assert [each for each in events if each["event"] == "copies_ignored"] == [
        {
            "event": "copies_ignored",
            "log_level": "warning",
            "source": "edge",
            "copies": 300,
            "max": 200,
        }
    ]
    await cancel_and_wait([running])
    await membership.close()


async def test_follower_creates_no_replica_on_a_full_disk(
    streams: Streams, settings: AgentSettings, clock: ManualClock
) -> None:
    membership = await membership_with_copies(streams, settings, clock, 2)
    follower = Follower(membership, settings.home, 2**80, clock)
    follower.open(streams)
    await follower.reconcile()
    assert ids(follower) == []
    assert not [each.name for each in streams.all() if "raw" in each.name]
    await membership.close()
