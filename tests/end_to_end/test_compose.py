"""Plain ``docker compose up`` and ``make identities``, as docs/operations.md describes them."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest

from analytics.client.enabler import EnablerClient
from deploy.compose import CORE, find_tool, folder_of
from fog_emulation.fog_trust import FogTrust
from ignite_server.ports import free_ports
from tests.support.conditions import eventually
from tests.support.emulated_fogs import NEED_IMAGE, ROOT

pytestmark = NEED_IMAGE

START_S = 300
INSIGHT = "delays = COMPUTE COUNT(delay, 10 SECONDS) EVERY 5 SECONDS"


@pytest.fixture
def environment(containers: None) -> Iterator[dict[str, str]]:
    """Yield the environment of a project with a cloud, a region and an edge, removed afterwards."""
    ports = zip(
        ("ENABLER_PORT", "CLOUD_PORT", "REGION_PORTS", "EDGE_PORTS"), free_ports(4), strict=True
    )
    chosen = {
        **os.environ,
        "COMPOSE_PROJECT_NAME": f"mistbow-test-{uuid.uuid4().hex[:8]}",
        "MISTBOW_REGIONS": "1",
        "MISTBOW_EDGES": "1",
        **{f"MISTBOW_{name}": str(port) for name, port in ports},
    }
    yield chosen
    deploy("down", chosen)


def deploy(command: str, environment: dict[str, str]) -> None:
    argv = [sys.executable, "-m", "deploy", command]
    subprocess.run(argv, cwd=ROOT, env=environment, check=True)


def test_compose_up_and_identities_start_a_fog_with_results(environment: dict[str, str]) -> None:
    subprocess.run([*find_tool(), "up", "--detach"], cwd=ROOT, env=environment, check=True)
    deploy("identities", environment)
    url = f"http://127.0.0.1:{environment['MISTBOW_ENABLER_PORT']}"
    token = FogTrust(folder_of(environment["COMPOSE_PROJECT_NAME"])).token(CORE, "admin")
    headers = {"Authorization": f"Bearer {token}"}

    def is_ready() -> bool:
        try:
            return httpx.get(f"{url}/readyz", headers=headers).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    eventually(is_ready, timeout=START_S, what="the enabler is ready", pause=0.5)
    with closing(EnablerClient(url, token=token)) as enabler:
        workers = {"worker-cloud", "edge-1"}
        eventually(
            lambda: {node.name for node in enabler.fog().nodes} == workers,
            timeout=START_S,
            what="the workers have announced themselves",
            pause=0.5,
        )
        deployment = enabler.submit(INSIGHT).deployment_id

        def counts_all_sites() -> bool:
            results = enabler.results(deployment).results
            return any(each.value and not each.missing for each in results)

        eventually(counts_all_sites, timeout=START_S, what="a result of all sites", pause=0.5)
