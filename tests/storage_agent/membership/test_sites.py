"""Agents of several sites: membership, metadata, and reads from every site."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pyarrow as pa
import pytest

from mistbow.client import AgentClient, AsyncAgentClient, Point
from mistbow.clock import system_clock
from mistbow.errors import ConflictError, FencedError, NotFoundError, UnavailableError
from mistbow.fabric import Worker
from mistbow.streams.schemas import METADATA
from tests.support.conditions import eventually
from tests.support.sites import TOKEN, AgentSite, site_of, wait_until_reached

SCHEMA = pa.schema([("ts", pa.int64()), ("word", pa.string())])


def row(word: str) -> pa.RecordBatch:
    return pa.record_batch([[system_clock()], [word]], schema=SCHEMA)


def words(table: pa.Table) -> Any:
    return table["word"].to_pylist()


def point(entity: str, value: float = 1.0) -> Point:
    return Point("cpu", entity, system_clock(), value, units="percent")


def worker(name: str = "w1", **more: Any) -> Worker:
    room = {"cores": 2.0, "memory_mb": 1000.0, "cores_free": 2.0, "memory_free_mb": 900.0}
    return Worker(name=name, url="http://127.0.0.1:8100", **{**room, **more})


def current_facts(client: AgentClient, stream: str) -> dict[str, Any]:
    """Return the current facts in a metadata stream: key -> value."""
    table = client.read(stream).table
    events = dict(zip(table["key"].to_pylist(), table["event"].to_pylist(), strict=True))
    return {key: msgspec.json.decode(event) for key, event in events.items() if event != "null"}


def test_all_sites_are_discovered_through_one_peer(places: list[AgentSite]) -> None:
    a, b, c = places
    with b.agent() as at_b, a.agent(b) as at_a, c.agent(b) as at_c:
        for client in (at_a, at_b, at_c):
            wait_until_reached(client, "a", "b", "c")
        eventually(lambda: len(at_a.fabric().links) == len(at_c.fabric().links) == 6)
        fabric = at_a.fabric()
        assert fabric.site == "a"
        assert [site.name for site in fabric.sites] == ["a", "b", "c"]
        assert site_of(at_a, "c").node == "node-c"
        assert site_of(at_a, "c").url == c.url
        assert site_of(at_a, "c").labels == {"rack": "7"}
        assert all(0 < link.latency_ms < 500 for link in fabric.links)


def test_facts_of_an_unreachable_site_are_available(places: list[AgentSite]) -> None:
    a, b, _ = places
    with a.agent(b) as at_a:
        with b.agent() as at_b:
            at_b.put([point("x")])
            at_b.announce(worker())
            at_b.put([Point("cpu", "x", system_clock(), 1.0, units="cores")])
            eventually(lambda: site_of(at_a, "b").workers == (worker(),))
            replica = "replicas/b/metadata"
            eventually(
                lambda: current_facts(at_a, replica)['series/["cpu","x"]']["units"] == "cores"
            )
            assert current_facts(at_a, replica)["site"]["node"] == "node-b"
        eventually(lambda: not site_of(at_a, "b").reachable)
    with a.agent() as at_a:
        assert not site_of(at_a, "b").reachable
        assert site_of(at_a, "b").workers == (worker(),)
        assert 'series/["cpu","x"]' in current_facts(at_a, replica)
        assert not at_a.fabric().links
        with b.agent() as at_b:
            # b is found by the address that a stored; its worker has not announced itself again.
            eventually(lambda: site_of(at_a, "b").reachable)
            eventually(lambda: site_of(at_a, "b").workers == ())


def test_series_from_before_a_restart_are_published(places: list[AgentSite]) -> None:
    a = places[0]
    with a.agent() as client:
        client.put([point("x")])
        eventually(lambda: 'series/["cpu","x"]' in current_facts(client, METADATA))
        head = client.info(METADATA).head
    with a.agent() as client:
        # No fact was published twice; the restart changed one.
        assert set(client.read(METADATA, head).table["key"].to_pylist()) <= {"health"}
        assert {"site", 'series/["cpu","x"]'} <= current_facts(client, METADATA).keys()


@pytest.fixture
def pair(places: list[AgentSite]) -> Iterator[tuple[AgentClient, AgentClient]]:
    a, b, _ = places
    with b.agent() as at_b, a.agent(b) as at_a:
        wait_until_reached(at_a, "b")
        yield at_a, at_b


def test_stream_is_used_from_another_site(
    pair: tuple[AgentClient, AgentClient],
) -> None:
    at_a, at_b = pair
    there = at_a.at("b")
    there.create_stream("s/t", SCHEMA)
    with pytest.raises(ConflictError, match="another schema"):
        there.create_stream("s/t", pa.schema([("x", pa.int64())]))
    first = there.claim("s/t").epoch
    one = row("one")
    done = there.append("s/t", one, epoch=first, idempotency_key="k")
    assert there.append("s/t", one, epoch=first, idempotency_key="k") == done
    second = at_b.claim("s/t").epoch
    with pytest.raises(FencedError, match=f"the epoch {first} of the stream s/t is fenced"):
        there.append("s/t", row("two"), epoch=first)
    there.append("s/t", row("two"), epoch=second)
    there.advance("s/t", second, frontier=7, attributes={"note": "x y&z"})
    info = there.info("s/t")
    assert info == at_b.info("s/t")
    assert (info.frontier, info.attributes) == (7, {"note": "x y&z"})
    assert words(there.read("s/t", match={"word": "two"}).table) == ["two"]
    assert there.seek("s/t", 0) == at_b.seek("s/t", 0)
    assert there.offset("s/t", info.head, 10, wait_ms=300).head == info.head
    assert "s/t" in [stream.name for stream in there.streams()]
    with pytest.raises(NotFoundError, match="no stream s/t"):
        at_a.info("s/t")
    there.put([point("far", 5.0)])
    assert [series.entity for each in there.get() for series in each.data] == ["far"]


def test_stream_is_followed_from_another_site(pair: tuple[AgentClient, AgentClient]) -> None:
    at_a, at_b = pair
    at_b.create_stream("s", SCHEMA)
    at_b.append("s", row("one"))
    chunks = at_a.at("b").follow("s")
    assert words(pa.Table.from_batches([next(chunks).rows])) == ["one"]
    at_b.append("s", row("two"))
    assert words(pa.Table.from_batches([next(c for c in chunks if c.rows.num_rows).rows])) == [
        "two"
    ]


def test_followed_stream_ends_when_its_site_is_unreachable(places: list[AgentSite]) -> None:
    a, b, _ = places
    with a.agent(b) as at_a:
        broken = threading.Event()

        def follow() -> None:
            with pytest.raises(UnavailableError):
                list(at_a.at("b").follow(METADATA))
            broken.set()

        with b.agent():
            wait_until_reached(at_a, "b")
            thread = threading.Thread(target=follow)
            thread.start()
        assert broken.wait(10)
        thread.join()


def test_request_to_an_unknown_or_unreachable_site_is_rejected(places: list[AgentSite]) -> None:
    a, b, _ = places
    with a.agent(b) as at_a:
        with b.agent():
            wait_until_reached(at_a, "b")
        with pytest.raises(NotFoundError, match="no site x") as unknown:
            at_a.at("x").streams()
        assert unknown.value.hint == "The known sites are a, b."
        eventually(lambda: not site_of(at_a, "b").reachable)
        begin = time.monotonic()
        answer = httpx.get(f"{a.url}/streams?site=b", headers={"Authorization": f"Bearer {TOKEN}"})
        assert time.monotonic() - begin < 3
        assert answer.status_code == 503
        assert "the site b has not answered since 20" in answer.json()["error"]["message"]
        # Its own writes go on.
        at_a.put([point("own")])
        missing = at_a.get(nodes=[])[1]
        assert missing.node == "node-b"
        assert "not answered since" in (missing.missing or "")


async def test_get_returns_points_of_named_nodes(
    pair: tuple[AgentClient, AgentClient],
) -> None:
    at_a, at_b = pair
    at_a.put([point("x")])
    at_b.put([point("y")])

    def nodes(client: AgentClient, **body: Any) -> dict[str, list[str]]:
        return {e.node: [s.entity for s in e.data] for e in client.get("cpu", **body)}

    assert nodes(at_a) == {"node-a": ["x"]}
    both = {"node-a": ["x"], "node-b": ["y"]}
    assert nodes(at_a, nodes=[]) == both
    assert nodes(at_a, nodes=[], start=0) == both
    assert nodes(at_b, nodes=[]) == both
    assert nodes(at_a, nodes="b") == {"node-b": ["y"]}
    assert nodes(at_a, nodes=["node-b", "a"]) == both
    asynchronous = AsyncAgentClient(at_a.url, TOKEN)
    assert [each.node for each in await asynchronous.get(nodes=[])] == ["node-a", "node-b"]
    assert [s.name for s in (await asynchronous.fabric()).sites] == ["a", "b"]
    assert (await asynchronous.at("b").info(METADATA)).name == METADATA
    await asynchronous.close()
    [nobody] = at_a.get(nodes=["nobody"])
    assert (nobody.node, nobody.data) == ("nobody", [])
    assert "no node or site" in (nobody.missing or "")
    with pytest.raises(Exception, match=r"from \(2\) is after to \(1\)"):
        at_a.get(start=2, end=1, nodes=["b"])


def test_bytes_between_sites_are_counted(pair: tuple[AgentClient, AgentClient]) -> None:
    at_a, at_b = pair
    headers = {"Authorization": f"Bearer {TOKEN}"}
    before = counts(httpx.get(f"{at_b.url}/metrics", headers=headers).text)
    at_a.at("b").create_stream("s", SCHEMA)
    after = counts(httpx.get(f"{at_b.url}/metrics", headers=headers).text)
    for direction in ("sent", "received"):
        for site in ("a", "b"):  # both agents count, and here they share the registry
            proxied = f'direction="{direction}",kind="proxy",site="{site}"'
            assert after[proxied] > before.get(proxied, 0) + 50
            heartbeat = f'direction="{direction}",kind="heartbeat",site="{site}"'
            assert before[heartbeat] > 0
    assert before['direction="received",kind="metadata",site="b"'] > 0


def counts(text: str) -> dict[str, float]:
    name = "mistbow_agent_link_bytes_total{"
    lines = [line.removeprefix(name) for line in text.splitlines() if line.startswith(name)]
    return {label: float(value) for label, _, value in (line.partition("} ") for line in lines)}
