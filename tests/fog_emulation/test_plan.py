"""Plans of models; the plan of the city is a golden file."""

from pathlib import Path

import msgspec
import pytest

from fog_emulation import model
from fog_emulation.plan import plan
from fog_emulation.timetable import timetable
from fog_emulation.topology import Direction, EmulatedNode, Shape
from tests.fog_emulation.cities import CITY, parsed, small_city

GOLDEN = Path(__file__).with_name("city.json")


def test_plan_of_city_equals_golden_file() -> None:
    """Regenerate the golden file by ``python -m tests.fog_emulation.test_plan``."""
    assert _written() == GOLDEN.read_text()


def _written() -> str:
    city = model.load(CITY)
    start = plan(city)
    stories = {each.name: timetable(city, start, each.name) for each in city.scenarios}
    encoded = msgspec.json.encode({"plan": start, "timetables": stories})
    return msgspec.json.format(encoded, indent=1).decode() + "\n"


def test_plan_scales_cores_by_clock_speed() -> None:
    city = parsed(small_city())
    assert plan(city, reference_mhz=2000).nodes[0] == EmulatedNode(
        "a-1", "a", "web", cores=1.0, memory_bytes=512 * 2**20, networks=("net",)
    )
    assert plan(city, reference_mhz=4000).nodes[0].cores == 0.5


def test_plan_halves_bidirectional_delay_and_loss() -> None:
    half = Shape(rate_bps=8_000_000, loss=round(1 - 0.9**0.5, 9), delay_ms=10, deviation_ms=1)
    directions = plan(parsed(small_city())).directions
    assert directions == tuple(
        Direction("net", node, way, half)
        for node in ("a-1", "b-1", "b-2")
        for way in ("up", "down")
    )


def test_plan_has_total_loss_at_each_end() -> None:
    compose = small_city()
    compose["x-fogify"]["networks"][0]["bidirectional"] = {"drop": "100%"}
    assert {each.shape.loss for each in plan(parsed(compose)).directions} == {1.0}


@pytest.mark.parametrize("both", [False, True])
def test_plan_links_each_pair_of_instances(both: bool) -> None:
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
