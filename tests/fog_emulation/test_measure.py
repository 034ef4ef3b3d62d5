"""Which links are measured, and which shapes are expected of them."""

from fog_emulation.measure import expected, pairs
from fog_emulation.topology import Shape
from tests.fog_emulation.namespaces import DIRECTED_LINK, fog_of


def test_pairs_has_the_first_nodes_of_a_network_and_of_each_link() -> None:
    assert pairs(fog_of({})) == [("net", "a-1", "b-1"), ("net", "b-1", "a-1")]
    among = {"from_node": "b", "to_node": "b", "properties": {"latency": {"delay": "8ms"}}}
    assert pairs(fog_of({}, [among, DIRECTED_LINK])) == [
        ("net", "a-1", "b-1"),
        ("net", "b-1", "a-1"),
        ("net", "b-1", "b-2"),
        ("net", "b-2", "b-1"),
    ]
    cut = {**among, "properties": {"drop": "100%"}}
    assert pairs(fog_of({}, [cut])) == pairs(fog_of({}))
    from_a = {**cut, "from_node": "a"}
    assert pairs(fog_of({}, [from_a])) == [("net", "b-1", "b-2"), ("net", "b-2", "b-1")]
    assert pairs(fog_of({"drop": "100%"})) == []


def test_expected_has_the_shape_of_a_link_at_the_end_of_from_node() -> None:
    directions = fog_of({"latency": {"delay": "10ms"}}, [DIRECTED_LINK]).directions
    there = expected(directions, "net", "a-1", "b-1")
    assert (there.rate_bps, there.delay_ms, round(there.loss, 9)) == (8_000_000, 35, 0.002)
    assert expected(directions, "net", "b-1", "a-1") == Shape(rate_bps=12_000_000, delay_ms=11)
    assert expected(directions, "net", "b-1", "b-2") == Shape(delay_ms=10)
