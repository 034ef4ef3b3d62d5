"""Benchmark of reads over many series, and of other requests during these reads.

``python -m benchmarks.many_series SERIES`` measures another number of series.
"""

import asyncio
import http.client
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, urlsplit

import psutil

from benchmarks.report import Figure, Report
from benchmarks.storage.http_clients import post, run_clients
from benchmarks.storage.storage_site import METRICS, item
from ignite_server.server import IgniteServer
from storage_agent.http.accept import ARROW, LINES
from tests.support.conditions import eventually
from tests.support.services import Service, storage_agent

_SERIES = 200_000
_BODY = 5000
_MAX_P99_MS = 250
_MAX_LIST_MS = 20
_PROBE_PAUSE_S = 0.02
_READ_S = 3.0
"""The time (s) for which a read is repeated."""

_CROWD = 200
_CROWD_S = 20.0
"""The number of clients that read at once, and the time (s) until they leave."""

_BACK_OFF_S = 1.0
"""The pause of a client after the answer that too many others read."""

_MB = 2**20
_HOW = (
    "One agent and one Ignite as they are by default (fsync), and the clients, on one machine. "
    "While one client repeats a read, three others send /healthz, a /put of one point, and a "
    "heartbeat, each again and again, with pauses of 20 ms. A row has the p99 of the slowest of "
    "these three, and the read's own duration. "
    f"Last, {_CROWD} clients in another process repeat all these reads at once, for "
    f"{_CROWD_S:.0f} s."
)


@dataclass(frozen=True)
class _Read:
    name: str
    method: str
    path: str
    body: object = None
    repeated: bool = True
    accept: str = "*/*"


class _Activity(Protocol):
    """A thread or a process that reads."""

    def is_alive(self) -> bool: ...


def _reads() -> list[_Read]:
    everything = quote('{__name__=~".+"}')
    now = int(time.time())
    span = f"start={now - 3600}&end={now}&step=60"
    sql = "SELECT metric, count(*), avg(value) FROM {} GROUP BY metric"
    return [
        _Read("PromQL: sum of all series", "GET", f"/api/v1/query?query=sum({everything})"),
        _Read("PromQL: all series", "GET", f"/api/v1/query?query={everything}"),
        _Read(
            "PromQL: sum of a metric over an hour",
            "GET",
            f"/api/v1/query_range?query=sum(metric_1)&{span}",
        ),
        _Read("PromQL: /series", "GET", f"/api/v1/series?match[]={everything}"),
        _Read("PromQL: values of entityID", "GET", "/api/v1/label/entityID/values"),
        _Read("PromQL: /metadata", "GET", "/api/v1/metadata"),
        _Read("/list of all series", "POST", "/list", {}),
        _Read("/list of all series of all nodes", "POST", "/list", {"nodes": []}),
        _Read("/list of all series as lines", "POST", "/list", {}, accept=LINES),
        _Read("a page of /list of 1,000 series", "POST", "/list", {"limit": 1000}),
        _Read("/get of all latest values", "POST", "/get", {}),
        _Read("/get of all latest values as Arrow", "POST", "/get", {}, accept=ARROW),
        _Read("/get of all points", "POST", "/get", {"latest": False}),
        _Read("/query of all latest values", "POST", "/query", {"agg": "avg"}),
        _Read("/query of all points", "POST", "/query", {"agg": "avg", "latest": False}),
        _Read("/nodes", "POST", "/nodes", {}),
        _Read("SQL: latest by metric", "POST", "/sql", {"query": sql.format("latest")}),
        _Read("SQL: historical by metric", "POST", "/sql", {"query": sql.format("historical")}),
        _Read(
            "dry run of deleting all", "DELETE", "/monitoring?dry_run=true", {"groupName": "host"}
        ),
        _Read("deletion of a metric", "DELETE", "/monitoring", {"metricID": "metric.2"}, False),
    ]


