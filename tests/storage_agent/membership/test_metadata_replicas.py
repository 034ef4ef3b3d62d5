"""Replicas of metadata: of a site with a new store, and of a site that is removed."""

import asyncio
from typing import cast

import numpy as np
from structlog.testing import capture_logs

from mistbow.runtime.tasks import cancel_and_wait
from mistbow.streams.schemas import EVENTS
from storage_agent.membership.facts import Facts
from storage_agent.membership.heartbeat import Heartbeat
from storage_agent.membership.metadata_replicas import MetadataReplica, MetadataReplicas
from storage_agent.membership.network import PeerNetwork
from storage_agent.membership.peers import Peers
from storage_agent.streams.streams import Stream, Streams
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.streams.conftest import opener
from tests.storage_agent.streams.opener import Opener

__all__ = ["opener"]


async def test_facts_of_a_former_store_are_removed_although_they_are_many(
    opener: Opener, clock: ManualClock
) -> None:
    random = np.random.default_rng(0)
    facts = Facts()
    for _ in range(3000):
        facts[f'series/["m","{random.bytes(2048).hex()}"]'] = "{}"
    stream = await opener.open(EVENTS)
    replica = MetadataReplica(stream, facts, clock)
    await replica.begin("new", 0)
    assert (len(facts), replica.store, replica.position) == (0, "new", 0)
    assert stream.log.index.rows == 3000


class FailingStreams:
    """The streams of a store without replicas; each deletion fails with an unexpected error."""

    def all(self) -> list[Stream]:
        return []

    async def delete(self, name: str) -> None:
        raise RuntimeError(f"{name} cannot be deleted")


async def test_unexpected_error_in_a_deletion_does_not_end_the_replication_of_other_sites(
    clock: ManualClock,
) -> None:
    own = Heartbeat(site="a", node="n", url="http://127.0.0.1:1", instance="a")
    peers = Peers(own, (), clock)
    network = PeerNetwork("a", peers, None)
    replicas = MetadataReplicas(peers, network, clock)
    await replicas.open(cast("Streams", FailingStreams()))

    async def followed() -> set[str]:
        """Return the names of the tasks that follow a site, as soon as all tasks wait."""
        for _ in range(20):
            await asyncio.sleep(0)
        names = {task.get_name() for task in asyncio.all_tasks()}
        return {name for name in names if name.startswith("follow ")}

    peers.add("b", "n", "http://127.0.0.1:9")
    running = asyncio.create_task(replicas.run())
    assert await followed() == {"follow b"}
    with capture_logs() as events:
        peers.forget({"b": 1})
        assert await followed() == set()
    assert events[-1]["event"] == "metadata_deletion_failed"
    peers.add("c", "n", "http://127.0.0.1:9")
    assert await followed() == {"follow c"}
    await cancel_and_wait([running])
    await network.close()
