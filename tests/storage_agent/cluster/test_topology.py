"""The copies that a site should have, and those that it has."""

import httpx
import pytest

from mistbow.client.operation_model import IgniteNode
from storage_agent.cluster.topology import Topology
from tests.storage_agent.ingest.conftest import counted
from tests.support.conditions import eventually


@pytest.mark.parametrize(("count", "copies"), [(1, 1), (2, 2), (3, 2)])
def test_expected_copies_are_limited_by_the_nodes_of_the_site(count: int, copies: int) -> None:
    nodes = tuple(IgniteNode(f"n{number}", online=number == 0) for number in range(count))
    found = Topology(nodes, backups=1, partitions=32, copies=1, rebalancing=False, lost=0)
    assert found.expected_copies == copies


def test_site_of_one_machine_lacks_no_copies(url: str) -> None:
    name = "mistbow_agent_ignite_expected_copies"
    # The agent measures the topology by itself; the request only makes sure that it has.
    httpx.get(f"{url}/cluster").raise_for_status()
    eventually(lambda: counted(url, name) == 1, what="the metric is set")
    assert counted(url, "mistbow_agent_ignite_copies") == 1
