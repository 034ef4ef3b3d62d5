"""``mistbow storage`` as a process, as a container runs it."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import httpx
import psutil
import pytest

from ignite_server.ports import LOOPBACK, free_ports
from mistbow.client import Point
from mistbow.client.agent import AgentClient
from suite.settings import StorageSettings
from tests.support.conditions import eventually

pytestmark = pytest.mark.usefixtures("processes")

TOKEN = "made-for-this-test"  # noqa: S105


@contextmanager
def storage(folder, services="agent,monitor", **variables):
    """Run ``mistbow storage`` with further environment variables.

    Yield its process, the agent's URL, and the list of printed lines.
    """
    agent, monitor, ignite, discovery, communication = free_ports(5)
    own = {
        "HOME": str(folder / "home"),
        "JARS": str(StorageSettings().jars_folder.absolute()),
        "HOST": "0.0.0.0",  # noqa: S104 - a token is demanded: what is tested
        "SERVICES": services,
        "NODE": "n1",
        "AGENT_PORT": str(agent),
        "MONITOR_PORT": str(monitor),
        "AGENT_URL": "http://other-services-reach-it.here:8300",
        "IGNITE_PORT": str(ignite),
        "IGNITE_DISCOVERY_PORT": str(discovery),
        "IGNITE_COMMUNICATION_PORT": str(communication),
    }
    if "MISTBOW_TOKEN" not in variables:
        (folder / "token").write_text(TOKEN)
        own["TOKEN_FILE"] = str(folder / "token")
    process = subprocess.Popen(
        [sys.executable, "-m", "command_line.app", "storage"],
        env={
            **os.environ,
            **{f"MISTBOW_{name}": value for name, value in own.items()},
            **variables,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(process.stdout), daemon=True)
    reader.start()
    try:
        yield process, f"http://{LOOPBACK}:{agent}", lines
    finally:
        process.terminate()
        process.wait(60)
        reader.join(10)
        process.stdout.close()


def is_ready(url, token=TOKEN):
    try:
        answer = httpx.get(f"{url}/readyz", headers={"Authorization": f"Bearer {token}"})
    except httpx.HTTPError:
        return False
    return answer.status_code == 200


def ignite_of(process):
    children = psutil.Process(process.pid).children()
    return next(each for each in children if "java" in each.name())


@pytest.mark.soak
def test_storage_starts_where_the_jars_of_ignite_are_not_downloaded_yet(tmp_path):
    jars = str(tmp_path / "jars")
    with storage(tmp_path, services="agent", MISTBOW_JARS=jars) as (_, url, _lines):
        eventually(lambda: is_ready(url), timeout=150, what="the agent is ready")


def test_a_sites_storage_with_a_monitor_serves_by_a_token_starts_again_and_ends_in_order(tmp_path):
    with storage(tmp_path) as (process, url, lines):
        eventually(lambda: is_ready(url), timeout=90, what="the agent is ready")
        assert httpx.get(f"{url}/readyz").status_code == 401
        client = AgentClient(url, TOKEN)
        eventually(lambda: client.get(metric="cpu.util", entity="n1"), what="points of the monitor")
        client.close()

        parent = psutil.Process(process.pid)
        agent = next(each for each in parent.children() if each.cmdline()[-1] == "storage_agent")
        ignite = ignite_of(process)
        addresses = {each.laddr.ip for each in ignite.net_connections() if each.status == "LISTEN"}
        assert all(address.removeprefix("::ffff:").startswith("127.") for address in addresses), (
            addresses
        )

        agent.send_signal(signal.SIGKILL)
        agent.wait(10)
        eventually(lambda: is_ready(url), timeout=60, what="the agent is back")

        eventually(lambda: "monitor_ready" in "".join(lines), what="the monitor's first line")

        process.terminate()
        assert process.wait(60) == 0
    output = "".join(lines)
    assert "  ignite | " in output
    assert " monitor | " in output
    assert "   agent | " in output
    assert "was stopped by SIGKILL" in output
    assert TOKEN not in output


def test_ignite_of_storage_neither_inherits_nor_stores_the_secrets_of_the_environment(tmp_path):
    [broker] = free_ports(1)
    secrets = {
        "MISTBOW_TOKEN": "secret-of-the-fog",
        "MISTBOW_MQTT_URL": f"mqtt://user:secret-of-the-broker@{LOOPBACK}:{broker}",
        "AWS_SECRET_ACCESS_KEY": "secret-of-the-cloud",
    }
    with storage(tmp_path, "agent", TZ="Asia/Tokyo", **secrets) as (process, url, _):
        token = secrets["MISTBOW_TOKEN"]
        eventually(lambda: is_ready(url, token), timeout=90, what="the agent is ready")
        client = AgentClient(url, token)
        client.put([Point(metric="m", entity="stored-text", value=1, ts=1)])
        client.close()
        environment = ignite_of(process).environ()
    assert environment["TZ"] == "Asia/Tokyo"
    assert {"PATH", "MISTBOW_RUN"} <= environment.keys()
    assert not [value for value in environment.values() if "secret-of" in value]
    files = [each for each in (tmp_path / "home" / "ignite").rglob("*") if each.is_file()]
    contents = [each.read_bytes() for each in files]
    assert any(b"stored-text" in content for content in contents)
    assert not any(b"secret-of" in content for content in contents)


def test_storage_beyond_loopback_without_a_token_is_refused():
    ended = subprocess.run(
        [sys.executable, "-m", "command_line.app", "storage", "--host", "0.0.0.0"],  # noqa: S104
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode != 0
    assert "MISTBOW_TOKEN_FILE must be" in ended.stderr
