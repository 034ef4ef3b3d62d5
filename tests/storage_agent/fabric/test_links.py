"""Sites in network namespaces: a way through another site, a link that is cut and healed.

The sites a and c share no network; b is in both, and has another address in each.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import httpx
import pyarrow as pa
import pytest

from mistbow.client.agent import AgentClient, Point
from mistbow.clock import system_clock
from mistbow.errors import UnavailableError
from mistbow.fabric import Fabric
from mistbow.fog_emulation.namespace_backend import NamespaceBackend
from mistbow.fog_emulation.parts import Direction, FogPlan, Node, Shape, Way
from tests.mistbow.fog_emulation.namespaces import needs_namespaces, standing
from tests.support.waiting import eventually

pytestmark = needs_namespaces

T = TypeVar("T")

PORT = 50000
TOKEN = "of-the-fog"  # noqa: S105 - of these tests only
HEALED_S = 3.0
SLACK_S = 2.0
"""Two processors run three sites and other tests."""

NETWORKS = {"a": ("one",), "b": ("one", "two"), "c": ("two",)}
WAYS: tuple[Way, ...] = ("up", "down")
SCHEMA = pa.schema([("ts", pa.int64()), ("word", pa.string())])


def plan() -> FogPlan:
    nodes = [Node(name, name, "site", 1.0, 2**30, nets) for name, nets in NETWORKS.items()]
    clear = [
        Direction(network, name, way, Shape())
        for name, networks in NETWORKS.items()
        for network in networks
        for way in WAYS
    ]
    return FogPlan(("one", "two"), tuple(nodes), tuple(clear))


class Fog:
    """The sites, each reached from inside of its node."""

    def __init__(self, backend: NamespaceBackend, home: Path) -> None:
        self._backend = backend
        peers = {"a": backend.address("b", "one"), "c": backend.address("b", "two"), "b": ""}
        for name, networks in NETWORKS.items():
            address = backend.address(name, networks[0])
            settings = {
                "MISTBOW_NODE": f"node-{name}",
                "MISTBOW_SITE": name,
                "MISTBOW_HOST": "0.0.0.0",  # noqa: S104 - in a namespace of its own
                "MISTBOW_TOKEN": TOKEN,
                "MISTBOW_AGENT_PORT": str(PORT),
                "MISTBOW_AGENT_URL": f"http://{address}:{PORT}",
                "MISTBOW_PEERS": f"http://{peers[name]}:{PORT}" if peers[name] else "",
                "MISTBOW_LOG_LEVEL": "warning",
            }
            backend.spawn(
                name,
                [sys.executable, "-m", "tests.storage_agent.fabric.site_process", str(home / name)],
                env={**os.environ, **settings},
            )
        for name in NETWORKS:
            eventually(lambda name=name: self.is_ready(name), timeout=90, what=f"{name} is ready")  # type: ignore[misc]

    def is_ready(self, site: str) -> bool:
        with self._backend.inside(site):
            try:
                headers = {"Authorization": f"Bearer {TOKEN}"}
                return httpx.get(f"http://127.0.0.1:{PORT}/readyz", headers=headers).is_success
            except httpx.TransportError:
                return False

    @contextmanager
    def at(self, site: str) -> Iterator[AgentClient]:
        """Yield a client of a site's agent; this thread is in its node meanwhile."""
        with self._backend.inside(site):
            client = AgentClient(f"http://127.0.0.1:{PORT}", TOKEN)
            try:
                yield client
            finally:
                client.close()

    def fabric(self, site: str) -> Fabric:
        with self.at(site) as client:
            return client.fabric()

    def reached(self, site: str) -> set[str]:
        """Return the sites that an agent reaches, itself included."""
        return {each.name for each in self.fabric(site).sites if each.reachable}

    def links(self, site: str) -> set[tuple[str, str]]:
        return {(link.source, link.target) for link in self.fabric(site).links}

    def shape(self, site: str, shape: Shape) -> None:
        for way in WAYS:
            for network in NETWORKS[site]:
                self._backend.connect(Direction(network, site, way, shape))


