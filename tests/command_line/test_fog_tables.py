"""The tables of ``mistbow fog show``."""

from rich.console import Console

from analytics.fog_models import FogBattery, FogNode, FogPosition, FogPower, FogSnapshot
from command_line.fog_tables import fog_tables


def node(name: str, **facts: object) -> FogNode:
    unknown = dict.fromkeys(
        ("power", "battery", "price_per_core_hour", "price_per_gb", "position"), None
    )
    return FogNode.model_validate(
        {
            "name": name,
            "site": "edge",
            "region": "",
            "cores": 4,
            "cores_free": 3,
            "memory_mb": 4096,
            "memory_free_mb": 2048,
            "clock_mhz": 0,
            "labels": {},
            "operators": [],
            "suspected": False,
            "reliability": 1,
            **unknown,
            **facts,
        }
    )


def shown(*nodes: FogNode) -> str:
    console = Console(width=120)
    fog = FogSnapshot(sites=["edge"], nodes=list(nodes), links=[], sources=[])
    with console.capture() as captured:
        for table in fog_tables(fog):
            console.print(table)
    return captured.get()


def test_facts_of_workers_are_shown() -> None:
    text = shown(
        node("plain"),
        node(
            "solar",
            power=FogPower(idle_w=2.5, full_w=6),
            battery=FogBattery(capacity_wh=50, charge_wh=20, charging_w=4, next_charge_s=5400),
            price_per_core_hour=0.02,
            price_per_gb=0,
            position=FogPosition(latitude=52.5, longitude=13.4),
            reliability=0.5,
        ),
    )
    for fact in (
        "power: 2.5 W idle, 6 W at full load",
        "battery: 20 of 50 Wh, charged with 4 W",
        "next charge: in 1.5 h",
        "price per core and hour: 0.02",
        "price per GB: 0",
        "position: 52.5, 13.4",
        "reliability: 50%",
    ):
        assert fact in text


def test_workers_without_facts_have_no_table_of_facts() -> None:
    assert "known facts" not in shown(node("plain"))
