"""The measurement of the bandwidth of links, with the agent of another site that is slow."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
from fastapi import FastAPI, Request

from mistbow.auth.rules import requires
from mistbow.settings import ServiceSettings
from storage_agent.membership import link_probes
from storage_agent.membership.heartbeat import Heartbeat
from storage_agent.membership.link_probes import PART_BYTES, LinkProber
from storage_agent.membership.network import PeerNetwork, count_bytes
from storage_agent.membership.peer import Peer
from storage_agent.membership.peers import Peers
from tests.support.conditions import aeventually
from tests.support.http_server import plain_service, served


@pytest.fixture(autouse=True)
def brief_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_probes, "_PAUSE_S", 0.05)
    monkeypatch.setattr(link_probes, "_IDLE_S", 0.05)
    monkeypatch.setattr(link_probes, "_BUSY_S", 0.1)


class OtherSite:
    """An agent that reads probes with ``bytes_per_s``, and answers after ``delay_s``."""

    def __init__(self) -> None:
        self.bytes_per_s = 1e9
        self.delay_s = 0.0
        self.received: list[int] = []

    def app(self) -> FastAPI:
        app = plain_service(ServiceSettings())

        @app.post("/fabric/probe", status_code=204)
        @requires("join")
        async def probe(request: Request) -> None:
            size = len(await request.body())
            self.received.append(size)
            await asyncio.sleep(self.delay_s + size / self.bytes_per_s)

        return app


@pytest.fixture
def other() -> OtherSite:
    return OtherSite()


@pytest.fixture
def url(other: OtherSite) -> Iterator[str]:
    with served(other.app()) as url:
        yield url


async def probed(
    url: str, is_done: Callable[[Peer], bool], interval_s: float = 3600, round_trip_ms: float = 2
) -> Peer:
    """Probe the link to a site until ``is_done``; return the peer."""
    own = Heartbeat(site="a", node="a", url="http://127.0.0.1:1", instance="a")
    peers = Peers(own, (), lambda: 0)
    peers.record_answer(url, Heartbeat(site="b", node="b", url=url, instance="b"), round_trip_ms)
    network = PeerNetwork("a", peers, None)
    probing = asyncio.create_task(LinkProber(peers, network, interval_s).run())
    peer = peers.get("b")
    assert peer is not None

    async def done() -> bool:
        return is_done(peer)

    try:
        await aeventually(done, what="the probe")
    finally:
        probing.cancel()
        await network.close()
    return peer


async def test_fast_link_is_probed_by_all_parts_once(
    other: OtherSite, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_probes, "_MIN_SECONDS", 10.0)  # also on a busy machine
    peer = await probed(url, lambda peer: peer.bandwidth_mbps is not None)
    assert other.received == [*PART_BYTES, PART_BYTES[-1]]
    assert (peer.bandwidth_mbps or 0) > 1


async def test_slow_link_is_probed_by_the_first_part_only(other: OtherSite, url: str) -> None:
    other.bytes_per_s = 16 * 1024
    peer = await probed(url, lambda peer: peer.bandwidth_mbps is not None)
    assert other.received == [PART_BYTES[0], PART_BYTES[0]]
    assert peer.bandwidth_mbps == pytest.approx(8 * 16 * 1024 / 1e6, rel=0.5)


async def test_probe_of_a_distant_link_measures_its_rate_and_not_its_round_trip(
    other: OtherSite, url: str
) -> None:
    other.delay_s, other.bytes_per_s = 0.4, 128 * 1024
    peer = await probed(url, lambda peer: peer.bandwidth_mbps is not None, round_trip_ms=400)
    assert other.received[-1] > PART_BYTES[0]
    assert peer.bandwidth_mbps == pytest.approx(8 * 128 * 1024 / 1e6, rel=0.3)


async def test_busy_link_is_probed_when_it_is_idle(other: OtherSite, url: str) -> None:
    transfers = 10

    def transfer(_: Peer) -> bool:
        nonlocal transfers
        if transfers:
            assert not other.received
            transfers -= 1
            count_bytes("b", "received", "proxy", 1_000_000)
        return bool(other.received)

    await probed(url, transfer)
    assert transfers == 0


async def test_no_link_is_probed_without_interval(other: OtherSite, url: str) -> None:
    own = Heartbeat(site="a", node="a", url="http://127.0.0.1:1", instance="a")
    peers = Peers(own, (), lambda: 0)
    network = PeerNetwork("a", peers, None)
    await LinkProber(peers, network, 0).run()
    await network.close()
    assert not other.received
