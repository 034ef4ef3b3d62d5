"""Nodes of a site are killed one after the other: what was acknowledged is there, once."""

import os
from collections import Counter

import httpx
import pytest

from mistbow.client.agent import AgentClient
from mistbow.ignite.server import IgniteServer
from mistbow.streams.schemas import RAW
from tests.storage_agent.cluster.conftest import KeptAgent
from tests.storage_agent.test_crashes import Load
from tests.support.waiting import eventually

ROUNDS = int(os.environ.get("MISTBOW_ROUNDS", "2"))


def may_fail(agent: KeptAgent) -> bool:
    """Tell whether the site would bear another failure now."""
    answer = httpx.get(f"{agent.url}/cluster", timeout=10)
    assert answer.is_success, answer.text
    return bool(answer.json()["tolerates_a_failure"])


def put_and_kept(agent: KeptAgent, acknowledged: int) -> None:
    """Every point of every writer is there once."""
    client = AgentClient(agent.url)
    table = client.read(RAW).table
    seen = Counter(zip(table["entity"].to_pylist(), table["value"].to_pylist(), strict=True))
    client.close()
    assert set(seen.values()) == {1}
    assert len(seen) == acknowledged


@pytest.mark.timeout(120 * ROUNDS)
def test_either_node_may_fail_once_the_other_is_up_to_date(
    nodes: list[IgniteServer], agent: KeptAgent
) -> None:
    load = Load(agent.url)
    try:
        for _ in range(ROUNDS):
            for failing in nodes:
                eventually(lambda: may_fail(agent), timeout=60, what="one node may fail")
                load.progress()
                failing.kill()
                load.progress()
                assert not may_fail(agent)
                failing.start()
        eventually(lambda: may_fail(agent), timeout=60, what="one node may fail")
    finally:
        load.stop()
    put_and_kept(agent, load.acknowledged)
    # Nothing of that ever made the agent begin anew.
    assert agent.waiting_for() == []
