"""The commands of tc and iptables, word by word, and the refusals of shapes."""

import pytest

from fog_emulation.topology import Direction, Shape
from fog_emulation.traffic_control import (
    SupportedShapes,
    loss_rules,
    networks_of_shaped_links,
    queue_commands,
    refusals,
)

SHAPE = Shape(rate_bps=8_000_000, loss=0.1, delay_ms=20, deviation_ms=2.5)


def test_queue_commands_put_delay_at_root_and_rate_below() -> None:
    assert [" ".join(each) for each in queue_commands("fog0", SHAPE, tbf=True, netem=True)] == [
        "qdisc add dev fog0 root handle 1: netem limit 10000 delay 20ms 2.5ms",
        "qdisc add dev fog0 parent 1:1 handle 10: tbf rate 8000000bit burst 10000b latency 200ms",
    ]


def test_queue_commands_omit_features_that_kernel_lacks() -> None:
    assert [" ".join(each) for each in queue_commands("fog0", SHAPE, tbf=True, netem=False)] == [
        "qdisc add dev fog0 root handle 1: tbf rate 8000000bit burst 10000b latency 200ms"
    ]
    assert not list(queue_commands("fog0", SHAPE, tbf=False, netem=False))
    assert not list(queue_commands("fog0", Shape(), tbf=True, netem=True))


def test_loss_rules_order_total_loss_then_peers_that_run_then_network() -> None:
    addresses = {("b-1", "net"): "10.0.0.3"}
    devices = {"net": "fog0"}
    directions = [
        Direction("net", "a-1", "up", Shape(loss=0.5)),
        Direction("net", "a-1", "up", Shape(loss=0.25), "b-1"),
        Direction("net", "a-1", "up", Shape(loss=0.25), "stopped-1"),
        Direction("net", "a-1", "down", Shape(loss=1.0)),
        Direction("net", "a-1", "down", Shape(), "b-1"),
    ]
    assert loss_rules(directions, devices, addresses, first=True).splitlines() == [
        "*filter",
        ":MISTBOW-UP - [0:0]",
        "-A OUTPUT -j MISTBOW-UP",
        ":MISTBOW-DOWN - [0:0]",
        "-A INPUT -j MISTBOW-DOWN",
        "-A MISTBOW-DOWN -i fog0 -j DROP",
        "-A MISTBOW-UP -o fog0 -d 10.0.0.3 -m statistic --mode random"
        " --probability 0.250000000 -j DROP",
        "-A MISTBOW-UP -o fog0 -d 10.0.0.3 -j RETURN",
        "-A MISTBOW-DOWN -i fog0 -s 10.0.0.3 -j RETURN",
        "-A MISTBOW-UP -o fog0 -m statistic --mode random --probability 0.500000000 -j DROP",
        "COMMIT",
    ]


OF_NETWORK = Shape(rate_bps=8_000_000, delay_ms=20)


@pytest.mark.parametrize(
    ("of_link", "shaped"),
    [
        (Shape(rate_bps=8_000_000, delay_ms=20, loss=0.1), False),
        (Shape(rate_bps=8_000_000, delay_ms=21), True),
        (Shape(rate_bps=8_000_000, delay_ms=20, deviation_ms=1), True),
        (Shape(rate_bps=4_000_000, delay_ms=20), True),
        (Shape(), True),
        (Shape(loss=1.0, delay_ms=5), False),
    ],
)
def test_link_is_shaped_if_its_rate_or_delay_differs_from_its_network(
    of_link: Shape, shaped: bool
) -> None:
    directions = [
        Direction("net", "a-1", "up", of_link, "b-1"),
        Direction("net", "a-1", "up", OF_NETWORK),
        Direction("net", "a-1", "down", Shape()),
        Direction("other", "a-1", "up", Shape()),
    ]
    assert networks_of_shaped_links(directions) == ({"net"} if shaped else set())


def test_refusals_name_each_direction_and_the_missing_feature() -> None:
    directions = [
        Direction("net", "a-1", "up", OF_NETWORK),
        Direction("net", "a-1", "down", Shape(loss=0.01), "b-1"),
        Direction("net", "a-1", "up", Shape(delay_ms=5), "b-1"),
    ]
    nothing = SupportedShapes(rate=False, delay=False, loss=False, links=False)
    assert list(refusals(directions, nothing)) == [
        "a-1 up net: 8000000 bit/s: the kernel has no tbf",
        "a-1 up net: 20 ms delay: the kernel has neither netem nor TAP devices",
        "a-1 down net with b-1: 1.000% loss: iptables has no module statistic",
        "a-1 up net with b-1: bandwidth or latency of a single link: the kernel has no TAP devices",
    ]
    netem_only = SupportedShapes(rate=True, delay=True, loss=True, links=False)
    assert len(list(refusals(directions, netem_only))) == 1
    assert not list(refusals(directions, SupportedShapes(True, True, True, True)))
