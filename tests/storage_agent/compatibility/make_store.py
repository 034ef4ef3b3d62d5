"""Make a store with any version of Mistbow, and record the answers that this version gives.

    python -m tests.storage_agent.compatibility.make_store CHECKOUT VERSION

``CHECKOUT`` is a clone of that version with its environment in ``.venv`` and Ignite's jars in
``.mistbow/jars``. Writes ``store-VERSION.tar.xz`` and ``answers-VERSION.json`` into this folder.
The version's own command runs in processes, so this script imports no code of that version.
"""

import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa

from ignite_server.ports import free_ports
from mistbow.client.agent import AgentClient
from tests.support.conditions import eventually

HERE = Path(__file__).parent
NODE = "n1"
STORED = ("ignite", "agent")
"""The folders in the home of a site that contain the store of the site."""

BEGIN = 1_790_000_000_000
STEP_MS = 1000
PUTS = 2100
FAR_FUTURE = 4_102_444_800_000
LEASE_MS = 366 * 86_400_000
RESULTS = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("word", pa.string())])
ROOM = {"type": "object", "properties": {"floor": {"type": "integer"}}, "required": ["floor"]}
SPOOLED = {"metricID": "spooled", "entityID": "a", "val": 1.5, "timestamp": BEGIN}

LAST = BEGIN + (PUTS - 1) * STEP_MS
READS: list[tuple[str, str, Any]] = [
    ("POST", "/get", {"metricID": ["cpu"], "latest": True}),
    ("POST", "/get", {"entityID": ["a"], "from": LAST - 20_000, "to": LAST}),
    ("POST", "/get", {"metricID": ["cpu"], "from": BEGIN, "to": BEGIN + 30_000}),
    ("POST", "/get", {"metricID": ["deleted"], "from": 0, "to": FAR_FUTURE}),
    ("POST", "/get", {"metricID": ["future"], "from": 0, "to": FAR_FUTURE}),
    ("POST", "/get", {"groupName": ["hall"], "latest": True}),
    *(
        ("POST", "/query", {"metricID": ["cpu"], "from": BEGIN, "to": LAST, "agg": agg})
        for agg in ("sum", "min", "max", "avg")
    ),
    ("POST", "/list", {"metricID": ["cpu", "mem", "deleted", "future"]}),
    ("GET", "/streams/raw/rows?from=0&limit=40", None),
    ("GET", "/streams/raw/rows?from=1990&limit=40", None),
    ("GET", "/streams/results%2Fcompat/rows?from=0&limit=1000", None),
    ("GET", "/streams/results%2Fcompat/rows?from=295&limit=1000", None),
    ("POST", "/app/get", {"start": "", "limit": 100}),
    ("POST", "/app/get", {"key": ["room-1"], "from": 0}),
    ("POST", "/app/query", {"schema": "room", "where": {"floor": 2}}),
    ("GET", "/app/schemas", None),
    ("POST", "/analytics/get", {"start": "", "limit": 100}),
    ("POST", "/analytics/get", {"key": ["score"], "from": 0}),
    ("POST", "/routing/get", {}),
    ("GET", "/config", None),
    ("POST", "/sql", {"query": "SELECT metric, entity, count(*), sum(value) FROM historical "
                      "WHERE metric = 'cpu' GROUP BY ALL ORDER BY ALL"}),
    ("POST", "/sql", {"query": 'SELECT * FROM "results/compat" ORDER BY ts LIMIT 5'}),
]  # fmt: skip


def read(url: str) -> list[dict[str, Any]]:
    """Return an agent's answers to ``READS``, and the stable fields of its streams."""
    answers = []
    for method, path, body in READS:
        response = httpx.request(method, url + path, json=body, timeout=60)
        answer = {"status": response.status_code, "answer": response.json()}
        answers.append({"method": method, "path": path, "body": body, **answer})
    streams = httpx.get(f"{url}/streams").json()["streams"]
    answers.append({"path": "/streams", "answer": {each["name"]: stable(each) for each in streams}})
    return answers


