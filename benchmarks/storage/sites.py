"""Benchmark of an average over four sites, compared with an average over a single site."""

import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks.report import Figure
from benchmarks.storage.http_clients import fetch_json, post, run_clients
from benchmarks.storage.storage_site import StorageSite, item, running_site
from mistbow.client.agent import AgentClient
from tests.support.conditions import eventually

_SITES = 4
_SERIES = 100
_SECONDS = 3600
_BODY = 5000
_RUNS = 5
_REQUESTS = 20


def figures(home: Path) -> list[Figure]:
    """Store an hour of points (100 series, one point per second) at each site; measure the
    averages.
    """
    with ExitStack() as stack:
        running: list[StorageSite] = []
        for number in reversed(range(_SITES)):
            settings = {"node": f"node-{number}", "site": f"site-{number}"}
            # Without a token, an agent contacts only sites that it has as peers.
            peers = "" if number else ",".join(each.url for each in running)
            folder = home / f"site-{number}"
            site = stack.enter_context(running_site(folder, peers=peers, **settings))
            running.insert(0, site)
        urls = [each.url for each in running]
        first = AgentClient(urls[0])
        eventually(
            lambda: sum(each.reachable for each in first.fabric().sites) == _SITES,
            timeout=60,
            what="all sites are reachable",
        )
        now = time.time_ns() // 1_000_000
        for each in running:
            _fill(each, now)
        alone = [max(_average(urls, at, [at], now) for at in range(_SITES)) for _ in range(_RUNS)]
        together = [_average(urls, 0, range(_SITES), now) for _ in range(_RUNS)]
        first.close()
    ratios = [both / one for both, one in zip(together, alone, strict=True)]
    return [
        Figure(
            f"average over one hour of {_SITES} sites, {_SERIES * _SECONDS:,} points each, p50",
            "ms",
            together,
        ),
        Figure("the same of the slowest single site", "ms", alone),
        Figure("four sites : the slowest", "ratio", ratios, at_most=2.0),
    ]


def _fill(each: StorageSite, now: int) -> None:
    begin = now - _SECONDS * 1000
    seconds = _BODY // _SERIES
    for second in range(0, _SECONDS, seconds):
        items = [
            item(series, begin + (second + step) * 1000, (series + step) % 100 / 2)
            for step in range(seconds)
            for series in range(_SERIES)
        ]
        body = post(each.url, "/put", {"monitoring": items})
        run_clients(each.url, lambda _, __, body=body: body, clients=1, each=1)  # type: ignore[misc]


def _average(urls: list[str], at: int, sites: "list[int] | range", now: int) -> float:
    body = {
        "metricID": [],
        "from": now - _SECONDS * 1000,
        "to": now,
        "agg": "avg",
        "nodes": [f"node-{number}" for number in sites],
    }
    request = post(urls[at], "/query", body)
    response = fetch_json(urls[at], request)
    assert response["value"] > 0
    assert not response.get("missing")
    return run_clients(urls[at], lambda _, __: request, clients=1, each=_REQUESTS).milliseconds(0.5)
