"""The commands for the kernel, word by word."""

from mistbow.fog_emulation.parts import Direction, Shape
from mistbow.fog_emulation.shaping import losing, queueing

SHAPE = Shape(rate_bps=8_000_000, loss=0.1, delay_ms=20, deviation_ms=2.5)


def test_delay_is_the_root_and_the_rate_below() -> None:
    assert [" ".join(each) for each in queueing("fog0", SHAPE, tbf=True, netem=True)] == [
        "qdisc add dev fog0 root handle 1: netem limit 10000 delay 20ms 2.5ms",
        "qdisc add dev fog0 parent 1:1 handle 10: tbf rate 8000000bit burst 10000b latency 200ms",
    ]


def test_what_the_kernel_lacks_is_left_out() -> None:
    assert [" ".join(each) for each in queueing("fog0", SHAPE, tbf=True, netem=False)] == [
        "qdisc add dev fog0 root handle 1: tbf rate 8000000bit burst 10000b latency 200ms"
    ]
    assert not list(queueing("fog0", SHAPE, tbf=False, netem=False))
    assert not list(queueing("fog0", Shape(), tbf=True, netem=True))


def test_links_stand_before_the_network_but_a_cut_before_all() -> None:
    addresses = {("b-1", "net"): "10.0.0.3"}
    devices = {"net": "fog0"}
    directions = [
        Direction("net", "a-1", "up", Shape(loss=0.5)),
        Direction("net", "a-1", "up", Shape(loss=0.25), "b-1"),
        Direction("net", "a-1", "down", Shape(loss=1.0)),
        Direction("net", "a-1", "down", Shape(), "b-1"),
    ]
    assert losing(directions, devices, addresses, first=True).splitlines() == [
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
