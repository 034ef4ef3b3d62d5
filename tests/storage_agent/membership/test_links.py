"""Sites in network namespaces: requests through another site, links that are cut and restored."""

import math
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

from fog_emulation.topology import Shape
from mistbow.client import Point
from mistbow.clock import system_clock
from mistbow.errors import UnavailableError
from mistbow.fabric import SiteLink
from tests.fog_emulation.namespaces import needs_namespaces, running_fog
from tests.support.conditions import eventually
from tests.support.fogs import NETWORKS, Fog, plan

pytestmark = needs_namespaces

SCHEMA = pa.schema([("ts", pa.int64()), ("word", pa.string())])


@pytest.fixture(scope="module")
def fog(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fog]:
    with ExitStack() as stack:
        backend = stack.enter_context(running_fog(plan()))
        yield Fog(backend, tmp_path_factory.mktemp("sites"))


def all_reached(fog: Fog) -> bool:
    return all(fog.reached(site) == {"a", "b", "c"} for site in NETWORKS)


def row(word: str) -> pa.RecordBatch:
    return pa.record_batch([[system_clock()], [word]], schema=SCHEMA)


def test_site_is_reached_through_another_site(fog: Fog) -> None:
    eventually(lambda: all_reached(fog), what="all sites reach each other")
    straight = {("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")}
    # Also the metadata of c is followed by way of b.
    eventually(lambda: fog.links("a") == straight, what="a has the links of all")
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


def test_link_latency_is_measured(fog: Fog) -> None:
    eventually(lambda: all_reached(fog), what="all sites reach each other")
    fog.shape("a", Shape(delay_ms=20.0))
    try:
        eventually(lambda: 18 < latency(fog, "c", "a", "b") < 40, what="c has the latency of a")
    finally:
        fog.shape("a", Shape())
    eventually(lambda: latency(fog, "c", "a", "b") < 15)


def test_link_bandwidth_is_measured_in_each_direction(processes: None, tmp_path: Path) -> None:
    def bandwidth(fog: Fog, source: str, target: str) -> float:
        found = link(fog, source, source, target)
        return found.bandwidth_mbps or 0.0 if found else 0.0

    with running_fog(plan()) as backend:
        fog = Fog(backend, tmp_path, link_probe_s=1)
        eventually(lambda: all_reached(fog), what="all sites reach each other")
        eventually(lambda: bandwidth(fog, "a", "b") > 20, timeout=60, what="a fast link")
        fog.shape("a", Shape(rate_bps=4_000_000))
        eventually(lambda: 1.5 < bandwidth(fog, "a", "b") < 6, timeout=90, what="a slow link")
        eventually(lambda: bandwidth(fog, "b", "c") > 20, timeout=60, what="another fast link")
        assert all_reached(fog)


def latency(fog: Fog, at: str, source: str, target: str) -> float:
    found = link(fog, at, source, target)
    return found.latency_ms if found else math.inf


def link(fog: Fog, at: str, source: str, target: str) -> SiteLink | None:
    """Return what ``at`` knows of a link; a site may be reached before its links are known."""
    links = fog.fabric(at).links
    return next((each for each in links if (each.source, each.target) == (source, target)), None)


def test_cut_link_recovers_by_itself(fog: Fog) -> None:
    eventually(lambda: all_reached(fog), what="all sites reach each other")
    ended = threading.Event()
    follower = threading.Thread(target=lambda: follow_until_broken(fog, ended))
    follower.start()
    fog.shape("a", Shape(loss=1.0))
    eventually(lambda: "a" not in fog.reached("b"), what="b has noticed")
    eventually(lambda: fog.reached("a") == {"a"}, what="a has noticed")
    assert ended.wait(60), "a followed stream ends when its site is cut off"
    follower.join()
    with fog.at("b") as at_b:
        # Not by waiting for an answer: that would be another error.
        with pytest.raises(UnavailableError, match="the site a has not answered since"):
            at_b.at("a").claim("metadata")
        missing = next(each for each in at_b.get(nodes=[]) if each.missing)
        assert missing.node == "node-a"
    with fog.at("a") as at_a:
        at_a.put([Point("m", "while-cut", system_clock(), 1.0)])
    fog.shape("a", Shape())
    eventually(lambda: all_reached(fog), what="all sites reach each other again")
    eventually(lambda: "while-cut" in fact_keys(fog, "c", "a"), what="c has the new facts of a")


def follow_until_broken(fog: Fog, ended: threading.Event) -> None:
    with fog.at("c") as at_c, pytest.raises(UnavailableError):
        list(at_c.at("a").follow("metadata"))
    ended.set()


def fact_keys(fog: Fog, at: str, site: str) -> str:
    """Return the keys of the facts of ``site`` that the agent of ``at`` stores, as one text."""
    with fog.at(at) as client:
        return " ".join(client.read(f"replicas/{site}/metadata").table["key"].to_pylist())
