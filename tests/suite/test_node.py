"""``mistbow supervise`` as a process, as a container without storage runs it."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import psutil
import pytest
from pydantic import ValidationError

from ignite_server.ports import free_ports
from mistbow.auth.credential import Kind
from mistbow.auth.fog_keys import FogKeys
from mistbow.auth.token_file import new_token_file, write_token_file
from mistbow.clock import utc_now
from storage_agent.main import create_app
from storage_agent.settings import AgentSettings
from suite.node import processes as processes_of
from suite.settings import NodeSettings
from tests.support.conditions import eventually
from tests.support.http_server import served
from tests.support.services import Service

SITE = "cloud"


@pytest.fixture
def identities(fog_keys: FogKeys) -> dict[Kind, Path]:
    """Return the identity of a service of each kind at one site: kind -> file."""
    end = utc_now() + timedelta(days=1)
    kinds: tuple[Kind, ...] = ("agent", "worker", "monitor")
    found = {kind: fog_keys.issue(f"{kind}-{SITE}", kind, SITE, end) for kind in kinds}
    return found | {"enabler": fog_keys.issue(f"enabler-{SITE}", "enabler", SITE, end, ["*"])}


@pytest.fixture
def agent(tmp_path: Path, identities: dict[Kind, Path]) -> Iterator[str]:
    """Serve an agent that stores points in its spool, and yield its URL."""
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    settings = AgentSettings(
        home=tmp_path / "agent",
        site=SITE,
        node=SITE,
        agent_url=url,
        ignite_port=1,  # nothing listens there
        identity_file=identities["agent"],
        collect_routes=False,
    )
    with served(create_app(settings), port):
        yield url


@pytest.mark.usefixtures("processes")
def test_monitoring_agent_stores_points_by_its_own_identity_and_a_killed_enabler_starts_again(
    tmp_path: Path, identities: dict[Kind, Path], agent: str
) -> None:
    enabler_port, monitor_port = free_ports(2)
    tokens, token = new_token_file().with_token("reader", frozenset({"read"}), "", None)
    write_token_file(tmp_path / "tokens.json", tokens)
    settings = {
        "home": tmp_path / "node",
        "services": "enabler,monitor",
        "node": "n1",
        "agent_url": agent,
        "enabler_port": enabler_port,
        "monitor_port": monitor_port,
        "identity_file": identities["enabler"],
        "monitor_identity_file": identities["monitor"],
        "tokens_file": tmp_path / "tokens.json",
    }
    node = Service("command_line.app", monitor_port, settings, arguments=["supervise"], token=token)
    node.launch()
    try:
        # The monitoring agent is ready when the agent, which refuses points of an enabler, has
        # stored its points.
        node.wait()
        at_enabler = f"http://127.0.0.1:{enabler_port}/healthz"
        eventually(lambda: httpx.get(at_enabler).is_success, what="the enabler answers", timeout=60)
        children = psutil.Process(node.pid).children()
        enabler = next(each for each in children if each.cmdline()[-1] == "analytics_enabler")
        enabler.kill()
        enabler.wait(10)
        eventually(lambda: httpx.get(at_enabler).is_success, what="the enabler is back", timeout=60)
    finally:
        node.stop()
    for url in (f"{node.url}/healthz", at_enabler):
        with pytest.raises(httpx.ConnectError):
            httpx.get(url)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("role", ["worker", "enabler"])
def test_supervisor_starts_without_the_packages_that_the_image_of_a_role_lacks(role: str) -> None:
    for module in ("suite.node", "command_line.app"):
        command = (sys.executable, "-c", f"from tests.support import role_program as r; import sys;"
                   f"sys.meta_path.insert(0, r.MissingPackages(r.omitted_packages({role!r})));"
                   f"import {module}")  # fmt: skip
        subprocess.run(command, check=True, timeout=60)


def test_identities_are_of_the_kinds_of_the_services(identities: dict[Kind, Path]) -> None:
    given = {
        "services": "worker,monitor",
        "identity_file": identities["worker"],
        "monitor_identity_file": identities["monitor"],
    }
    variables = [
        each.env["MISTBOW_IDENTITY_FILE"]
        for each in processes_of(NodeSettings.model_validate(given))
    ]
    assert variables == [str(identities["worker"]), str(identities["monitor"])]
    for setting, wrong in (
        ("identity_file", {"services": "enabler,monitor"}),
        ("identity_file", {"identity_file": identities["agent"]}),
        ("monitor_identity_file", {"monitor_identity_file": identities["worker"]}),
        ("monitor_identity_file", {"monitor_identity_file": None}),
        ("services", {"services": "worker,enabler"}),
        ("services", {"services": "monitor,monitor"}),
    ):
        with pytest.raises(ValidationError) as refused:
            NodeSettings.model_validate({**given, **wrong})
        assert [each["loc"] for each in refused.value.errors()] == [(setting,)]


def test_worker_has_time_to_be_drained_before_it_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    def patience() -> list[float]:
        return [each.patience_s for each in processes_of(NodeSettings(services="worker,monitor"))]

    usual, of_monitor = patience()
    monkeypatch.setenv("MISTBOW_DRAIN_S", "20")
    assert patience() == [usual + 20, of_monitor]