def run(series: int = _SERIES) -> Report:
    """Measure reads over ``series`` series; 200,000 take about four minutes."""
    with tempfile.TemporaryDirectory(prefix="mistbow-series-") as name:
        home = Path(name)
        with (
            IgniteServer(home) as ignite,
            storage_agent(home, ignite.port) as agent,
        ):
            figures = [*_load(agent, series), *_lists(agent, series)]
            reads = _reads()
            for read in reads:
                if read.repeated:
                    figures += _measure(agent, read)
            figures += _measure_crowd(agent)
            _wait_until_idle(agent)
            for read in reads:
                if not read.repeated:
                    figures += _measure(agent, read)
            _wait_until_idle(agent)
            figures += _restart(agent)
    return Report(f"Reads over {series:,} series", _HOW, figures)


def _load(agent: Service, series: int) -> list[Figure]:
    def request(_: int, number: int) -> bytes:
        now = time.time_ns() // 1_000_000
        first = number * _BODY
        items = [item(each, now, each / 7) for each in range(first, min(first + _BODY, series))]
        return post(agent.url, "/put", {"monitoring": items})

    times = run_clients(agent.url, request, clients=1, each=-(-series // _BODY))
    _wait_until_idle(agent)
    return [
        Figure(f"new series stored, {_BODY:,} a body", "1/s", [series / times.seconds]),
        _memory("agent's memory", agent),
    ]


def _memory(what: str, agent: Service) -> Figure:
    return Figure(what, "MB", [psutil.Process(agent.pid).memory_full_info().pss / _MB])


def _lists(agent: Service, series: int) -> list[Figure]:
    def request(_: int, number: int) -> bytes:
        entity = (number * 7919) % (series // METRICS)
        return post(agent.url, "/list", {"entityID": [f"node-{entity}"]})

    times = run_clients(agent.url, request, clients=1, each=300)
    return [
        Figure("/list of one entity, p50", "ms", [times.milliseconds(0.5)]),
        Figure("/list of one entity, p99", "ms", [times.milliseconds(0.99)], at_most=_MAX_LIST_MS),
    ]


def _measure(agent: Service, read: _Read) -> list[Figure]:
    """Repeat a read for some seconds while other requests are sent; return the figures."""
    reader = _Reader(agent.url, read)
    reader.start()
    durations = asyncio.run(_probe_during(agent.url, reader))
    if reader.error is not None:
        raise reader.error
    status = reader.statuses[-1]
    limit = "" if status == 200 else f" (refused: {status})"
    p99 = [_quantile(each, 0.99) * 1000 for each in durations]
    return [
        Figure(f"{read.name}: slowest other request, p99", "ms", [max(p99)], at_most=_MAX_P99_MS),
        Figure(f"{read.name}: itself{limit}", "ms", [1000 * each for each in reader.durations]),
    ]


def _measure_crowd(agent: Service) -> list[Figure]:
    """Send other requests while many clients read at once; return the figures."""
    context = multiprocessing.get_context("spawn")
    counts, reading = context.SimpleQueue(), context.Event()
    crowd = context.Process(target=_read_at_once, args=(agent.url, counts, reading))
    crowd.start()
    assert reading.wait(60)
    found = asyncio.run(_probe_during(agent.url, crowd))
    answered, refused, failed = counts.get()
    what = f"{_CROWD} of these reads at once"
    return [
        *(
            Figure(
                f"{what}: {probe}, p99", "ms", [1000 * _quantile(each, 0.99)], at_most=_MAX_P99_MS
            )
            for probe, each in zip(("/healthz", "/put", "heartbeat"), found, strict=True)
        ),
        Figure(f"{what}: answered", "reads", [answered]),
        Figure(f"{what}: refused", "reads", [refused]),
        Figure(f"{what}: failed clients", "", [failed], at_most=0),
    ]


def _read_at_once(url: str, counts: SimpleQueue[tuple[int, int, int]], reading: Event) -> None:
    """Repeat all reads by ``_CROWD`` clients, and leave after ``_CROWD_S`` without the answers.

    ``counts``: receives the numbers of answers, of refusals and of clients that failed.
    ``reading``: is set once all clients read.
    """
    reads = [read for read in _reads() if read.repeated]
    readers = [_Reader(url, reads[number % len(reads)], _CROWD_S) for number in range(_CROWD)]
    for reader in readers:
        reader.start()
    reading.set()
    time.sleep(_CROWD_S)
    statuses = [status for reader in readers for status in reader.statuses]
    answered = sum(status == 200 for status in statuses)
    errors = [f"{reader.name}: {reader.error!r}" for reader in readers if reader.error is not None]
    print(*sorted(set(errors)), sep="\n", file=sys.stderr, flush=True)
    counts.put((answered, len(statuses) - answered, len(errors)))
    os._exit(0)  # without the threads that still wait


class _Reader(threading.Thread):
    """Repeats a read in a thread; its answers are received, and not parsed."""

    def __init__(self, url: str, read: _Read, seconds: float = _READ_S) -> None:
        super().__init__(name=read.name)
        self._seconds = seconds
        self._address = urlsplit(url)
        self._read = read
        self.statuses: list[int] = []
        self.durations: list[float] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        end = time.perf_counter() + self._seconds
        try:
            while not self.durations or (self._read.repeated and time.perf_counter() < end):
                begin = time.perf_counter()
                self._send()
                self.durations.append(time.perf_counter() - begin)
        except BaseException as error:
            self.error = error

    def _send(self) -> None:
        connection = http.client.HTTPConnection(self._address.netloc, timeout=300)
        body = None if self._read.body is None else json.dumps(self._read.body)
        try:
            accept = {"Accept": self._read.accept}
            connection.request(self._read.method, self._read.path, body, accept)
            answer = connection.getresponse()
            content = answer.read(1000)
            # More series than 200,000 may exceed a limit of time or size.
            assert answer.status in (200, 400, 413, 422, 429, 503), (answer.status, content)
            while answer.read(_MB):
                pass
            self.statuses.append(answer.status)
            if answer.status == 429:
                time.sleep(_BACK_OFF_S)
        finally:
            connection.close()


async def _probe_during(url: str, reader: _Activity) -> list[list[float]]:
    """Send the other requests until a reader ends; return their durations (s)."""
    return await asyncio.gather(*(_probe(url, each, reader) for each in _probes(url)))


def _probes(url: str) -> list[Iterator[bytes]]:
    host = urlsplit(url).netloc
    heartbeat = {"site": "probe", "node": "probe", "url": "http://127.0.0.1:9", "instance": "p"}

    def puts() -> Iterator[bytes]:
        while True:
            now = time.time_ns() // 1_000_000
            point = {"metricID": "probe", "entityID": "probe", "val": 1, "timestamp": now}
            yield post(url, "/put", {"monitoring": [point]})

    def repeat(request: bytes) -> Iterator[bytes]:
        while True:
            yield request

    return [
        repeat(f"GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()),
        puts(),
        repeat(post(url, "/fabric/greet", heartbeat)),
    ]


async def _probe(url: str, requests: Iterator[bytes], reader: _Activity) -> list[float]:
    address = urlsplit(url)
    stream, writer = await asyncio.open_connection(address.hostname, address.port)
    durations: list[float] = []
    try:
        while reader.is_alive() or not durations:
            sent = time.perf_counter()
            writer.write(next(requests))
            head = (await stream.readuntil(b"\r\n\r\n")).lower()
            await stream.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
            durations.append(time.perf_counter() - sent)
            assert head.startswith(b"http/1.1 200"), head
            await asyncio.sleep(_PROBE_PAUSE_S)
    finally:
        writer.close()
    return durations


def _restart(agent: Service) -> list[Figure]:
    agent.stop()
    begin = time.perf_counter()
    agent.start()
    ready = time.perf_counter() - begin
    _wait_until_idle(agent)
    return [
        Figure("restart of the agent until it is ready", "s", [ready]),
        _memory("agent's memory after the restart", agent),
    ]


def _wait_until_idle(agent: Service) -> None:
    process = psutil.Process(agent.pid)

    def is_idle() -> bool:
        return process.cpu_percent(1.0) < 20

    eventually(is_idle, timeout=300, what="the agent has stored all metadata")


def _quantile(values: Sequence[float], share: float) -> float:
    if len(values) < 2:
        return values[0]
    return statistics.quantiles(values, n=1000, method="inclusive")[round(share * 1000) - 1]


if __name__ == "__main__":
    count = int(sys.argv[1])
    report = run(count)
    suffix = "" if count == _SERIES else f"_{count}"
    results = Path(__file__).parent / "results"
    (results / f"many_series{suffix}.md").write_text(report.markdown())
    print(report.markdown())
