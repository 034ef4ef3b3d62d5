"""Requests to peers whose addresses change meanwhile."""

import asyncio

import pytest

from ignite_server.ports import free_ports
from mistbow.errors import UnavailableError
from storage_agent.membership.heartbeat import Heartbeat, PeerReport
from storage_agent.membership.network import PeerNetwork, post_request
from storage_agent.membership.peers import Peers


def heartbeat(site: str, url: str, *reached: PeerReport) -> Heartbeat:
    return Heartbeat(site=site, node="n", url=url, instance=site, peers=reached)


async def test_request_is_unavailable_if_the_second_hop_is_lost_during_the_first() -> None:
    to_b, to_c = (f"http://127.0.0.1:{port}" for port in free_ports(2))
    peers = Peers(heartbeat("a", "http://127.0.0.1:1"), [], lambda: 0)
    peers.record_answer(to_b, heartbeat("b", to_b), None)
    report = PeerReport(site="b", node="n", url=to_b, reached=True)
    peers.record_answer(to_c, heartbeat("c", to_c, report), None)
    assert [hop.site for hop in peers.next_hops("b")] == ["b", "c"]
    network = PeerNetwork("a", peers, None)
    # At the first wait: while b is contacted, the link to c is found broken.
    asyncio.get_running_loop().call_soon(peers.record_failure, to_c)
    with pytest.raises(UnavailableError, match="no other site reaches it"):
        await network.send(post_request("b", "/get", b"{}"))
    await network.close()
