"""The replica of a site's metadata when the site has a new store."""

import numpy as np

from mistbow.streams.schemas import EVENTS
from storage_agent.membership.facts import Facts
from storage_agent.membership.metadata_replicas import MetadataReplica
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
