"""A real Prometheus that scrapes itself and writes to the agent."""

from pathlib import Path

from mistbow.client.agent import AgentClient
from mistbow.ports import free_ports
from tests.storage_agent.ingest.conftest import counted, stored
from tests.support.programs import needs, running
from tests.support.waiting import eventually

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
def test_prometheus_writes_what_it_scrapes(url: str, client: AgentClient, tmp_path: Path) -> None:
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
    # Whatever Prometheus says of itself is taken.
    log = (tmp_path / "log.txt").read_text()
    assert "points are not stored" not in log
    assert "non-recoverable" not in log
    after = counted(
        url, "mistbow_agent_refused_points_total", reason="value", source="remote write"
    )
    assert after == refused
