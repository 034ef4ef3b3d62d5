"""Measures the throughput and latency of requests that store and read points."""

import time

from benchmarks.report import Figure
from benchmarks.storage.http_clients import RequestTimes, fetch_json, post, run_clients
from benchmarks.storage.storage_site import METRICS, StorageSite, bodies, item

_CLIENTS = 4
_SECONDS = 5.0
_RUNS = 5
_SERIES_A_CLIENT = 250
_SERIES = 10_000


def figures(site: StorageSite) -> list[Figure]:
    """Measure requests that store 100 points, store single points, and read one latest value."""
    _store_all(site)
    hundred = [_store(site, 100) for _ in range(_RUNS)]
    single = [_store(site, 1) for _ in range(_RUNS)]
    latest = [_read_latest(site) for _ in range(_RUNS)]
    floor = [_read_health(site) for _ in range(_RUNS)]
    ratios = [one.rate / base.rate for one, base in zip(single, floor, strict=True)]
    return [
        Figure(
            "points acknowledged, 100 a body, 4 clients",
            "1/s",
            [run.rate * 100 for run in hundred],
            at_least=60_000,
        ),
        Figure(
            "requests acknowledged, 1 point a body, 4 clients",
            "1/s",
            [run.rate for run in single],
            at_least=2000,
        ),
        Figure("the same, p50", "ms", [run.milliseconds(0.5) for run in single], at_most=2.0),
        Figure("the same, p99", "ms", [run.milliseconds(0.99) for run in single]),
        Figure(
            f"latest value of one of {_SERIES:,} series, 4 clients",
            "1/s",
            [run.rate for run in latest],
            at_least=2000,
        ),
        Figure("the same, p50", "ms", [run.milliseconds(0.5) for run in latest], at_most=1.5),
        Figure("requests of /healthz, for comparison", "1/s", [run.rate for run in floor]),
        Figure("1 point a body : /healthz", "ratio", ratios),
    ]


def _store_all(site: StorageSite) -> None:
    now = time.time_ns() // 1_000_000
    for begin in range(0, _SERIES, 1000):
        items = [item(series, now, 1.5) for series in range(begin, begin + 1000)]
        body = post(site.url, "/put", {"monitoring": items})
        run_clients(site.url, lambda _, __, body=body: body, clients=1, each=1)  # type: ignore[misc]


def _store(site: StorageSite, points: int) -> RequestTimes:
    # Built again for each run, because the points have the current time.
    bodies_by_client = [
        bodies(site.url, client, points, _SERIES_A_CLIENT, 50) for client in range(_CLIENTS)
    ]
    return run_clients(
        site.url,
        lambda client, n: bodies_by_client[client][n % 50],
        clients=_CLIENTS,
        seconds=_SECONDS,
    )


def _read_latest(site: StorageSite) -> RequestTimes:
    bodies_by_client = [
        post(
            site.url,
            "/get",
            {
                "metricID": [f"metric.{series % METRICS}"],
                "entityID": [f"node-{series // METRICS}"],
            },
        )
        for series in range(_SERIES)
    ]
    [node] = fetch_json(site.url, bodies_by_client[7])["monitoring"]
    assert [len(series["values"]) for series in node["data"]] == [1]
    return run_clients(
        site.url,
        lambda client, n: bodies_by_client[(client * 2500 + 7 * n) % _SERIES],
        clients=_CLIENTS,
        seconds=_SECONDS,
    )


def _read_health(site: StorageSite) -> RequestTimes:
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    return run_clients(site.url, lambda _, __: request, clients=_CLIENTS, seconds=_SECONDS)
