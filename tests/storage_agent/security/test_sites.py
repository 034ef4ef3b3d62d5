"""Scopes of requests to other sites, with TLS between agents and to Ignite."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from pydantic import SecretStr
from pyignite import Client

from ignite_server.ports import free_ports
from ignite_server.server import IgniteServer
from mistbow.client import AgentClient, Point
from mistbow.errors import UnavailableError
from storage_agent.ignite.client import IgniteClient
from storage_agent.ignite.tls import ServerTls, client_tls
from storage_agent.main import create_app
from storage_agent.settings import AgentSettings
from tests.storage_agent.security.conftest import FOG, entities, guarded, put
from tests.support.certificates import Authority
from tests.support.conditions import eventually
from tests.support.http_server import served
from tests.support.ignite import empty
from tests.support.sites import wait_until_reached

LATEST = {"metricID": ["m"]}
PASSWORD = 'of "the" <key> & store'  # noqa: S105 - of this test only


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def guarded_ignite(
    processes: None, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[IgniteServer]:
    store = authority.serve("127.0.0.1", name="ignite").key_store(PASSWORD)
    tls = ServerTls(store, PASSWORD, authority.file)
    with IgniteServer(tmp_path_factory.mktemp("ignite"), durability="memory", tls=tls) as server:
        yield server


def test_scopes_apply_at_other_sites_over_tls(
    ignite_server: IgniteServer,
    guarded_ignite: IgniteServer,
    authority: Authority,
    tmp_path: Path,
) -> None:
    empty(ignite_server)
    here, there = free_ports(2)
    shown = authority.serve("127.0.0.1", name="agent")
    far = AgentSettings(
        home=tmp_path / "far",
        node="n2",
        site="far",
        token=SecretStr(FOG),
        labels="rack=7",
        agent_url=f"https://127.0.0.1:{there}",
        ignite_port=guarded_ignite.port,
        ignite_tls_ca=authority.file,
        tls_ca=authority.file,
    )
    files: dict[str, Any] = {"ssl_certfile": shown.certificate, "ssl_keyfile": shown.key}
    near = {
        "site": "near",
        "agent_url": f"http://127.0.0.1:{here}",
        "peers": far.agent_url,
        "tls_ca": authority.file,
    }
    with (
        served(create_app(far), there, **files),
        guarded(tmp_path / "near", ignite_server.port, here, **near) as agent,
    ):
        client = AgentClient(agent.url, FOG)
        wait_until_reached(client, "far")
        client.close()
        agent.add("viewer", "read")
        agent.add("bus", "ingest", "read", prefix="bus-")
        agent.add("other", "ingest")

        assert agent.status("fog", "POST", "/put?site=far", put("bus-1", "tram-1")) == 200
        assert agent.status("viewer", "POST", "/put?site=far", put("bus-1")) == 403
        assert agent.status("viewer", "POST", "/streams/x/claim?site=far") == 403
        refused = agent.ask("bus", "POST", "/put?site=far", put("tram-1"))
        assert (refused.status_code, "tram-1" in refused.text) == (403, True)
        for name, entity, status in (
            ("bus", "bus-2", 200),
            ("other", "bus-3", 200),
            ("other", "bus-4", 422),
        ):
            body = put(entity, value=0.0 if name == "other" else 1.0)
            answer = agent.ask(name, "POST", "/put?site=far", body, key="k")
            assert answer.status_code == status

        everywhere = {**LATEST, "nodes": []}
        assert entities(agent.ask("viewer", "POST", "/get?site=far", LATEST)) == [
            "bus-1",
            "bus-2",
            "bus-3",  # the key of another token is another; bus-4 came with a used key
            "tram-1",
        ]
        buses = ["bus-1", "bus-2", "bus-3"]
        assert entities(agent.ask("bus", "POST", "/get?site=far", LATEST)) == buses
        assert entities(agent.ask("bus", "POST", "/get", everywhere)) == buses
        total = agent.ask("bus", "POST", "/query", {**everywhere, "agg": "sum"})
        assert total.json()["value"] == 2
        # Its facts are here too.
        listed = eventually(lambda: _all(agent.ask("bus", "POST", "/list", everywhere).json()))
        assert sorted(item["entityID"] for item in listed) == buses


def _all(answer: dict[str, Any]) -> list[Any]:
    return answer["metric"] if len(answer["metric"]) >= 3 else []


def test_client_trusts_the_given_authority_only(
    guarded_ignite: IgniteServer, authority: Authority, tmp_path: Path
) -> None:
    shown = authority.serve("127.0.0.1", name="client")
    settings = AgentSettings(
        home=tmp_path,
        token=SecretStr(FOG),
        ignite_port=guarded_ignite.port,
        ignite_tls_ca=authority.file,
    )
    files: dict[str, Any] = {"ssl_certfile": shown.certificate, "ssl_keyfile": shown.key}
    with served(create_app(settings), **files) as url:
        https = url.replace("http:", "https:")
        client = AgentClient(https, FOG, ca=authority.file)
        eventually(lambda: client.streams(), what="the agent has recovered")
        client.put([Point("m", "e", 1_790_000_000_000, 1.0)])
        assert client.get(metric="m")[0].data
        client.close()
        with pytest.raises(UnavailableError, match="certificate verify failed"):
            AgentClient(https, FOG).get(metric="m")


async def test_agent_trusts_ignite_by_its_certificate_only(
    guarded_ignite: IgniteServer, authority: Authority, tmp_path: Path
) -> None:
    assert (guarded_ignite.config.folder / "server.xml").stat().st_mode & 0o077 == 0
    # Who does not speak TLS, or trusts others, gets nowhere; neither does another host's name.
    port = guarded_ignite.port
    for options in ({}, client_tls(Authority(tmp_path).file, named=False)):
        client = Client(timeout=3, handshake_timeout=3, **options)
        with pytest.raises(Exception), client.connect("127.0.0.1", port):  # noqa: B017, PT011
            client.get_cache_names()
    for host, answers in (("127.0.0.1", True), ("localhost", False)):
        client = IgniteClient([(host, port)], ca=authority.file)
        client.start()
        assert await client.wait_connected(10 if answers else 1) == answers
        assert await client.answers() == answers
        await client.close()


def test_ignite_with_tls_listens_on_loopback_only(guarded_ignite: IgniteServer) -> None:
    config = guarded_ignite.config
    family = [psutil.Process(guarded_ignite.pid)]
    family += family[0].children(recursive=True)
    listening = {
        (each.laddr.ip.removeprefix("::ffff:"), each.laddr.port)
        for process in family
        for each in process.net_connections("inet")
        if each.status == psutil.CONN_LISTEN or each.type.name == "SOCK_DGRAM"
    }
    # Neither REST (8080), nor JMX (49112), nor the connector of the control utility (11211).
    ports = (config.port, config.discovery_port, config.communication_port)
    assert listening == {("127.0.0.1", port) for port in ports}
