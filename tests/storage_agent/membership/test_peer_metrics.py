"""The metric of the sites that an agent reaches."""

import prometheus_client
import pytest

from mistbow.clock import system_clock
from storage_agent.membership.heartbeat import Heartbeat, PeerReport
from storage_agent.membership.peer_metrics import PeerMetrics
from storage_agent.membership.peers import Peers

HUB, FAR = "hub-of-peer-metrics", "far-from-peer-metrics"
"""Sites that no other test has: all agents of a process have the same metrics."""


def reachable(site: str) -> float | None:
    """Return the value of the metric; None: the site has none."""
    return prometheus_client.REGISTRY.get_sample_value(
        "mistbow_agent_peer_reachable", {"site": site}
    )


def heartbeat(*reports: PeerReport) -> Heartbeat:
    return Heartbeat(site=HUB, node="n", url="http://hub", instance="1", peers=reports, version=1)


@pytest.fixture
def peers() -> Peers:
    own = Heartbeat(site="own", node="n", url="http://own", instance="1")
    return Peers(own, (), system_clock)


def test_metric_follows_a_site_behind_another_one_until_it_is_removed(peers: Peers) -> None:
    metrics = PeerMetrics(peers)
    metrics.update()
    assert reachable(FAR) is None
    far = PeerReport(site=FAR, node="n", url="http://far", reached=True)
    peers.record_answer("http://hub", heartbeat(far), 1.0)
    metrics.update()
    assert (reachable(HUB), reachable(FAR)) == (1, 1)

    peers.record_failure("http://hub")
    metrics.update()
    assert (reachable(HUB), reachable(FAR)) == (0, 0)

    peers.forget({FAR: system_clock()})
    metrics.update()
    assert (reachable(HUB), reachable(FAR)) == (0, None)
