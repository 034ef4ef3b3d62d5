"""The routing table of the host: read from /proc, and stored when it changes."""

from pathlib import Path

import httpx

from mistbow.client.record_model import Route
from storage_agent.records.host_routes import host_routes
from storage_agent.settings import AgentSettings
from tests.support.agents import running_agent
from tests.support.conditions import eventually

IPV4 = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0102A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth0\t0002A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
eth1\t0003A8C0\t00000000\t0000\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""
ZERO = 32 * "0"
GATEWAY = "fe8000000000000000000000000000ff"
IPV6 = f"""fd00{28 * "0"} 40 {ZERO} 00 {ZERO} 00000100 00000001 00000000 00000001     eth0
{ZERO} 00 {ZERO} 00 {GATEWAY} 00000400 00000001 00000000 00000003     eth0
{ZERO[:-1]}1 80 {ZERO} 00 {ZERO} 00000000 00000001 00000000 80200001       lo
{ZERO} 00 {ZERO} 00 {ZERO} ffffffff 00000001 00000000 00200200       lo
"""


def test_host_routes_are_read_from_proc(tmp_path: Path) -> None:
    ipv4, ipv6 = tmp_path / "route", tmp_path / "ipv6_route"
    assert host_routes(ipv4, ipv6) is None
    ipv4.write_text(IPV4)
    seen = [
        Route("0.0.0.0/0", "192.168.2.1", "eth0", 100),
        Route("192.168.2.0/24", None, "eth0", 0),
    ]
    assert host_routes(ipv4, ipv6) == seen
    ipv6.write_text(IPV6)
    assert host_routes(ipv4, ipv6) == [
        *seen,
        Route("fd00::/64", None, "eth0", 256),
        Route("::/0", "fe80::ff", "eth0", 1024),
    ]


def test_agent_stores_routing_table_of_its_host(records_settings: AgentSettings) -> None:
    settings = records_settings.model_copy(update={"collect_routes": True, "node": "looked"})
    with running_agent(settings) as url:

        def own() -> object:
            tables = httpx.post(f"{url}/routing/get", json={}).json()["routing"]
            return [each for each in tables if each["node"] == "looked"]

        [table] = eventually(own, what="the host's table is put")
        [value] = table["values"]
        if value["routes"]:
            assert {"destination", "interface", "metric"} <= value["routes"][0].keys()
