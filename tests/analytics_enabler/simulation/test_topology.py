"""Topologies from matrices, files and generators, and their state over time."""

import gzip
import json
import math
from pathlib import Path

import msgspec
import numpy as np
import pytest

from analytics_enabler.scheduling.model.snapshot import Battery, Fog
from analytics_enabler.simulation.environment import Environment, power_w
from analytics_enabler.simulation.events import Event
from analytics_enabler.simulation.topology import Topology, load_topology, read_matrix
from analytics_enabler.simulation.workload import simulated_jobs
from mistbow.errors import InvalidRequestError
from mistbow.fabric import Power
from tests.analytics_enabler.scheduling.build import city, node

SAMPLE = Path(__file__).parents[3] / "examples" / "round-trips.csv"
HOUR_S = 3600.0


def generator() -> np.random.Generator:
    return np.random.default_rng(1)


def test_matrix_has_one_way_latencies_of_measured_pairs(tmp_path: Path) -> None:
    path = tmp_path / "times.csv.gz"
    path.write_bytes(gzip.compress(b"0,10,0,0\n10,0,4,0\n0,4,0,0\n0,0,0,0\n"))
    expected = [[0, 5, math.inf], [5, 0, 2], [math.inf, 2, 0]]
    assert read_matrix(path).tolist() == expected


@pytest.mark.parametrize("content", ["0,1\n", "0,-1\n-1,0\n", "0,nan\nnan,0\n", "a"])
def test_invalid_matrix_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    path.write_text(content)
    with pytest.raises(InvalidRequestError, match="cannot be read"):
        load_topology(f"matrix:{path}", 10, generator())


@pytest.mark.parametrize("source", ["tiers", f"matrix:{SAMPLE}"])
def test_generated_topology_has_requested_nodes_and_reachable_sites(source: str) -> None:
    topology = load_topology(source, 40, generator())
    fog = Environment(topology, generator()).fog(0.0)
    assert len(topology.nodes) == len(fog.nodes) == 40
    sites = {site for names in topology.regions.values() for site in names}
    assert all(fog.latency_ms(site, hub) < 1000 for site in sites for hub in topology.hubs.values())
    jobs = simulated_jobs(topology, 10, "fair", generator())
    assert len(jobs) == 3
    assert {task.pinned for job in jobs for task in job.tasks} <= {None, *sites}


def test_groups_read_sites_of_one_region_or_of_several() -> None:
    topology = load_topology("tiers", 100, generator())
    region_of = {node.site: node.region for node in topology.nodes}
    for number, job in enumerate(simulated_jobs(topology, 40, "fair", generator())):
        regions = [region_of[task.pinned] for task in job.tasks if task.pinned is not None]
        home = sorted(topology.hubs)[number]
        assert job.sink == topology.hubs[home]
        assert regions[0] == home
        assert len(set(regions)) == (5 if number % 2 else 1)


def test_fog_of_show_is_a_topology(tmp_path: Path) -> None:
    path = tmp_path / "fog.json"
    fog = msgspec.to_builtins(city())
    path.write_text(json.dumps({**fog, "sites": ["cloud", "edge1", "edge2"]}))
    topology = load_topology(str(path), 40, generator())
    assert topology.nodes == city().nodes
    assert topology.regions == {"north": ("edge1",), "region": ("cloud",), "south": ("edge2",)}


def with_battery(charge_wh: float) -> Topology:
    battery = Battery(capacity_wh=10.0, charge_wh=charge_wh)
    power = Power(idle_w=2.0, full_w=6.0)
    edge = node("a", cores=4, battery=battery, power=power, price_per_core_hour=1.0)
    return Topology((edge, node("b")), (), {"r": ("a",)}, {"r": "b"}, offsets_h={"a": 0.0})


def test_battery_empties_at_night_and_charges_by_day() -> None:
    environment = Environment(with_battery(4.0), generator())
    (edge, _) = environment.fog(0.0).nodes
    assert edge.battery == Battery(capacity_wh=10.0, charge_wh=4.0, next_charge_s=6 * HOUR_S)
    environment.advance(0.0, HOUR_S, {"a": 1.0})  # 2 W, and a quarter of 4 W
    (edge, _) = environment.fog(HOUR_S).nodes
    assert edge.battery is not None
    assert edge.battery.charge_wh == pytest.approx(1.0)
    environment.advance(HOUR_S, HOUR_S, {"a": 1.0})
    assert [each.name for each in environment.fog(2 * HOUR_S).nodes] == ["b"]
    environment.advance(11 * HOUR_S, 2 * HOUR_S, {})  # around noon, at 0.3 of the capacity
    (edge, _) = environment.fog(13 * HOUR_S).nodes
    assert edge.battery is not None
    assert edge.battery.charge_wh == pytest.approx(6.0)
    assert edge.battery.next_charge_s == 0.0


def test_price_is_highest_in_the_evening() -> None:
    environment = Environment(with_battery(10.0), generator())
    prices = [environment.fog(hour * HOUR_S).nodes[0].price_per_core_hour for hour in range(24)]
    assert prices.index(max(prices)) == 19
    assert max(prices) == pytest.approx(1.5)
    assert min(prices) == pytest.approx(0.5)


def test_mobile_nodes_move_and_failed_nodes_are_gone() -> None:
    topology = load_topology("tiers", 60, generator())
    environment = Environment(topology, generator())
    before = latencies(environment.fog(0.0), topology)
    for step in range(10):
        environment.apply(Event(float(step), "step"))
    assert latencies(environment.fog(10.0), topology) != before
    environment.apply(Event(11.0, "failure", topology.mobile[0]))
    assert topology.mobile[0] not in environment.fog(11.0).by_name
    environment.apply(Event(12.0, "repair", topology.mobile[0]))
    assert topology.mobile[0] in environment.fog(12.0).by_name


def latencies(fog: Fog, topology: Topology) -> list[float]:
    return [fog.latency_ms(name, "cloud") for name in topology.mobile]


def test_power_includes_used_cores() -> None:
    power = Power(idle_w=2.0, full_w=6.0)
    assert power_w(node("a", cores=4, cores_free=2, power=power), 1.0) == 5.0
    assert power_w(node("a", cores=4), 1.0) == 0.0
