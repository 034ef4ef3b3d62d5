import math

import msgspec
import pytest

from mistbow.fog.snapshot import Fog, Link, Node
from tests.schedulers import build


def test_latency_is_of_the_best_way() -> None:
    fog = build.city()
    assert fog.latency_ms("edge1", "cloud1") == 20
    assert fog.latency_ms("edge2", "cloud2") == 30
    assert fog.latency_ms("cloud1", "cloud2") == 0
    assert fog.latency_ms("cloud1", "cloud1") == 0


def test_a_link_goes_one_way() -> None:
    fog = Fog((build.node("e"),), (Link(source="e", target="far", latency_ms=7),))
    assert fog.latency_ms("e", "far") == 7
    assert fog.latency_ms("far", "e") == math.inf
    assert fog.latency_ms("e", "never heard of") == math.inf


def test_a_node_with_links_of_its_own_is_reached_by_them() -> None:
    car, server = build.node("car", "edge"), build.node("server", "edge")
    fog = build.fog(car, server, links={("car", "edge"): 5, ("edge", "cloud"): 20})
    assert fog.latency_ms("car", "server") == 5
    assert fog.latency_ms("car", "cloud") == 25
    assert fog.latency_ms("server", "edge") == 0


def test_a_node_may_be_called_as_its_site() -> None:
    fog = build.fog(build.node("e", "e"), build.node("f", "e"), links={("e", "cloud"): 9})
    assert fog.latency_ms("e", "f") == 0
    assert fog.latency_ms("f", "cloud") == 9
    assert fog.site_of("f") == "e"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: build.fog(build.node("n"), build.node("n")),
        lambda: build.node("n", cores=2, cores_free=3),
        lambda: build.node("n", memory_mb=0),
        lambda: build.node("n", memory_free_mb=math.nan),
        lambda: Link(source="a", target="b", latency_ms=-1),
        lambda: Link(source="a", target="b", latency_ms=1, loss=2),
    ],
)
def test_nonsense_is_refused(wrong) -> None:
    with pytest.raises(ValueError, match=r"node|link"):
        wrong()


def test_a_snapshot_is_json_both_ways() -> None:
    fog = build.city()
    assert fog.latency_ms("edge1", "cloud") == 20
    assert msgspec.json.decode(msgspec.json.encode(fog), type=Fog) == fog
    assert fog.by_name["edge1"].attributes == {
        "rack": "7",
        "node": "edge1",
        "site": "edge1",
        "region": "north",
    }
    with pytest.raises(AttributeError):
        fog.nodes = ()
    assert isinstance(fog.by_name["edge1"], Node)
