"""The real Prometheus of Debian, run over the series of a test."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import cramjam
import httpx

from ignite_server.ports import free_ports
from storage_agent.ingest.protocol import remote_v1_pb2 as remote_write
from tests.storage_agent.promql.fleet import FleetSeries
from tests.support.conditions import eventually
from tests.support.programs import running

LabelledSamples = tuple[Mapping[str, str], Sequence[tuple[int, float]]]
"""A series: its labels, including ``__name__``, and its samples (time in ms, value)."""

_REQUEST_MS = 10 * 60_000
"""The time span (ms) of the samples in a request.

Prometheus refuses samples that are an hour older than the newest sample.
"""


@contextmanager
def running_prometheus(
    folder: Path, series: Sequence[FleetSeries], common: Mapping[str, str]
) -> Iterator[str]:
    """Run Prometheus over series with the labels ``common`` added; yield the URL of Prometheus."""
    labelled = (
        (
            {**common, **each.labels, "entityID": each.entity, "__name__": each.metric},
            each.samples,
        )
        for each in series
    )
    with serving_prometheus(folder, labelled) as url:
        yield url


@contextmanager
def serving_prometheus(folder: Path, series: Iterable[LabelledSamples]) -> Iterator[str]:
    """Run Prometheus, and send series to it by remote write; yield the URL of Prometheus."""
    options = ("--storage.tsdb.retention.time=100y", "--web.enable-remote-write-receiver")
    with configured_prometheus(folder, "global: {}\n", *options) as url:
        with httpx.Client(base_url=f"{url}/api/v1", timeout=30) as api:
            send(api, series)
        yield url


@contextmanager
def configured_prometheus(folder: Path, configuration: str, *options: str) -> Iterator[str]:
    """Run Prometheus with a configuration; yield its URL once it is ready."""
    config = folder / "prometheus.yml"
    config.write_text(configuration)
    (port,) = free_ports(1)
    argv = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        *options,
    ]
    url = f"http://127.0.0.1:{port}"
    with running(argv, folder / "log.txt"):
        eventually(lambda: _is_ready(url), what="Prometheus is ready")
        yield url


def send(api: httpx.Client, series: Iterable[LabelledSamples]) -> None:
    """Send series to Prometheus by remote write."""
    for request in _requests(series):
        body = bytes(cramjam.snappy.compress_raw(request.SerializeToString()))
        answer = api.post("write", content=body)
        assert answer.status_code == 204, answer.text


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready").is_success
    except httpx.TransportError:
        return False


def _requests(series: Iterable[LabelledSamples]) -> list[remote_write.Request]:
    """Return the remote-write requests for series in the order of time.

    Prometheus rejects samples that are out of order.
    """
    requests: defaultdict[int, list[remote_write.TimeSeries]] = defaultdict(list)
    for labels, values in series:
        pairs = [remote_write.Label(name=name, value=labels[name]) for name in sorted(labels)]
        parts: defaultdict[int, list[remote_write.Sample]] = defaultdict(list)
        for ts, value in values:
            sample = remote_write.Sample(timestamp=ts, value=value)
            parts[ts // _REQUEST_MS].append(sample)
        for number, samples in parts.items():
            requests[number].append(remote_write.TimeSeries(labels=pairs, samples=samples))
    return [remote_write.Request(timeseries=requests[number]) for number in sorted(requests)]
