"""Benchmark of a fog of four sites in containers: memory, CPU, and traffic between sites."""

import re
import time
from collections.abc import Iterator, Mapping

import docker  # type: ignore[import-untyped]
import httpx

from analytics_worker.panes.routing import COLUMNS
from benchmarks.report import Figure, Report
from fog_emulation.backend import apply
from fog_emulation.docker_backend import FOG_LABEL
from fog_emulation.timetable import StartNode, StopNode
from mistbow.clock import system_clock
from mistbow.streams.wire import encode_rows
from tests.support.city import CITY, EDGES, running_city
from tests.support.conditions import eventually
from tests.support.emulated_fogs import EmulatedFog

_RATE = 2000
_BUSES = 200
"""The number of buses; each bus has five metrics, so there are 1,000 series."""

_METRICS = ["passengers", "delay"]
_QUERIES = """
passengers_now = COMPUTE AVG(passengers, 10 SECONDS) EVERY 5 SECONDS;
worst_delay = COMPUTE MAX(delay, 30 SECONDS) BY region EVERY 5 SECONDS;
"""
_REST_S = 20
_SETTLE_S = 60
_MEASURED_S = 60


def run() -> Report:
    """Measure the idle fog, then the fog at 2,000 points/s with two insights over all sites."""
    with running_city("bench", rate=_RATE, vehicles=_BUSES) as city:
        fog = city.backend.fog
        buses = next(node for node in fog.nodes if node.label == "buses")
        apply(city.backend, StopNode(buses.name))
        eventually(city.serves, timeout=180, what="the enabler serves")
        client = city.enabler()
        eventually(
            lambda: _workers(city) == 1 + len(EDGES), timeout=180, what="all workers are announced"
        )
        rest = _load(city, _REST_S)
        apply(city.backend, StartNode(buses, tuple(fog.directions_of(buses.name))))
        began = time.monotonic()
        deployment = client.submit(_QUERIES, name="bench").deployment_id

        def complete() -> bool:
            rows = client.results(deployment).results
            return {row.insight for row in rows if not row.missing} == {
                "passengers_now",
                "worst_delay",
            }

        eventually(complete, timeout=180, what="results over all sites")
        first_s = time.monotonic() - began
        time.sleep(_SETTLE_S)
        start, sent = system_clock(), dict(_bytes_between_sites(city))
        busy = _load(city, _MEASURED_S)
        end = system_clock()
        sent = {kind: size - sent.get(kind, 0) for kind, size in _bytes_between_sites(city)}
        raw = _raw_bytes(city, start, end)
        client.close()
    seconds = (end - start) / 1000
    return Report(
        "A fog of four sites",
        f"`docker-compose.yml` with two edges as an emulated fog on two cores, {_BUSES} buses of "
        f"five metrics, {_RATE} points/s in all, two insights over all sites EVERY 5 SECONDS. At "
        f"rest: no points, no insights. Memory as Docker reports it; CPU in % of one core over "
        f"{_MEASURED_S} s. Raw points: what the insights read of the edges' points, as a "
        "subscriber at another site would get it.",
        [
            Figure("from submission to the first result over all sites", "s", [first_s]),
            Figure("raw points of the edges", "B/s", [raw / seconds]),
            Figure("panes and requests that cross", "B/s", [sent["proxy"] / seconds]),
            Figure(
                "heartbeats and metadata that cross", "B/s",
                [(sent.get("heartbeat", 0) + sent.get("metadata", 0)) / seconds],
            ),
            Figure("what crosses for insights / raw points", "", [sent["proxy"] / raw], 0.1),
            *_figures("at rest", rest),
            *_figures(f"at {_RATE} points/s", busy),
        ],
    )  # fmt: skip


def _workers(city: EmulatedFog) -> int:
    agent = city.agent("cloud")
    try:
        return sum(len(site.workers) for site in agent.fabric().sites)
    finally:
        agent.close()


def _load(city: EmulatedFog, seconds: float) -> dict[str, tuple[float, float]]:
    """Measure each container for some seconds; return name -> (memory in MB, CPU in %).

    100 % of CPU is one core.
    """
    ours = {"label": f"{FOG_LABEL}={city.backend.name}"}
    containers = docker.from_env().containers.list(filters=ours)
    before = {each.name: _cpu_ns(each) for each in containers}
    began = time.monotonic()
    time.sleep(seconds)
    found = {}
    for each in containers:
        used = each.stats(stream=False)["memory_stats"]
        memory = used["usage"] - used["stats"].get("inactive_file", 0)
        took = time.monotonic() - began
        name = each.name.removeprefix(f"mistbow-fog-{city.backend.name}-").removesuffix("-1")
        found[name] = (memory / 2**20, (_cpu_ns(each) - before[each.name]) / took / 1e7)
    return found


def _cpu_ns(container: docker.models.containers.Container) -> int:
    return int(container.stats(stream=False)["cpu_stats"]["cpu_usage"]["total_usage"])


def _figures(when: str, load: Mapping[str, tuple[float, float]]) -> Iterator[Figure]:
    for name, (memory, cpu) in sorted(load.items()):
        yield Figure(f"{name} {when}: memory", "MB", [memory])
        yield Figure(f"{name} {when}: CPU", "%", [cpu])


def _bytes_between_sites(city: EmulatedFog) -> Iterator[tuple[str, float]]:
    """Yield (kind of traffic, bytes that all agents together have sent to other sites)."""
    totals: dict[str, float] = {}
    for site in CITY.sites:
        url = f"{city.agent_url(site)}/metrics"
        text = httpx.get(url, headers={"Authorization": f"Bearer {city.token(site)}"}).text
        for line in text.splitlines():
            if line.startswith("mistbow_agent_link_bytes_total") and 'direction="sent"' in line:
                kind = re.findall(r'kind="(\w+)"', line)[0]
                totals[kind] = totals.get(kind, 0.0) + float(line.rsplit(" ", 1)[1])
    yield from totals.items()


def _raw_bytes(city: EmulatedFog, start: int, end: int) -> int:
    size = 0
    for site in EDGES:
        agent = city.agent(site)
        rows = agent.read(
            "raw", match={"metric": _METRICS}, columns=COLUMNS, min_ts=start, max_ts=end
        )
        size += len(encode_rows(rows.table))
        agent.close()
    return size
