"""Answers of sites that are too slow: reads end without them."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import httpx
import pyarrow as pa
import pytest

from mistbow.client.answer_time import MIN_BYTES_PER_S
from mistbow.errors import UnavailableError
from mistbow.fabric import Fabric, Site
from mistbow.streams import wire
from mistbow.streams.models import StreamInfo
from mistbow.streams.wire import Chunk, ChunkEncoder, Position, checked
from storage_agent.membership import answer_time
from storage_agent.membership.heartbeat import Heartbeat
from storage_agent.membership.network import PeerNetwork, PeerRequest
from storage_agent.membership.peer_streams import fetch
from storage_agent.membership.peers import Peers
from storage_agent.membership.scatter_gather import ScatterRequest, scatter
from storage_agent.replication.follower.replica_server import (
    ReplicaPointsRequest,
    read_replica_points,
)
from tests.support.trickle import Trickle

TOO_SLOW = "the site s answers too slowly"
URLS = {site: f"http://{site}:1" for site in ("b", "s")}


@pytest.fixture(autouse=True)
def times(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        ("answer_time", "CONNECT_S"),
        ("answer_time", "ANSWER_S"),
        ("network", "_READ_S"),
        ("peer_streams", "_SILENCE_S"),
    ):
        monkeypatch.setattr(f"storage_agent.membership.{module}.{name}", 0.1)


def network_to(stolen: Callable[[], httpx.Response]) -> PeerNetwork:
    """Return the network of the site a, whose peers are b and s; ``stolen``: what s answers."""
    own = Heartbeat(site="a", node="a", url="http://a:1", instance="a")
    peers = Peers(own, [], lambda: 0)
    network = PeerNetwork("a", peers, None)
    for site, url in URLS.items():
        heartbeat = Heartbeat(site=site, node=f"node-{site}", url=url, instance=site)
        peers.record_answer(url, heartbeat, 1.0)

        async def answer(_: httpx.Request, site: str = site) -> httpx.Response:
            if site == "s":
                return stolen()
            return httpx.Response(200, stream=httpx.ByteStream(b"of b"))

        client = network.client(url)
        client._transport, client._auth = httpx.MockTransport(answer), None
    return network


def trickled() -> httpx.Response:
    return httpx.Response(200, stream=Trickle())


async def test_scatter_lists_a_site_that_trickles_its_answer_as_missing() -> None:
    sites = [Site(name=name, node=f"node-{name}", url=url) for name, url in URLS.items()]
    membership: Any = SimpleNamespace(
        site="a", network=network_to(trickled), fabric=lambda: Fabric(site="a", sites=tuple(sites))
    )

    async def local() -> bytes:
        raise AssertionError

    request = ScatterRequest("/get", b"{}", local, bytes.decode)
    async with asyncio.timeout(5):
        answers = await scatter((), membership, request)
    assert answers.found == ["of b"]
    [missing] = answers.missing
    assert (missing.node, missing.reason) == ("node-s", TOO_SLOW)


@pytest.mark.parametrize("status", [200, 503])
async def test_fetch_rejects_a_trickled_answer(status: int) -> None:
    network = network_to(lambda: httpx.Response(status, stream=Trickle()))
    async with asyncio.timeout(5):
        with pytest.raises(UnavailableError, match=TOO_SLOW):
            await fetch(network, "s", b"/streams/x/info?site=s", StreamInfo)


async def test_send_rejects_headers_that_do_not_end() -> None:
    network = network_to(trickled)

    async def never(_: httpx.Request) -> httpx.Response:
        await asyncio.sleep(60)
        raise AssertionError

    network.client(URLS["s"])._transport = httpx.MockTransport(never)
    async with asyncio.timeout(5):
        with pytest.raises(UnavailableError, match=TOO_SLOW):
            await network.send(PeerRequest("s", "GET", b"/get"))


async def test_read_of_a_replica_rejects_trickled_points() -> None:
    request = ReplicaPointsRequest(
        source="b",
        id="4f",
        instance="i",
        store="s",
        series=(),
        start=0,
        end=1,
        columns=("value",),
        reached=0,
        deleted=0,
    )
    chunks = read_replica_points(network_to(trickled), "s", request)
    async with asyncio.timeout(5):
        with pytest.raises(UnavailableError, match=TOO_SLOW):
            await anext(chunks)


async def test_read_returns_a_long_answer_at_the_minimum_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    part = bytes(MIN_BYTES_PER_S // 5)
    network = network_to(lambda: httpx.Response(200, stream=Trickle(part, 0.1, 12)))
    call = PeerRequest("s", "GET", b"/get")
    assert len(await network.read(call)) == 12 * len(part)
    monkeypatch.setattr(answer_time, "MAX_ANSWER_S", 0.5)
    with pytest.raises(UnavailableError, match=TOO_SLOW):
        await network.read(call)


async def test_followed_stream_has_no_end() -> None:
    network = network_to(lambda: httpx.Response(200, stream=Trickle(count=8)))
    async with asyncio.timeout(5):
        call = PeerRequest("s", "GET", b"/streams/x?follow=true")
        assert [each async for each in network.chunks(call, follows=True)] == []


async def test_thread_validates_a_large_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([pa.field("x", pa.int64())])
    encoder, threads = ChunkEncoder(schema), []
    chunks = [
        Chunk(pa.record_batch([pa.array(range(count), pa.int64())], schema), Position(number, 0))
        for number, count in enumerate((3, 2**19, 3))
    ]
    body = b"".join([*map(encoder.encode, chunks), encoder.close()])

    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 2**16):
            yield body[start : start + 2**16]

    def check(rows: pa.RecordBatch) -> pa.RecordBatch:
        threads.append(threading.current_thread())
        return checked(rows)

    monkeypatch.setattr(wire, "checked", check)
    network = network_to(lambda: httpx.Response(200, content=parts()))
    call = PeerRequest("s", "GET", b"/streams/x")
    assert [each async for each in network.chunks(call, follows=True)] == chunks
    here = threading.current_thread()
    assert [each is here for each in threads[:2]] == [True, False]
