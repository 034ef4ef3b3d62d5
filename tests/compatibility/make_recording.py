"""Record the data and the answers of an earlier version's services, for insights.

    python -m tests.compatibility.make_recording CHECKOUT VERSION

Run it in the root of this repository. ``CHECKOUT`` is a clone of that version with its environment
in ``.venv`` and Ignite's jars in ``.mistbow/jars``. Writes ``site-VERSION.tar.xz`` (the store of a
site with deployments, placements, panes, states and results) and ``site-VERSION.json`` (requests
with their answers) into this folder. The version's own command runs in processes, so this script
imports no code of that version.
"""

import json
import signal
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from ignite_server.ports import free_ports
from tests.storage_agent.compatibility.make_store import (
    STORED,
    answers,
    start,
    without_logs,
)
from tests.support.conditions import eventually

HERE = Path(__file__).parent
RETENTION_MS = 10**12
SITE = """
total = COMPUTE RUNNING_COUNT(cpu) EVERY 1 s;
smooth = COMPUTE EWMA[0.5](cpu) BY entityID EVERY 1 s;
mean = COMPUTE AVG(cpu, 5 s) BY entityID EVERY 1 s;
peak = COMPUTE MAX(cpu, 10 s) WHEN > 3 EVERY 5 s;
middle = COMPUTE MEDIAN(cpu, 5 s) EVERY 5 s WITH SALIENCE 2;
doubled = COMPUTE 2 * INSIGHT mean EVERY 5 s
"""
REPLACED = "early = COMPUTE MIN(cpu, 5 s) EVERY 5 s"
REPLACEMENT = """
early = COMPUTE MIN(cpu, 10 s) EVERY 5 s;
sampled = COMPUTE SUM(cpu, 5 s) EVERY 5 s WITH SAMPLE 0.5
"""
REMOVED = "gone = COMPUTE AVG(mem, 5 s) EVERY 5 s"
WRONG = """
a = COMPUTE AVGG(cpu, 5 s) EVERY 5 s;
b = COMPUTE AVG(cpu, 5 s) EVERY 1 s WITH SAMPLE 7 AND SAMPLE 8
"""
NAMES = {"total", "smooth", "mean", "peak", "middle", "doubled"}
CHANGED_NAMES = {"early", "sampled"}
LONGEST_MS = 10_000
"""The length (ms) of the longest window.

The results are final when the frontier is later than the last point by more than this length.
"""


def put_points(agent: str, seconds: int) -> int:
    """Store a point of two entities every 200 ms; return the time (ms) of the last point.

    ``seconds``: the duration.
    """
    ts = 0
    for number in range(seconds * 5):
        ts = time.time_ns() // 1_000_000
        points = [
            {"metricID": "cpu", "entityID": entity, "val": number * 7 % 10 + shift, "timestamp": ts}
            for shift, entity in enumerate(("a", "b"))
        ]
        httpx.post(f"{agent}/put", json={"monitoring": points}, timeout=60).raise_for_status()
        time.sleep(0.2)
    return ts


def request(url: str, method: str, path: str, queries: str | None = None) -> dict[str, Any]:
    """Send a request; return the request with the status and the decoded answer."""
    body = None if queries is None else {"queries": queries}
    response = httpx.request(method, url + path, timeout=60, json=body)
    answer = response.json() if response.content else None
    sent = {"method": method, "path": path, "queries": queries}
    return {**sent, "status": response.status_code, "answer": answer}


@contextmanager
def running(
    checkout: Path, home: Path, command: str, url: str, settings: Mapping[str, object]
) -> Iterator[None]:
    """Start a command of the version in ``checkout``, and wait until ready; stop it at the end."""
    process = start(checkout, home, command, settings)
    try:
        eventually(lambda: answers(f"{url}/readyz"), timeout=240, what=f"{command} is ready")
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def deploy(enabler: str, text: str) -> str:
    """Deploy insights; return the deployment's id."""
    answer = request(enabler, "POST", "/api/insights", text)
    assert answer["status"] == 201, answer
    return str(answer["answer"]["deployment_id"])


