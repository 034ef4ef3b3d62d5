"""The real Prometheus of Debian, over series that a test gives it."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from mistbow.ports import free_ports
from tests.storage_agent.promql.fleet import Fleet
from tests.support.programs import running
from tests.support.waiting import eventually


@contextmanager
def running_prometheus(
    folder: Path, series: Sequence[Fleet], common: Mapping[str, str]
) -> Iterator[str]:
    """Serve series, each with some more labels, and yield the address."""
    text, data, config = folder / "samples.txt", folder / "data", folder / "prometheus.yml"
    text.write_text("".join(_lines(each, common) for each in series) + "# EOF\n")
    config.write_text("global: {}\n")
    blocks = ["promtool", "tsdb", "create-blocks-from", "openmetrics", text, data]
    subprocess.run(blocks, check=True, capture_output=True)
    (port,) = free_ports(1)
    argv = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={data}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    url = f"http://127.0.0.1:{port}"
    with running(argv, folder / "log.txt"):
        eventually(lambda: _is_ready(url), what="Prometheus is ready")
        yield url


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready").is_success
    except httpx.TransportError:
        return False


def _lines(series: Fleet, common: Mapping[str, str]) -> str:
    labels = {**common, **series.labels, "entityID": series.entity}
    told = ",".join(f'{name}="{value}"' for name, value in sorted(labels.items()))
    return "".join(
        f"{series.metric}{{{told}}} {value!r} {ts // 1000}.{ts % 1000:03}\n"
        for ts, value in series.samples
    )
