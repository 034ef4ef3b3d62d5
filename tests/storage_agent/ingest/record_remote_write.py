"""Record a request of remote write 2.0 from a real Prometheus, for ``test_prometheus.py``.

Run ``python -m tests.storage_agent.ingest.record_remote_write PROMETHEUS`` with the path of the
program of a Prometheus from 2.54 on. Prometheus scrapes a small target, and sends the samples to
this script.
"""

import base64
import json
import sys
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

from tests.support.programs import running

RECORD = Path(__file__).parent / "remote-write-2.0.json"

_HEADERS = ("Content-Type", "Content-Encoding", "X-Prometheus-Remote-Write-Version", "User-Agent")
_EXPOSED = """\
# HELP oven_heat_celsius The heat of an oven.
# TYPE oven_heat_celsius gauge
# UNIT oven_heat_celsius celsius
oven_heat_celsius{node="left",group="bread"} 181.5
oven_heat_celsius{node="right",group="bread"} 175
# HELP oven_loaves Loaves that were baked.
# TYPE oven_loaves counter
oven_loaves_total{node="left"} 12
# HELP oven_wait_seconds Time until an oven was free.
# TYPE oven_wait_seconds histogram
oven_wait_seconds_bucket{le="1.0"} 2
oven_wait_seconds_bucket{le="+Inf"} 3
oven_wait_seconds_sum 7.25
oven_wait_seconds_count 3
# EOF
"""
_CONFIG = """\
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: bakery
    static_configs: [{{targets: ["127.0.0.1:{port}"], labels: {{instance: "oven:9100"}}}}]
remote_write:
  - url: http://127.0.0.1:{port}/api/v1/write
    protobuf_message: io.prometheus.write.v2.Request
    queue_config: {{batch_send_deadline: 500ms, max_shards: 1}}
"""


def record(prometheus: str) -> None:
    """Run Prometheus until it has sent a request, and store this request in a file."""
    requests: SimpleQueue[dict[str, object]] = SimpleQueue()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header(
                "Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8"
            )
            self.end_headers()
            self.wfile.write(_EXPOSED.encode())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name: self.headers[name] for name in _HEADERS}
            requests.put({"headers": headers, "body": base64.b64encode(body).decode()})
            self.send_response(204)
            for kind, count in (("Samples", "100"), ("Histograms", "0"), ("Exemplars", "0")):
                self.send_header(f"X-Prometheus-Remote-Write-{kind}-Written", count)
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "prometheus.yml").write_text(_CONFIG.format(port=server.server_port))
        argv = [
            prometheus,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            "--web.listen-address=127.0.0.1:0",
            "--enable-feature=metadata-wal-records",
        ]
        with running(argv, folder / "log.txt"):
            found = requests.get(timeout=60)
    RECORD.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    record(sys.argv[1])
