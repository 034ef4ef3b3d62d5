"""Benchmark of the composed fog: ``make up`` until the first results, memory, CPU, and traffic.

The numbers of sites are those of ``make up``: ``MISTBOW_EDGES=2 MISTBOW_REGIONS=1 python -m
benchmarks composed_fog``. The published ports must be free.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import docker  # type: ignore[import-untyped]
import httpx

from analytics_worker.panes.routing import COLUMNS
from benchmarks.report import Figure, Report
from deploy.compose import CORE, INSIGHTS, folder_of
from deploy.image import ROOT
from fog_emulation.fog_trust import FogTrust
from grammar import ast, parse
from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock, utc_now
from mistbow.streams.wire import encode_rows
from suite.child import RESTART
from tests.support.memory_group import group_of
from tests.support.printed_commands import run_printed_commands

_PROJECT = "mistbow-bench"
_RATE = 5000
_SETTLE_S = 30.0
_REST_S = 30.0
_BUSY_S = 600.0
_GOAL_S = 120.0
_LABEL = "com.docker.compose"
_METRICS = ["passengers", "delay", "fare"]
_NAMES = {
    each.name
    for each in parse(INSIGHTS.read_text()).statements
    if isinstance(each, ast.InsightStatement)
}
_LINE = re.compile(r"^ *(\d+\.\d) s  (.+)$", re.MULTILINE)
_RESULT = re.compile(r"\d\d:\d\d:\d\d (\w+) ")
_HOW = (
    "`make up` of `docker-compose.yml` on one machine with {cores} cores, on {date}: {agents} "
    "sites, {edges} of them edges, without TLS; the image was there. Times are those that `make "
    "up` prints; other work of the machine at the start: a load of {load:.1f}. Printed commands: "
    "from sending the printed point until the printed command shows it in its insight. Memory "
    "without the file cache, at the end; CPU in % of one core over {busy:.0f} s, and at rest over "
    "{rest:.0f} s, with the five insights of `examples/city.insights`; at rest, the buses are "
    "stopped, and the monitoring agents go on. "
    "Raw points: what the insights read of the edges' points, as a subscriber at another site "
    "would get it once a second."
)


@dataclass(frozen=True)
class _Agent:
    """A published agent, by the name of its container, and a token of its site."""

    name: str
    url: str
    token: str


@dataclass(frozen=True)
class _Traffic:
    """What the edges stored and sent in a period, by the second."""

    stored: float
    raw: float
    proxied: float
    other: float


def run() -> Report:
    """Start the fog, measure it, and remove it; this takes 15 minutes."""
    environment = {**os.environ, "COMPOSE_PROJECT_NAME": _PROJECT}
    _deploy("down", environment)
    load = os.getloadavg()[0]
    try:
        output = _deploy("up", environment)
        cpu_s = sum(map(_cpu_ns, _containers().values())) / 1e9
        command_s = run_printed_commands(output, ROOT)
        # This replaces only the container of the buses.
        _deploy("up", {**environment, "MISTBOW_RATE": str(_RATE)})
        time.sleep(_SETTLE_S)
        agents = _agents(output)
        busy, traffic = _load(lambda: _traffic(agents, _BUSY_S))
        kills = sum(map(_kills, _containers().values()))
        _containers()["buses-1"].stop()
        time.sleep(_SETTLE_S)
        rest, _ = _load(lambda: time.sleep(_REST_S))
    finally:
        _deploy("down", environment)
    return Report(
        "The composed fog",
        _HOW.format(
            cores=os.cpu_count(), date=f"{utc_now():%Y-%m-%d}", agents=len(agents), load=load,
            edges=len(_edges(agents)), busy=_BUSY_S, rest=_REST_S,
        ),
        [
            *_times(output),
            Figure("CPU time of all containers until then", "s", [cpu_s]),
            Figure("printed commands: from the point to its result", "s", [command_s]),
            *_traffic_figures(traffic),
            Figure("kills by the kernel, and restarts", "", [kills], at_most=0),
            *_figures("at rest", rest),
            *_figures(f"at {_RATE:,} points/s", busy),
        ],
    )  # fmt: skip


def _deploy(command: str, environment: Mapping[str, str]) -> str:
    """Run a command of ``python -m deploy``, and print its output; return the output."""
    argv = [sys.executable, "-m", "deploy", command]
    lines = []
    with subprocess.Popen(
        argv, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line)
    if process.returncode:
        raise RuntimeError(f"python -m deploy {command} ended with {process.returncode}")
    return "".join(lines)


def _times(output: str) -> Iterator[Figure]:
    """Yield the times that ``make up`` has printed."""
    printed = [(float(seconds), text) for seconds, text in _LINE.findall(output)]
    healthy = {text: seconds for seconds, text in printed if text.endswith(": healthy")}
    (deployed,) = [seconds for seconds, text in printed if text == "the insights are deployed"]
    results = {
        found[1]: seconds for seconds, text in printed if (found := _RESULT.match(text)) is not None
    }
    if results.keys() != _NAMES:
        raise RuntimeError(f"make up printed results of {sorted(results)}, not {sorted(_NAMES)}")
    yield Figure(
        "until the worker of the cloud is healthy", "s", [healthy["worker-cloud-1: healthy"]]
    )
    yield Figure("until the insights are deployed", "s", [deployed])
    yield Figure("until all containers are healthy", "s", [max(healthy.values())])
    yield Figure(
        "until the first result of each insight over all sites", "s", [max(results.values())],
        at_most=_GOAL_S,
    )  # fmt: skip


def _containers() -> dict[str, Any]:
    """Return the containers of the fog: service and number of the replica -> container."""
    found = docker.from_env().containers.list(filters={"label": f"{_LABEL}.project={_PROJECT}"})
    return {
        f"{each.labels[f'{_LABEL}.service']}-{each.labels[f'{_LABEL}.container-number']}": each
        for each in found
    }


def _agents(output: str) -> list[_Agent]:
    """Return the agents whose addresses ``make up`` has printed."""
    trust = FogTrust(folder_of(_PROJECT))
    found = re.findall(r"(http://[\d.:]+) \(([\w-]+)\)", output)
    sites = {name: CORE if name == "storage-cloud-1" else name for _, name in found}
    return [_Agent(name, url, trust.token(sites[name], "reader")) for url, name in found]


def _edges(agents: list[_Agent]) -> list[_Agent]:
    return [agent for agent in agents if agent.name.startswith("edge-")]


def _load(wait: Callable[[], Any]) -> tuple[dict[str, tuple[float, float]], Any]:
    """Measure each container while ``wait`` waits.

    Returns name -> (memory in MB, CPU in %), and the result of ``wait``. 100 % of CPU is one core.
    """
    containers = _containers()
    before = {name: (_cpu_ns(each), time.monotonic()) for name, each in containers.items()}
    result = wait()
    found = {}
    for name, each in containers.items():
        cpu, now = _cpu_ns(each), time.monotonic()
        used = each.stats(stream=False)["memory_stats"]
        memory = used["usage"] - used["stats"].get("inactive_file", 0)
        cpu_before, began = before[name]
        found[name] = (memory / 2**20, (cpu - cpu_before) / (now - began) / 1e7)
    return found, result


def _cpu_ns(container: Any) -> int:
    return int(container.stats(stream=False)["cpu_stats"]["cpu_usage"]["total_usage"])


def _kills(container: Any) -> int:
    """Return the number of restarts of a container and its services, and of kills by the kernel.

    The supervisor in a container restarts services without a restart of the container.
    """
    restarts = container.attrs["RestartCount"] + container.logs().count(RESTART.encode())
    return int(group_of(container.attrs["State"]["Pid"]).oom_kills + restarts)


def _traffic(agents: list[_Agent], seconds: float) -> _Traffic:
    """Measure for a time (s) what the edges store, and what all agents send to other sites."""
    edges = [AgentClient(each.url, token=each.token) for each in _edges(agents)]
    start, heads, sent = system_clock(), _heads(edges), _bytes_between_sites(agents)
    time.sleep(seconds)
    end, stored, after = system_clock(), _heads(edges) - heads, _bytes_between_sites(agents)
    took = (end - start) / 1000
    grown = {kind: (size - sent.get(kind, 0)) / took for kind, size in after.items()}
    raw = 0
    for edge in edges:
        match = {"metric": _METRICS}
        rows = edge.read("raw", match=match, columns=COLUMNS, min_ts=start, max_ts=end)
        each_s = max(1, round(rows.table.num_rows / took))
        raw += sum(
            len(encode_rows(rows.table.slice(begin, each_s)))
            for begin in range(0, rows.table.num_rows, each_s)
        )
        edge.close()
    other = grown.get("heartbeat", 0) + grown.get("metadata", 0)
    return _Traffic(stored / took, raw / took, grown.get("proxy", 0), other)


def _heads(edges: list[AgentClient]) -> int:
    return sum(edge.info("raw").head for edge in edges)


def _bytes_between_sites(agents: list[_Agent]) -> dict[str, float]:
    """Return kind of traffic -> bytes that all agents together have sent to other sites."""
    totals: dict[str, float] = {}
    for agent in agents:
        headers = {"Authorization": f"Bearer {agent.token}"}
        text = httpx.get(f"{agent.url}/metrics", headers=headers).raise_for_status().text
        for line in text.splitlines():
            if line.startswith("mistbow_agent_link_bytes_total") and 'direction="sent"' in line:
                kind = re.findall(r'kind="(\w+)"', line)[0]
                totals[kind] = totals.get(kind, 0.0) + float(line.rsplit(" ", 1)[1])
    return totals


def _traffic_figures(traffic: _Traffic) -> Iterator[Figure]:
    yield Figure("points that the edges store", "1/s", [traffic.stored], at_least=0.99 * _RATE)
    yield Figure("raw points of the edges", "B/s", [traffic.raw])
    yield Figure("panes and requests that cross", "B/s", [traffic.proxied])
    yield Figure("heartbeats and metadata that cross", "B/s", [traffic.other])
    yield Figure(
        "what crosses for insights / raw points", "", [traffic.proxied / traffic.raw], at_most=0.1
    )


def _figures(when: str, load: Mapping[str, tuple[float, float]]) -> Iterator[Figure]:
    yield Figure(f"all containers {when}: CPU", "%", [sum(cpu for _, cpu in load.values())])
    for name, (memory, cpu) in sorted(load.items()):
        yield Figure(f"{name} {when}: memory", "MB", [memory])
        yield Figure(f"{name} {when}: CPU", "%", [cpu])
