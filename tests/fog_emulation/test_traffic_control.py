"""The commands of tc and iptables, word by word."""

from fog_emulation.topology import Direction, Shape
from fog_emulation.traffic_control import loss_rules, queue_commands

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


def test_loss_rules_order_total_loss_then_peers_then_network() -> None:
    addresses = {("b-1", "net"): "10.0.0.3"}
    devices = {"net": "fog0"}
    directions = [
        Direction("net", "a-1", "up", Shape(loss=0.5)),
        Direction("net", "a-1", "up", Shape(loss=0.25), "b-1"),
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
