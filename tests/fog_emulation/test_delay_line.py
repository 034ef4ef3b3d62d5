"""The shapes that a plan sends to a delay line."""

from fog_emulation.delay_line import LineShapes, line_shapes
from fog_emulation.topology import Direction, Shape

GENERAL = Shape(rate_bps=8_000_000, delay_ms=20)
LINK = Shape(rate_bps=1_000_000, delay_ms=5, deviation_ms=1)
DIRECTIONS = [
    Direction("net", "a-1", "up", GENERAL),
    Direction("net", "a-1", "up", LINK, "b-1"),
    Direction("net", "a-1", "up", LINK, "b-2"),
    Direction("net", "a-1", "down", LINK),
    Direction("other", "a-1", "up", LINK, "b-1"),
]
ADDRESSES = {("b-1", "net"): "10.0.0.3", ("b-1", "other"): "10.0.1.3"}


def test_line_shapes_has_the_peers_that_run() -> None:
    found = line_shapes(DIRECTIONS, "net", "up", ADDRESSES, rates=True)
    assert found == LineShapes("up", GENERAL, {"10.0.0.3": LINK})


def test_line_shapes_leaves_rates_to_the_kernel() -> None:
    found = line_shapes(DIRECTIONS, "net", "up", {}, rates=False)
    assert found == LineShapes("up", Shape(delay_ms=20), {})


def test_line_shapes_without_a_direction_neither_delay_nor_limit() -> None:
    assert line_shapes(DIRECTIONS, "other", "down", {}, rates=True) == LineShapes("down")
