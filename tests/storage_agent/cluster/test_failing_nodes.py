"""Nodes of a site are killed one after the other: what was acknowledged is there, once."""

import os

import httpx
import pytest

from mistbow.ignite.server import IgniteServer
from tests.storage_agent.cluster.conftest import KeptAgent
from tests.storage_agent.crashes.load import Load
from tests.support.waiting import eventually

pytestmark = pytest.mark.soak

ROUNDS = int(os.environ.get("MISTBOW_ROUNDS", "2"))


def may_fail(agent: KeptAgent) -> bool:
    """Tell whether the site would bear another failure now."""
    answer = httpx.get(f"{agent.url}/cluster", timeout=10)
    assert answer.is_success, answer.text
    return bool(answer.json()["tolerates_a_failure"])


@pytest.mark.timeout(120 * ROUNDS)
def test_either_node_may_fail_once_the_other_is_up_to_date(
    nodes: list[IgniteServer], agent: KeptAgent
) -> None:
    with Load(agent.url) as load:
        for _ in range(ROUNDS):
            for failing in nodes:
                eventually(lambda: may_fail(agent), timeout=60, what="one node may fail")
                load.progress()
                failing.kill()
                load.progress()
                # It may be away from Ignite for a moment still; but what it says is right.
                assert eventually(lambda: [may_fail(agent)], what="an answer") == [False]
                failing.start()
        eventually(lambda: may_fail(agent), timeout=60, what="one node may fail")
    load.check(within=60)
    # Nothing of that ever made the agent begin anew.
    assert agent.waiting_for() == []