def result_names(enabler: str, deployment: str) -> set[str]:
    """Return the names of a deployment's insights that have results."""
    answer = request(enabler, "GET", f"/api/insights/{deployment}/results")["answer"]
    return {each["insight"] for each in answer["results"]}


def final(worker: str, last: int) -> bool:
    """Return whether all fragments have computed all windows with points up to ``last`` (ms)."""
    fragments = request(worker, "GET", "/fragments")["answer"]
    return bool(fragments) and all(each["frontier"] > last + LONGEST_MS for each in fragments)


def all_run(enabler: str) -> bool:
    """Return whether each deployment has the status ``running``.

    On a busy machine, a deployment can lag for some time.
    """
    deployments = request(enabler, "GET", "/api/insights")["answer"]["deployments"]
    return all(each["status"] == "running" for each in deployments)


def record(agent: str, enabler: str, worker: str, deployments: list[str]) -> list[dict[str, Any]]:
    """Send requests to the enabler, the worker and the agent; return them with the answers."""
    to_enabler: list[tuple[str, str, str | None]] = [
        ("GET", "/api/insights", None),
        *(("GET", f"/api/insights/{one}", None) for one in deployments),
        *(("GET", f"/api/insights/{one}/results?limit=10000", None) for one in deployments),
        ("POST", "/api/insights/check", SITE),
        ("POST", "/api/insights/check", WRONG),
        ("POST", "/api/insights", WRONG),
        ("POST", "/api/insights/explain", SITE),
    ]
    made = [{"service": "enabler", **request(enabler, *each)} for each in to_enabler]
    made.append({"service": "worker", **request(worker, "GET", "/fragments")})
    return [*made, {"service": "agent", **request(agent, "GET", "/streams")}]


def fill(agent: str, enabler: str, worker: str) -> list[str]:
    """Deploy, amend and delete insights, and store points until the results are final.

    Returns the ids of the remaining deployments.
    """
    site, changed = deploy(enabler, SITE), deploy(enabler, REPLACED)
    removed = deploy(enabler, REMOVED)
    put_points(agent, 15)
    path = f"{enabler}/api/insights/{changed}"
    httpx.put(path, json={"queries": REPLACEMENT}, timeout=60).raise_for_status()
    httpx.delete(f"{enabler}/api/insights/{removed}", timeout=60).raise_for_status()
    for _ in range(30):
        last = put_points(agent, 5)
        if result_names(enabler, site) == NAMES and result_names(enabler, changed) >= CHANGED_NAMES:
            break
    eventually(lambda: final(worker, last), timeout=120, what="the results are final")
    eventually(lambda: all_run(enabler), timeout=120, what="no insight lags")
    return [site, changed]


def main(checkout: Path, version: str) -> None:
    """Run the services of the earlier version; write their store and their answers to files."""
    ports = free_ports(6)
    agent, enabler, worker = (f"http://127.0.0.1:{port}" for port in ports[:3])
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        settings = {
            "AGENT_PORT": ports[0], "AGENT_URL": agent, "ENABLER_PORT": ports[1],
            "WORKER_PORT": ports[2], "WORKER_URL": worker, "IGNITE_PORT": ports[3],
            "IGNITE_DISCOVERY_PORT": ports[4], "IGNITE_COMMUNICATION_PORT": ports[5],
        }  # fmt: skip
        with running(checkout, home, "storage", agent, settings):
            config = {
                "retention_ms": None,
                "streams": dict.fromkeys(("results/*", "panes/*", "state/*"), RETENTION_MS),
            }
            httpx.put(f"{agent}/config", json=config).raise_for_status()
            with (
                running(checkout, home, "worker", worker, settings),
                running(checkout, home, "enabler", enabler, settings),
            ):
                deployments = fill(agent, enabler, worker)
                content = record(agent, enabler, worker, deployments)
        text = json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True)
        (HERE / f"site-{version}.json").write_text(text + "\n")
        with tarfile.open(HERE / f"site-{version}.tar.xz", "w:xz", preset=9) as archive:
            for part in STORED:
                archive.add(home / part, part, filter=without_logs)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), sys.argv[2])
