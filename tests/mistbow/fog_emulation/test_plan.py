"""From a model to what has to be done; the smart city's plan is a golden file."""

from pathlib import Path

import msgspec
import pytest

from mistbow.fog_emulation import model
from mistbow.fog_emulation.parts import Direction, Node, Shape
from mistbow.fog_emulation.plan import plan
from mistbow.fog_emulation.timetable import timetable
from tests.mistbow.fog_emulation.cities import SMART_CITY, parsed, small_city

GOLDEN = Path(__file__).with_name("smart_city.json")


def test_the_smart_city_is_planned_as_before() -> None:
    """Write the golden file anew by ``python -m tests.mistbow.fog_emulation.test_plan``."""
    assert _written() == GOLDEN.read_text()


def _written() -> str:
    city = model.load(SMART_CITY)
    start = plan(city)
    stories = {each.name: timetable(city, start, each.name) for each in city.scenarios}
    encoded = msgspec.json.encode({"plan": start, "timetables": stories})
    return msgspec.json.format(encoded, indent=1).decode() + "\n"


def test_a_slow_core_is_a_part_of_the_hosts() -> None:
    city = parsed(small_city())
    assert plan(city, reference_mhz=2000).nodes[0] == Node(
        "a-1", "a", "web", cores=1.0, memory_bytes=512 * 2**20, networks=("net",)
    )
    assert plan(city, reference_mhz=4000).nodes[0].cores == 0.5


def test_both_ends_together_have_a_bidirectional_delay_and_loss() -> None:
    half = Shape(rate_bps=8_000_000, loss=round(1 - 0.9**0.5, 9), delay_ms=10, deviation_ms=1)
    directions = plan(parsed(small_city())).directions
    assert directions == tuple(
        Direction("net", node, way, half)
        for node in ("a-1", "b-1", "b-2")
        for way in ("up", "down")
    )


def test_a_total_loss_is_total_at_each_end() -> None:
    compose = small_city()
    compose["x-fogify"]["networks"][0]["bidirectional"] = {"drop": "100%"}
    assert {each.shape.loss for each in plan(parsed(compose)).directions} == {1.0}


@pytest.mark.parametrize("both", [False, True])
def test_a_link_is_between_each_two_instances_of_its_labels(both: bool) -> None:
    compose = small_city()
    network = compose["x-fogify"]["networks"][0]
    link = {"from_node": "a", "to_node": "b", "properties": {"latency": {"delay": "8ms"}}}
    network["links"] = [{**link, "bidirectional": both}]
    pairs = {
        (each.node, each.peer, each.way): each.shape
        for each in plan(parsed(compose)).directions
        if each.peer is not None
    }
    there = {("a-1", f"b-{number}", way) for number in (1, 2) for way in ("up", "down")}
    back = {(peer, node, way) for node, peer, way in there}
    assert set(pairs) == (there | back if both else there)
    assert set(pairs.values()) == {Shape(delay_ms=4)}


if __name__ == "__main__":
    GOLDEN.write_text(_written())
