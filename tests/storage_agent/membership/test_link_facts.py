"""The published facts about links: latency, loss and bandwidth, without noise."""

import pytest

from mistbow.clock import system_clock
from storage_agent.membership.facts import LinkFact
from storage_agent.membership.heartbeat import Heartbeat
from storage_agent.membership.link_facts import LinkFacts
from storage_agent.membership.peer import Peer
from storage_agent.membership.peers import Peers

URL = "http://b"


class Link:
    """The link to a peer, with all facts that were published about it."""

    def __init__(self) -> None:
        own = Heartbeat(site="a", node="a", url="http://a", instance="1")
        self.peers = Peers(own, (), system_clock)
        self.published: list[LinkFact | None] = []
        self.facts = LinkFacts(self.peers, lambda _, fact: self.published.append(fact))

    def answer(self, count: int = 1, trip_ms: float = 20.0) -> None:
        heartbeat = Heartbeat(site="b", node="b", url=URL, instance="b")
        for _ in range(count):
            self.peers.record_answer(URL, heartbeat, trip_ms)
            self.facts.update()

    def fail(self, count: int = 1) -> None:
        for _ in range(count):
            self.peers.record_failure(URL)
            self.facts.update()

    @property
    def peer(self) -> Peer:
        found = self.peers.get("b")
        assert found is not None
        return found


@pytest.fixture
def link() -> Link:
    return Link()


def test_steady_link_is_published_with_its_loss_once(link: Link) -> None:
    link.answer(100)
    assert link.published == [LinkFact(latency_ms=10.0), LinkFact(latency_ms=10.0, loss=0.0)]


def test_loss_is_the_share_of_unanswered_heartbeats(link: Link) -> None:
    link.answer(60)
    for _ in range(3):
        link.fail(2)
        link.answer(2)
    assert link.peer.loss == pytest.approx(0.1)
    link.answer(60)
    assert link.peer.loss == 0
    assert link.facts.published["b"].loss == 0


def test_link_that_was_down_has_no_loss_when_it_is_back(link: Link) -> None:
    link.answer(60)
    link.fail(300)
    assert link.published[-1] is None
    link.answer(30)
    assert link.published[-1] == LinkFact(latency_ms=10.0, loss=0.0)


def test_bandwidth_is_published_when_it_changes_much(link: Link) -> None:
    link.answer(20)
    for mbps in (10.0, 12.0, 8.0, 2.0):
        link.peer.bandwidth_mbps = mbps
        link.answer()
    assert [fact.bandwidth_mbps for fact in link.published if fact][-2:] == [10.0, 2.0]
