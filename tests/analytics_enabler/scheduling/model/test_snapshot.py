import math

import msgspec
import pytest

from analytics_enabler.scheduling.model.snapshot import (
    RETRY_MS,
    Battery,
    Fog,
    Link,
    Node,
    SourceQuality,
)
from tests.analytics_enabler.scheduling import build


def test_latency_is_that_of_fastest_path() -> None:
    fog = build.city()
    assert fog.latency_ms("edge1", "cloud1") == 20
    assert fog.latency_ms("edge2", "cloud2") == 30
    assert fog.latency_ms("cloud1", "cloud2") == 0
    assert fog.latency_ms("cloud1", "cloud1") == 0


def test_link_has_one_direction() -> None:
    fog = Fog((build.node("e"),), (Link(source="e", target="far", latency_ms=7),))
    assert fog.latency_ms("e", "far") == 7
    assert fog.latency_ms("far", "e") == math.inf
    assert fog.latency_ms("e", "never heard of") == math.inf


def test_loss_of_a_link_delays_by_repetitions() -> None:
    nodes = [build.node(name) for name in ("a", "b", "c")]
    lossy = Link(source="a", target="b", latency_ms=5, loss=0.5)
    around = [Link(source=s, target=t, latency_ms=30) for s, t in (("a", "c"), ("c", "b"))]
    assert Fog(tuple(nodes), (lossy,)).latency_ms("a", "b") == 5 + RETRY_MS
    assert Fog(tuple(nodes), (lossy, *around)).latency_ms("a", "b") == 60


def test_node_with_links_is_reached_by_them() -> None:
    car, server = build.node("car", "edge"), build.node("server", "edge")
    fog = build.fog(car, server, links={("car", "edge"): 5, ("edge", "cloud"): 20})
    assert fog.latency_ms("car", "server") == 5
    assert fog.latency_ms("car", "cloud") == 25
    assert fog.latency_ms("server", "edge") == 0


def test_attached_nodes_have_the_paths_of_their_links() -> None:
    city = build.city()
    nodes = (*city.nodes, build.node("car"), build.node("bus"))
    attached = Fog(nodes, city.links).with_attached({"car": ("edge1", 3.0), "bus": ("cloud", 4.0)})
    links = (*city.links, *build.link("car", "edge1", 3.0), *build.link("bus", "cloud", 4.0))
    names = [*(node.name for node in nodes), "edge1", "cloud"]
    linked = Fog(nodes, links)
    assert (
        attached.latencies_ms(names, names).tolist() == linked.latencies_ms(names, names).tolist()
    )
    assert {(each.source, each.target, each.latency_ms) for each in attached.links} == {
        (each.source, each.target, each.latency_ms) for each in links
    }


def test_name_of_site_and_node_means_site() -> None:
    fog = build.fog(build.node("e", "e"), build.node("f", "e"), links={("e", "cloud"): 9})
    assert fog.latency_ms("e", "f") == 0
    assert fog.latency_ms("f", "cloud") == 9
    assert fog.site_of("f") == "e"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: build.node("n", cores=2, cores_free=3),
        lambda: build.node("n", memory_mb=0),
        lambda: build.node("n", memory_free_mb=math.nan),
        lambda: Link(source="a", target="b", latency_ms=-1),
        lambda: Link(source="a", target="b", latency_ms=1, loss=2),
    ],
)
def test_invalid_snapshot_is_rejected(wrong) -> None:
    with pytest.raises(ValueError, match=r"node|link"):
        wrong()


def test_snapshot_with_repeated_names_is_rejected_with_these_names() -> None:
    nodes = [build.node(name) for name in ("n", "m", "o", "n", "m")]
    with pytest.raises(ValueError, match=r"several nodes of the fog have the same name: m, n$"):
        build.fog(*nodes)


def test_snapshot_survives_json_round_trip() -> None:
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


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ({"capacity_wh": 0, "charge_wh": 0}, "capacity"),
        ({"capacity_wh": 10, "charge_wh": 11}, "got 11 of 10"),
        ({"capacity_wh": 10, "charge_wh": 5, "charging_w": -1}, "charging power"),
    ],
)
def test_impossible_battery_is_rejected(facts: dict[str, float], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Battery(**facts)


def test_quality_of_a_source_is_a_share() -> None:
    fog = Fog((), sources=(SourceQuality(site="edge", completeness=0.9),))
    assert fog.quality_by_site["edge"].timeliness is None
    with pytest.raises(ValueError, match="site edge: the timeliness must be from 0 to 1"):
        SourceQuality(site="edge", timeliness=1.1)


def test_snapshot_without_facts_of_nodes_decodes() -> None:
    plain = {"name": "n", "site": "s", "cores": 1, "cores_free": 1, "memory_mb": 1}
    node = msgspec.convert({**plain, "memory_free_mb": 1}, Node)
    facts = (node.power, node.battery, node.price_per_core_hour, node.price_per_gb, node.position)
    assert facts == (None,) * 5
