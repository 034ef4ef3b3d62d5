"""Placements that follow the fog, by real workers: links, batteries, prices and load that change.

The points are at a site without a worker, so each fragment can run on two workers.
"""

import pytest

from mistbow.clock import system_clock
from tests.adaptation.deployment import Deploy
from tests.adaptation.fog import AdaptiveFog
from tests.support.conditions import eventually

pytestmark = [pytest.mark.soak, pytest.mark.alone, pytest.mark.timeout(600)]


def test_insight_leaves_a_node_whose_link_degrades(fog: AdaptiveFog, deploy: Deploy) -> None:
    running = deploy("latency")
    link = fog.links[running.node]
    changed_at, link.delay_s = system_clock(), 0.2
    try:
        why = running.await_move(changed_at)
        assert why.startswith("the critical path falls from ")
        running.check_results()
    finally:
        link.delay_s = 0.0


def test_insight_leaves_a_node_whose_battery_runs_low(fog: AdaptiveFog, deploy: Deploy) -> None:
    running = deploy("energy")
    low, changed_at = running.node, system_clock()
    fog.declare(low, node_battery_wh=100, node_charge_wh=5)
    try:
        why = running.await_move(changed_at)
        assert why.startswith(f"the battery of {low} is at 5%")
        running.check_results()
        metrics = {each.name: each.battery for each in fog.enabler.fog().nodes}
        assert metrics[low] is not None
    finally:
        fog.declare(low, node_battery_wh=-1, node_charge_wh=-1)


def test_insight_leaves_a_node_whose_price_rises(fog: AdaptiveFog, deploy: Deploy) -> None:
    running = deploy("cost(per_hour=1)")
    dear, changed_at = running.node, system_clock()
    fog.declare(dear, node_price_per_core_hour=1000)
    try:
        why = running.await_move(changed_at)
        assert "the cost falls from " in why
        running.check_results()
    finally:
        fog.declare(dear, node_price_per_core_hour=-1)


def test_insight_leaves_a_loaded_node(fog: AdaptiveFog, deploy: Deploy) -> None:
    running = deploy("latency")
    loaded, changed_at = running.node, system_clock()
    fog.declare(loaded, node_cores_free=0.01)
    try:
        why = running.await_move(changed_at)
        assert why.startswith(f"the worker {loaded} is a hot spot: its fragments need ")
        running.check_results()
    finally:
        fog.declare(loaded, node_cores_free=-1)

    def kinds() -> bool:
        found = [each.kind for each in fog.enabler.decisions() if each.subject == loaded]
        return found[-2:] == ["hotspot_found", "hotspot_ended"]

    eventually(kinds, timeout=120, what="the hot spot has ended")