@pytest.fixture(scope="module")
def fog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fog]:
    with ExitStack() as stack:
        backend = stack.enter_context(standing(plan()))
        yield Fog(backend, tmp_path_factory.mktemp("sites"))


def all_reached(fog: Fog) -> bool:
    return all(fog.reached(site) == {"a", "b", "c"} for site in NETWORKS)


def row(word: str) -> pa.RecordBatch:
    return pa.record_batch([[system_clock()], [word]], schema=SCHEMA)


def took(check: Callable[[], T]) -> float:
    begin = time.monotonic()
    eventually(check, timeout=30)
    return time.monotonic() - begin


def test_a_site_is_reached_through_another(fog: Fog) -> None:
    eventually(lambda: all_reached(fog), what="all reach all")
    straight = {("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")}
    # Also the metadata of c is followed by way of b.
    eventually(lambda: fog.links("a") == straight, what="a knows the links of all")
    with fog.at("c") as at_c:
        at_c.create_stream("s", SCHEMA)
        at_c.put([Point("m", "of-c", system_clock(), 1.0)])
    with fog.at("a") as at_a:
        there = at_a.at("c")
        epoch = there.claim("s").epoch
        there.append("s", row("one"), epoch=epoch)
        chunks = there.follow("s")
        assert next(chunks).rows["word"].to_pylist() == ["one"]
        there.append("s", row("two"), epoch=epoch)
        assert next(c for c in chunks if c.rows.num_rows).rows["word"].to_pylist() == ["two"]
        chunks.close()  # type: ignore[attr-defined]
        assert [each.node for each in at_a.get(nodes=[])] == ["node-a", "node-b", "node-c"]
        assert [each.data[0].entity for each in at_a.get(nodes="c")] == ["of-c"]


def test_latency_is_measured(fog: Fog) -> None:
    eventually(lambda: all_reached(fog), what="all reach all")
    fog.shape("a", Shape(delay_ms=20.0))
    try:
        eventually(lambda: 18 < latency(fog, "c", "a", "b") < 40, what="c knows how slow a is")
    finally:
        fog.shape("a", Shape())
    eventually(lambda: latency(fog, "c", "a", "b") < 15)


def latency(fog: Fog, at: str, source: str, target: str) -> float:
    links = fog.fabric(at).links
    return next(x.latency_ms for x in links if (x.source, x.target) == (source, target))


def test_a_cut_link_heals_by_itself(fog: Fog) -> None:
    eventually(lambda: all_reached(fog), what="all reach all")
    ended = threading.Event()
    follower = threading.Thread(target=lambda: follow_until_broken(fog, ended))
    follower.start()
    fog.shape("a", Shape(loss=1.0))
    eventually(lambda: "a" not in fog.reached("b"), what="b has noticed")
    eventually(lambda: fog.reached("a") == {"a"}, what="a has noticed")
    assert ended.wait(10), "a followed stream ends when its site is cut off"
    follower.join()
    with fog.at("b") as at_b:
        begin = time.monotonic()
        with pytest.raises(UnavailableError, match="the site a is silent since"):
            at_b.at("a").claim("metadata")
        # Three attempts of the client.
        assert time.monotonic() - begin < 9
        missing = next(each for each in at_b.get(nodes=[]) if each.missing)
        assert missing.node == "node-a"
    with fog.at("a") as at_a:
        at_a.put([Point("m", "while-cut", system_clock(), 1.0)])
    fog.shape("a", Shape())
    assert took(lambda: all_reached(fog)) < HEALED_S + SLACK_S
    known = took(lambda: "while-cut" in said(fog, "c", "a"))
    assert known < HEALED_S + SLACK_S


def follow_until_broken(fog: Fog, ended: threading.Event) -> None:
    with fog.at("c") as at_c, pytest.raises(UnavailableError):
        list(at_c.at("a").follow("metadata"))
    ended.set()


def said(fog: Fog, at: str, site: str) -> str:
    """Return what an agent keeps of another site's metadata, as one text."""
    with fog.at(at) as client:
        return " ".join(client.read(f"replicas/{site}/metadata").table["key"].to_pylist())
