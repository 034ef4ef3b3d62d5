"""The equipment of simulated nodes: capacity, power, battery and price, drawn from a generator."""

import numpy as np

from analytics_enabler.scheduling.model.snapshot import Battery, Node
from mistbow.fabric import Power

_BATTERY_SHARE = 0.3
_EDGE_BATTERY_WH = (20.0, 100.0)


def cloud_node(name: str, site: str, region: str, rng: np.random.Generator) -> Node:
    """Return a server of a data centre."""
    return _node(name, site, region, 32.0, 131_072.0, Power(idle_w=120, full_w=350), 0.04, rng)


def region_node(name: str, site: str, region: str, rng: np.random.Generator) -> Node:
    """Return a small server of a region."""
    return _node(name, site, region, 8.0, 16_384.0, Power(idle_w=20, full_w=65), 0.06, rng)


def edge_node(name: str, site: str, region: str, rng: np.random.Generator) -> Node:
    """Return a small computer at the edge, with a battery and a solar panel in some cases."""
    battery = None
    if rng.random() < _BATTERY_SHARE:
        capacity = float(rng.uniform(*_EDGE_BATTERY_WH))
        charge = capacity * float(rng.uniform(0.3, 1.0))
        battery = Battery(capacity_wh=capacity, charge_wh=charge)
    power = Power(idle_w=2.7, full_w=6.4)
    return _node(name, site, region, 4.0, 4096.0, power, 0.02, rng, battery)


def _node(
    name: str,
    site: str,
    region: str,
    cores: float,
    memory_mb: float,
    power: Power,
    price: float,
    rng: np.random.Generator,
    battery: Battery | None = None,
) -> Node:
    free = float(rng.uniform(0.5, 1.0))
    return Node(
        name=name,
        site=site,
        region=region,
        cores=cores,
        cores_free=cores * free,
        memory_mb=memory_mb,
        memory_free_mb=memory_mb * free,
        power=power,
        battery=battery,
        price_per_core_hour=price * float(rng.uniform(0.8, 1.2)),
        price_per_gb=0.05,
    )
