"""Comparison of a site's heads with the heads that the site and its peers remember.

The head of a stream is the position after its last segment. The site compares the heads before its
first write.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from pyignite import Client

from mistbow.client import AgentClient, Point
from mistbow.clock import system_clock
from mistbow.errors import ConflictError, MistbowError
from mistbow.streams.schemas import RAW
from storage_agent.cluster.remembered_heads import HeadFile
from storage_agent.ignite.client import HISTORICAL
from storage_agent.main import create_app
from storage_agent.settings import AgentSettings
from storage_agent.streams.segments import segment_key
from tests.support.conditions import eventually
from tests.support.http_server import served
from tests.support.sites import TOKEN, AgentSite, wait_until_reached

HEADERS = {"Authorization": f"Bearer {TOKEN}"}


@contextmanager
def waiting(place: AgentSite, *peers: AgentSite) -> Iterator[None]:
    """Serve the agent of a site within the ``with``, without waiting until the agent is ready."""
    with served(create_app(AgentSettings.model_validate(place.settings(*peers))), place.port):
        yield


def waiting_for(place: AgentSite) -> list[str]:
    """Return the conditions that the agent of a site waits for."""
    found: list[str] = httpx.get(f"{place.url}/readyz", headers=HEADERS).json()["waiting_for"]
    return found


def put(client: AgentClient, count: int) -> None:
    for number in range(count):
        client.put([Point("m", f"e{number}", system_clock(), float(number))])


def values(client: AgentClient) -> list[float]:
    return values_in(client, RAW)


def values_in(client: AgentClient, stream: str) -> list[float]:
    assert stream in {each.name for each in client.streams()}
    return list(client.read(stream).table["value"].to_pylist())


def heads_of(place: AgentSite) -> Path:
    return place.home / "agent" / "heads.json"


@contextmanager
def segments(place: AgentSite) -> Iterator[Client]:
    """Yield the Ignite cache in which a site stores its segments."""
    client = Client(timeout=10)
    with client.connect("127.0.0.1", place.ignite_port):
        yield client.get_cache(HISTORICAL)


def test_load_rejects_a_torn_file(tmp_path: Path) -> None:
    heads = HeadFile(tmp_path / "agent" / "heads.json")
    assert heads.load(of_this_boot=False).heads == {}
    heads.save("s", {RAW: 7})
    again = HeadFile(tmp_path / "agent" / "heads.json").load(of_this_boot=True)
    assert (again.store, again.heads) == ("s", {RAW: 7})
    (tmp_path / "agent" / "heads.json").write_bytes(b'{"boot":"another","heads":{"raw":7}}')
    assert heads.load(of_this_boot=False).heads == {RAW: 7}
    assert heads.load(of_this_boot=True).heads == {}
    (tmp_path / "agent" / "heads.json").write_bytes(b'{"boot"')
    with pytest.raises(MistbowError, match="cannot be read"):
        heads.load(of_this_boot=False)


def test_save_never_lowers_a_head(tmp_path: Path) -> None:
    path = tmp_path / "agent" / "heads.json"
    old, new = HeadFile(path), HeadFile(path)
    old.save("s", {RAW: 5, "deleted": 3, "deleted@1": 1})
    new.save("s", {RAW: 9, "made": 2}, deleted={"deleted@1"})
    old.save("s", {RAW: 6})
    assert new.load(of_this_boot=True).heads == {RAW: 9, "made": 2}
    with pytest.raises(ConflictError, match="another store"):
        old.save("another", {RAW: 10})
    # A power cut may have taken what was from before it.
    path.write_bytes(b'{"boot":"another","heads":{"raw":20},"store":"s"}')
    old.save("s", {RAW: 7}, of_this_boot=True)
    assert old.load(of_this_boot=False).heads == {RAW: 7}


def test_agent_refuses_another_store(places: list[AgentSite]) -> None:
    a, b, _ = places
    with a.agent() as at_a, b.agent() as at_b:
        put(at_a, 3)
        put(at_b, 1)
    remembered = heads_of(a).read_bytes()
    moved = AgentSite(a.name, a.home, b.ignite_port, a.port)
    with waiting(moved):
        [reason] = eventually(lambda: [w for w in waiting_for(a) if "has the store" in w])
        assert f"Ignite at 127.0.0.1:{b.ignite_port} has the store" in reason
        assert str(heads_of(a)) in reason
    assert heads_of(a).read_bytes() == remembered
    heads_of(a).unlink()
    with moved.agent() as at_a:
        assert values(at_a) == [0.0]
        assert at_a.info(RAW).epoch == 2  # the other agent's start, and this one


def test_heads_of_replicas_are_compared_before_a_claim(places: list[AgentSite]) -> None:
    a, b, _ = places
    with b.agent(a) as at_b:
        with a.agent(b) as at_a:
            wait_until_reached(at_a, "b")
            put(at_a, 3)
            wanted = {"target": "b"}
            assert httpx.put(f"{a.url}/replication", json=wanted, headers=HEADERS).is_success
            eventually(lambda: values_in(at_b, f"replicas/a/{RAW}") == values(at_a))
            last = at_a.info(RAW).head - 1
        heads_of(a).unlink()
        with segments(a) as cache:
            assert cache.remove_key(segment_key(RAW, last))
        with waiting(a, b):
            [reason] = eventually(lambda: [w for w in waiting_for(a) if "Ignite has lost" in w])
            assert f"the stream {RAW} ends at {last}, but b remembers" in reason
            with segments(a) as cache:
                assert not cache.contains_key(segment_key(RAW, last))
            repair = f"{a.url}/streams/{RAW}/repair?from=b"
            repaired = httpx.post(repair, headers=HEADERS, timeout=30)
            assert repaired.json() == {"stream": RAW, "missing": 1, "restored": 1}
            eventually(lambda: waiting_for(a) == [])
            client = AgentClient(a.url, TOKEN)
            assert values(client) == [0.0, 1.0, 2.0]
            client.close()
