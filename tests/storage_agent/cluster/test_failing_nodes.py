"""Nodes of a site are killed one after the other: no acknowledged row is lost or doubled."""

import os

import httpx
import pytest

from ignite_server.server import IgniteServer
from tests.storage_agent.cluster.conftest import SupervisedAgent
from tests.storage_agent.crashes.load import Load
from tests.support.conditions import eventually

pytestmark = pytest.mark.soak

ROUNDS = int(os.environ.get("MISTBOW_ROUNDS", "2"))


def tolerates_failure(agent: SupervisedAgent) -> bool:
    """Return whether the agent reports that its site tolerates the failure of one more node."""
    answer = httpx.get(f"{agent.url}/cluster", timeout=10)
    assert answer.is_success, answer.text
    return bool(answer.json()["tolerates_a_failure"])


@pytest.mark.timeout(120 * ROUNDS)
def test_site_survives_failures_of_either_node_in_turn(
    nodes: list[IgniteServer], agent: SupervisedAgent
) -> None:
    with Load(agent.url) as load:
        for _ in range(ROUNDS):
            for failing in nodes:
                eventually(lambda: tolerates_failure(agent), timeout=60, what="one node may fail")
                load.progress()
                failing.kill()
                load.progress()
                # The agent may be disconnected for a moment; its answer is correct nevertheless.
                assert eventually(lambda: [tolerates_failure(agent)], what="an answer") == [False]
                failing.start()
        eventually(lambda: tolerates_failure(agent), timeout=60, what="one node may fail")
    load.check(within=60)
    # None of these failures restarted the agent.
    assert agent.waiting_for() == []
