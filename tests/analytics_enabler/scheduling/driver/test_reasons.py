"""The reasons of moves: what a placement improves over the former one."""

from typing import Any

import pytest

from analytics_enabler.scheduling.driver.reasons import reasons_of_moves
from analytics_enabler.scheduling.model.jobs import Job
from analytics_enabler.scheduling.model.snapshot import Battery, Fog, SourceQuality
from mistbow.fabric import Power
from tests.analytics_enabler.scheduling.build import fog, job, node, placed, task

BEFORE, AFTER = placed(j_t="a"), placed(j_t="b")


def reason(here: Fog, of: Job | None = None, *others: Job) -> str | None:
    """Return why the task of a job at the hub moves from ``a`` to ``b``."""
    moved = of or job("j", task("t", "hub", remotely_readable=True), sink="hub")
    return reasons_of_moves([moved, *others], here, BEFORE, AFTER).get(("j", "t"))


def with_links(a_ms: float, b_ms: float, **more: dict[str, Any]) -> Fog:
    """Return a fog of two nodes with these latencies to the hub; ``a``, ``b``: facts of nodes."""
    nodes = [node(name, **more.get(name, {})) for name in ("a", "b")]
    return fog(*nodes, links={("hub", "a"): a_ms, ("hub", "b"): b_ms})


def test_reason_is_the_shorter_path() -> None:
    assert reason(with_links(200, 5)) == "the critical path falls from 400 to 10 ms"


def test_reason_is_the_lower_cost() -> None:
    here = with_links(5, 5, a={"price_per_core_hour": 1000.0}, b={"price_per_core_hour": 0.1})
    assert reason(here) == "the cost falls from 1,000 to 0.1 per hour"


@pytest.mark.parametrize(
    ("scheduler", "why"),
    [
        ("energy", "the battery of a is at 5%; the power falls from 10 to 5 W"),
        ("latency", "the power falls from 10 to 5 W"),
    ],
)
def test_reason_is_the_lower_power_and_for_energy_the_low_battery(scheduler: str, why: str) -> None:
    here = with_links(
        5,
        9,
        a={"battery": Battery(capacity_wh=100, charge_wh=5), "power": Power(idle_w=2, full_w=42)},
        b={"power": Power(idle_w=2, full_w=22)},
    )
    moved = job("j", task("t", "hub", remotely_readable=True), sink="hub", scheduler=scheduler)
    assert reason(here, moved) == why


def test_reason_is_the_missing_capacity() -> None:
    here = with_links(5, 9, a={"cores_free": 0.25})
    assert reason(here) == "a lacks capacity: 1 core needed, 0.25 free"


def test_reason_is_the_larger_share_of_checks() -> None:
    checked = task("t", "hub", remotely_readable=True, points_per_s=100.0, check_core_s=0.01)
    moved = job("j", checked, sink="hub", scheduler="quality")
    here = with_links(5, 5, a={"cores_free": 1.2}, b={"cores_free": 1.8})
    assert reason(here, moved) == "the share of checked points rises from 20% to 80%"


@pytest.mark.parametrize("quality", [0.2, 1.0])
def test_move_without_a_gain_has_no_reason(quality: float) -> None:
    here = with_links(5, 5)
    sources = (SourceQuality(site="hub", accuracy=quality),)
    assert reason(Fog(here.nodes, here.links, sources)) is None


def test_lost_node_is_no_reason_of_the_driver() -> None:
    here = with_links(200, 5)
    assert reason(here.with_nodes([here.by_name["b"]])) is None
