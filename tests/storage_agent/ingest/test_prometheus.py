"""Remote write by a real Prometheus, and by a recorded request of a newer Prometheus."""

import base64
import json
from pathlib import Path

import httpx

from ignite_server.ports import free_ports
from mistbow.client.agent import AgentClient
from tests.storage_agent.ingest.conftest import counted, stored
from tests.storage_agent.ingest.record_remote_write import RECORD
from tests.support.conditions import eventually
from tests.support.programs import needs, running

CONFIG = """\
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: itself
    static_configs: [{{targets: ["127.0.0.1:{port}"], labels: {{rack: "7"}}}}]
remote_write:
  - url: {url}/api/v1/write
    queue_config: {{batch_send_deadline: 500ms}}
"""


@needs("prometheus")
def test_prometheus_writes_scraped_samples(url: str, client: AgentClient, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    (tmp_path / "prometheus.yml").write_text(CONFIG.format(port=port, url=url))
    refused = counted(
        url, "mistbow_agent_refused_points_total", reason="value", source="remote write"
    )
    argv = [
        "prometheus",
        f"--config.file={tmp_path / 'prometheus.yml'}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    target = f"127.0.0.1:{port}"
    with running(argv, tmp_path / "log.txt"):
        eventually(
            lambda: len(stored(client, "up").get(("up", target), [])) >= 3,
            what="three scrapes have arrived",
        )
    [found] = client.get("up")[0].data
    assert (found.group, found.values[0].value) == ("itself", 1)
    # All of the metrics of Prometheus itself are accepted.
    log = (tmp_path / "log.txt").read_text()
    assert "points are not stored" not in log
    assert "non-recoverable" not in log
    after = counted(
        url, "mistbow_agent_refused_points_total", reason="value", source="remote write"
    )
    assert after == refused


def test_recorded_request_of_version_2_is_stored(url: str) -> None:
    """Send a request of Prometheus 2.54.1, which has the unit in the place of the help text."""
    sent = json.loads(RECORD.read_text())
    body = base64.b64decode(sent["body"])
    answer = httpx.post(f"{url}/api/v1/write", content=body, headers=sent["headers"])
    assert answer.status_code == 204, answer.text
    assert answer.headers["x-prometheus-remote-write-samples-written"] == "12"

    rows = _query(url, "oven_heat_celsius")
    own = {"node": "n1", "site": "n1"}
    sender = {"instance": "oven:9100", "job": "bakery", "group": "bread"}
    name = {"__name__": "oven_heat_celsius"}
    assert sorted(rows, key=lambda row: row[1]) == [
        ({**name, **own, **sender, "exported_node": "right"}, "175"),
        ({**name, **own, **sender, "exported_node": "left"}, "181.5"),
    ]
    assert [value for _, value in _query(url, "sum by (job) (oven_heat_celsius)")] == ["356.5"]


def _query(url: str, query: str) -> list[tuple[dict[str, str], str]]:
    sent_at = 1_795_403_611
    parameters = {"query": query, "time": str(sent_at)}
    rows = httpx.get(f"{url}/api/v1/query", params=parameters).json()["data"]["result"]
    return [(row["metric"], row["value"][1]) for row in rows]
