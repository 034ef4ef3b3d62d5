"""The documented configurations of Prometheus, with which a real Prometheus scrapes two sites.

The agents have the identities and tokens of a fog in containers; they need no Ignite for this.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from fog_emulation.fog_trust import TOKENS, FogTrust, NodeTrust
from ignite_server.ports import free_ports
from storage_agent.main import create_app
from storage_agent.settings import AgentSettings
from tests.deployment.monitoring_files import RULES, Config, documented, sites_of
from tests.storage_agent.promql.prometheus import configured_prometheus
from tests.support.conditions import eventually
from tests.support.http_server import served
from tests.support.programs import needs

pytestmark = [pytest.mark.usefixtures("processes"), needs("prometheus")]

_META = "__meta_kubernetes_pod"


@contextmanager
def agents(trust: FogTrust, home: Path, *sites: str) -> Iterator[dict[str, str]]:
    """Serve the agents of several sites; the first site is the core. Yield site -> host:port."""
    found = {
        site: f"127.0.0.1:{port}" for site, port in zip(sites, free_ports(len(sites)), strict=True)
    }
    with ExitStack() as stack:
        for site, at in found.items():
            reach = ("*",) if site == sites[0] else ()
            folder = home / site
            folder.mkdir(mode=0o700)
            for name, content in trust.files(NodeTrust(site, ("agent",), reach)).items():
                (folder / name).write_bytes(content)
                (folder / name).chmod(0o600)
            settings = AgentSettings(
                home=folder,
                site=site,
                node=site,
                agent_url=f"http://{at}",
                peers=",".join(f"http://{other}" for other in found.values() if other != at),
                ignite_port=1,  # nothing listens there
                identity_file=folder / "agent.identity",
                tokens_file=folder / TOKENS,
                collect_routes=False,
            )
            stack.enter_context(served(create_app(settings), int(at.rpartition(":")[2])))
        yield found


def with_static_targets(config: Config, addresses: Mapping[str, str]) -> int:
    """Let each job scrape the agent of its site only; return the number of targets."""
    for site, job in sites_of(config).items():
        [group] = job["static_configs"]
        group["targets"] = [addresses[site]]
    return len(addresses)


def with_pods(config: Config, addresses: Mapping[str, str]) -> int:
    """Let each job discover all pods; return the number of pods.

    The Prometheus of Debian cannot discover pods of Kubernetes: they are listed with the labels
    that the discovery would give them. The enabler of the first site has no label of a site.
    """
    pods = [
        (site, "storage", at, {f"{_META}_label_mistbow_io_site": site})
        for site, at in addresses.items()
    ]
    first = next(iter(addresses))
    pods.append((first, "enabler", addresses[first], {}))
    for job in config["scrape_configs"]:
        [discovery] = job.pop("kubernetes_sd_configs")
        assert discovery["role"] == "pod"
        job["static_configs"] = [
            {
                "targets": ["the-address-is-replaced"],
                "labels": {
                    **label,
                    f"{_META}_name": f"fog-{component}-{site}-0",
                    f"{_META}_ip": at.partition(":")[0],
                    f"{_META}_annotation_prometheus_io_port": at.partition(":")[2],
                    f"{_META}_label_app_kubernetes_io_component": component,
                },
            }
            for site, component, at, label in pods
        ]
    return len(pods)


def samples(prometheus: str, query: str) -> list[tuple[dict[str, str], float]]:
    """Return the labels and the value of each series that a query finds."""
    answer = httpx.get(f"{prometheus}/api/v1/query", params={"query": query}).raise_for_status()
    return [(each["metric"], float(each["value"][1])) for each in answer.json()["data"]["result"]]


@pytest.mark.parametrize(
    ("page", "fill"), [("monitoring.md", with_static_targets), ("kubernetes.md", with_pods)]
)
def test_documented_prometheus_scrapes_two_sites_and_finds_that_they_reach_each_other(
    page: str, fill: Any, tmp_path: Path
) -> None:
    config = documented(page)
    jobs = sites_of(config)
    trust = FogTrust(tmp_path / "trust")
    with agents(trust, tmp_path, *jobs) as addresses:
        count = fill(config, addresses)
        for site, job in jobs.items():
            assert job["authorization"]["credentials_file"].endswith(f"/{site}-reader.token")
            job["authorization"]["credentials_file"] = str(trust.token_file(site, "reader"))
        (tmp_path / "prometheus").mkdir()
        shutil.copy(RULES, tmp_path / "prometheus")
        text = yaml.safe_dump({**config, "global": {"scrape_interval": "1s"}})
        with configured_prometheus(tmp_path / "prometheus", text) as prometheus:

            def all_up() -> bool:
                found = samples(prometheus, "up")
                return len(found) == count and all(value == 1 for _, value in found)

            eventually(all_up, what="both sites are scraped")
            assert {labels["job"] for labels, _ in samples(prometheus, "up")} == {
                f"mistbow-{site}" for site in jobs
            }

            def all_reached() -> bool:
                found = samples(prometheus, "min by (site) (mistbow_agent_peer_reachable)")
                # The process of the tests may also have metrics of agents of other tests.
                values = {labels["site"]: value for labels, value in found}
                return all(values.get(site) == 1 for site in jobs)

            eventually(all_reached, what="both sites reach each other")
        # One job for both sites would need a token that both accept.
        first, second = jobs
        headers = {"Authorization": f"Bearer {trust.token(first, 'reader')}"}
        answer = httpx.get(f"http://{addresses[second]}/metrics", headers=headers)
        assert answer.status_code == httpx.codes.UNAUTHORIZED