def stable(stream: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a stream's description that a start of an agent does not change.

    When an agent starts, it claims ``raw``, stores the points of the spool in ``raw``, and
    continues compaction.
    """
    fields = {"name", "fields", "first", "attributes", "lateness_ms", "retention_ms"}
    if stream["name"] not in ("raw", "metadata"):
        fields |= {"head", "epoch", "frontier", "rows", "late"}
    return {name: value for name, value in stream.items() if name in fields}


def fill(url: str) -> None:
    """Store each kind of data that a store can contain, such as points, records and tombstones."""
    put(url, "/config", {"retention_ms": None, "streams": {"results/*": 10**12}}, "PUT")
    for number in range(PUTS):
        ts = BEGIN + number * STEP_MS
        points = [point("cpu", "a", ts, number / 4), point("cpu", "b", ts, -number)]
        if number % 7 == 0:
            points.append(point("mem", "a", ts, number * 1e9, group="hall", units="B"))
        if number % 50 == 0:
            points.append(point("deleted", "a", ts, number))
        put(url, "/put", {"monitoring": points})
    put(url, "/put", {"monitoring": [point("cpu", "a", BEGIN + 5, 1e-7)]})
    put(url, "/put", {"monitoring": [point("future", "a", FAR_FUTURE, 7.0)]})
    put(url, "/app/schemas/room", {"schema": ROOM, "indexed": ["floor"]}, "PUT")
    for floor in range(1, 4):
        for version in range(2):
            item = {"key": f"room-{floor}", "val": {"floor": floor, "version": version}}
            item |= {"timestamp": BEGIN + version, "schema": "room"}
            put(url, "/app/put", {"application": [item]})
    for number in range(300):
        item = {"key": "score", "val": [number, None, "é"], "timestamp": BEGIN + number}
        put(url, "/analytics/put", {"analytics": [item]})
    routes = [{"destination": "10.0.0.0/8", "gateway": "192.168.2.1", "metric": 5}]
    put(url, "/routing/put", {"routing": [{"node": "n7", "timestamp": BEGIN, "routes": routes}]})
    client = AgentClient(url)
    client.create_stream("results/compat", RESULTS)
    epoch = httpx.post(f"{url}/streams/results%2Fcompat/claim").json()["epoch"]
    for number in range(300):
        rows = pa.table({"ts": [BEGIN + number], "word": [f"w{number % 3}"]}, schema=RESULTS)
        client.append("results/compat", rows, epoch=epoch, frontier=BEGIN + number)
    client.create_stream("results/removed", RESULTS)
    client.close()
    lease = {"holder": "reader", "keep_ms": LEASE_MS, "for_ms": LEASE_MS}
    put(url, "/streams/results%2Fcompat/hold", lease, "PUT")
    httpx.delete(f"{url}/streams/results%2Fremoved").raise_for_status()
    eventually(lambda: segments(url, "raw") < 60, timeout=60, what="raw is compacted")
    eventually(lambda: segments(url, "results/compat") < 60, timeout=60, what="a run of results")
    body = {"metricID": ["deleted"], "entityID": ["a"], "from": BEGIN, "to": LAST - 400_000}
    put(url, "/monitoring", body, "DELETE")
    put(url, "/put", {"monitoring": [point("cpu", "a", LAST + 1, 0.5)]})


def point(metric: str, entity: str, ts: int, value: float, **more: object) -> dict[str, Any]:
    labels = {"labels": {"line": "é-7", "room": entity}}
    return {"metricID": metric, "entityID": entity, "val": value, "timestamp": ts} | labels | more


def put(url: str, path: str, body: object, method: str = "POST") -> None:
    httpx.request(method, url + path, json=body, timeout=60).raise_for_status()


def segments(url: str, stream: str) -> int:
    found = httpx.get(f"{url}/streams").json()["streams"]
    return next(int(each["segments"]) for each in found if each["name"] == stream)


@contextmanager
def running(checkout: Path, home: Path, command: str, *, ready: bool) -> Iterator[str]:
    """Run a command of the version in ``checkout`` within the ``with``; yield the agent's URL.

    ``ready``: whether to wait until the agent is ready, or only until it answers.
    """
    agent, ignite, discovery, communication = free_ports(4)
    settings = {
        "AGENT_PORT": agent,
        "IGNITE_PORT": ignite,
        "IGNITE_DISCOVERY_PORT": discovery,
        "IGNITE_COMMUNICATION_PORT": communication,
        "AGENT_URL": f"http://127.0.0.1:{agent}",
    }
    process = start(checkout, home, command, settings)
    url = f"http://127.0.0.1:{agent}"
    path = "/readyz" if ready else "/healthz"
    try:
        eventually(lambda: answers(url + path), timeout=120, what=f"{path} of the agent")
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def start(
    checkout: Path, home: Path, command: str, settings: Mapping[str, object]
) -> subprocess.Popen[bytes]:
    """Start a command of the version in ``checkout``; return its process.

    The process gets no environment, classpath or working directory of this machine, because Ignite
    stores them.
    """
    jars = home / "jars"
    if not jars.is_symlink():
        jars.symlink_to(checkout / ".mistbow" / "jars")
    common = {
        "HOME": home,
        "JARS": jars,
        "NODE": NODE,
        "COLLECT_ROUTES": "false",
        "DURABILITY": "log",
    }
    given = {f"MISTBOW_{name}": str(value) for name, value in {**common, **settings}.items()}
    environment = {"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": str(home), **given}
    program = checkout / ".venv" / "bin" / "mistbow"
    return subprocess.Popen([program, command], env=environment, cwd=home)


def answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.HTTPError:
        return False


def main(checkout: Path, version: str) -> None:
    """Create a store with the version in ``checkout``; write the store and the answers to files."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with running(checkout, home, "storage", ready=True) as url:
            fill(url)
            content = read(url)
        with running(checkout, home, "agent", ready=False) as url:
            put(url, "/put", {"monitoring": [SPOOLED]})
        text = json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True)
        (HERE / f"answers-{version}.json").write_text(text + "\n")
        with tarfile.open(HERE / f"store-{version}.tar.xz", "w:xz", preset=9) as archive:
            for part in STORED:
                archive.add(home / part, part, filter=without_logs)


def without_logs(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "/log" in member.name or member.name.endswith(".lock") else member


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), sys.argv[2])
