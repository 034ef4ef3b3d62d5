"""The current services on a site of an earlier version: equal answers, and continued results.

``make_recording.py`` records the site of another version.
"""

import json
import tarfile
from collections.abc import Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from storage_agent.settings import AgentSettings
from tests.compatibility.make_recording import (
    LONGEST_MS,
    REPLACEMENT,
    SITE,
    final,
    put_points,
    request,
)
from tests.oracle.stored_points import Identity, compact_key, expected_values, stored_points
from tests.storage_agent.compatibility.make_store import NODE
from tests.support.agents import running_agent
from tests.support.conditions import eventually
from tests.support.services import service

HERE = Path(__file__).parent
VERSIONS = sorted(path.name[len("site-") : -len(".tar.xz")] for path in HERE.glob("site-*.tar.xz"))
STEP_MS = 10_000
"""A common multiple (ms) of the intervals of all EVERY clauses.

A point that is shifted by this duration has the same distance from the next tick as before.
"""

LIVE_FIELDS: dict[str, Set[str]] = {
    "/results": {"next"},
    "/explain": {"measured", "per_s", "instead_of", "bytes_per_s", "did", "text", "unit"},
    "/check": {"message", "hint"},
    "/api/insights": {"message", "hint", "result"},
    "/fragments": {
        "active", "batches", "bytes_written", "fingerprint", "frontier", "lag_ms",
        "rows_written", "spent_ms",
    },
    "/streams": {
        "attributes", "bytes", "epoch", "frontier", "head", "late", "rows", "segments",
        "stored_bytes",
    },
}  # fmt: skip
"""End of a path -> fields of the answer that may differ from the recorded answer.

These fields change with a start of the services, the clock, the traffic, or the wording of
messages. Since 0.1.0, errors have the additional field ``result``.
"""

ADDED_FIELDS = frozenset(
    {"lifecycle", "group", "lag_ms", "missing_sites", "placement", "ended", "decisions"}
    | {"missing", "correcting", "domain", "remote_reads"}
    | {"cores", "memory_mb", "data_latency_ms", "latency_ms"}
    | {"estimated", "measured", "cpu_s", "rows_read", "speed"}
    | {"checked", "points_checked", "check_cpu_s", "check_core_s"}
    | {"corrections_due", "corrected_until", "searched_until", "settled", "unsettled", "silent"}
    | {"summary", "quoted"}
    | {
        "each_point",
        "every_points",
        "salience",
        "version",
        "amended_at",
        "amended_by",
        "unit",
        "move",
    }
)
"""The fields that later versions add to answers."""

ADDED_STREAMS = frozenset({"decisions", "fog-history"})
"""The streams that later versions add to a site."""


@dataclass(frozen=True)
class Recording:
    """The recorded requests and answers of an earlier version, and the current answers.

    ``expected``: recorded; ``answered``: current; ``urls``: service -> URL; ``last``: the time (ms)
    of the newest recorded point.
    """

    expected: list[dict[str, Any]]
    answered: list[dict[str, Any]]
    urls: dict[str, str]
    last: int


@pytest.fixture(scope="module", params=VERSIONS)
def recording(
    processes: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Recording]:
    """Start the current services on a copy of the recorded site, and repeat the requests."""
    home = tmp_path_factory.mktemp("site")
    with tarfile.open(HERE / f"site-{request.param}.tar.xz") as archive:
        archive.extractall(home, filter="data")
    expected = json.loads((HERE / f"site-{request.param}.json").read_text())
    with (
        IgniteServer(home, durability="log") as server,
        running_agent(
            AgentSettings(
                home=home,
                node=NODE,
                ignite_port=server.port,
                collect_routes=False,
                durability="log",
            )
        ) as agent,
        service("analytics_worker", "worker_port", home=home, agent_url=agent, node=NODE) as worker,
        service("analytics_enabler", "enabler_port", home=home, agent_url=agent) as enabler,
    ):
        urls = {"agent": agent, "worker": worker.url, "enabler": enabler.url}
        eventually(lambda: all_run(urls, expected), timeout=120, what="all fragments run")
        answered = [repeat(urls, each) for each in expected]
        yield Recording(expected, answered, urls, max(points_at(agent)["ts"].to_pylist()))


def points_at(agent: str) -> pa.Table:
    """Return all points of ``cpu`` (``POINTS``) that the site stores."""
    client = AgentClient(agent)
    try:
        return stored_points(client, "cpu")
    finally:
        client.close()


def repeat(urls: dict[str, str], recorded: dict[str, Any]) -> dict[str, Any]:
    """Send a recorded request again; return the request with the new answer."""
    to = urls[recorded["service"]]
    again = request(to, recorded["method"], recorded["path"], recorded["queries"])
    return {"service": recorded["service"], **again}


def all_run(urls: dict[str, str], expected: list[dict[str, Any]]) -> bool:
    """Return True if all insights and fragments have the recorded states.

    Raises ``AssertionError`` otherwise.
    """
    paths = {"/api/insights": "enabler", "/fragments": "worker"}
    statuses = [each for each in expected if each["method"] == "GET" and each["path"] in paths]
    assert len(statuses) == len(paths)
    for each in statuses:
        assert list(differences(comparable(repeat(urls, each)), comparable(each))) == []
    return True


def comparable(recorded: dict[str, Any]) -> dict[str, Any]:
    """Return a request and its answer without the fields of ``LIVE_FIELDS``."""
    path = recorded["path"].partition("?")[0]
    live = next((names for end, names in LIVE_FIELDS.items() if path.endswith(end)), frozenset())
    answer = without(recorded["answer"], live)
    if path == "/streams":
        former = [each for each in answer["streams"] if each["name"] not in ADDED_STREAMS]
        answer = {**answer, "streams": former}
    return {**recorded, "answer": answer}


def differences(got: Any, wanted: Any, path: str = "") -> Iterator[str]:
    """Yield a description of each place where two JSON values differ.

    A field that the wanted value lacks is no difference if it is null, or in ``ADDED_FIELDS``.
    """
    if isinstance(got, dict) and isinstance(wanted, dict):
        added = {
            name for name in got.keys() - wanted.keys() if got[name] is None or name in ADDED_FIELDS
        }
        for name in sorted((got.keys() | wanted.keys()) - added):
            one, other = got.get(name, "missing"), wanted.get(name, "missing")
            yield from differences(one, other, f"{path}.{name}")
    elif isinstance(got, list) and isinstance(wanted, list) and len(got) == len(wanted):
        for number, (one, other) in enumerate(zip(got, wanted, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif got != wanted:
        yield f"{path}: {got!r}, not {wanted!r}"


def without(content: Any, names: Set[str]) -> Any:
    """Return JSON without the fields of these names, at any depth."""
    match content:
        case dict():
            return {name: without(each, names) for name, each in content.items()
                    if name not in names}  # fmt: skip
        case list():
            return [without(each, names) for each in content]
        case _:
            return content


def answer_to(recording: Recording, path: str) -> Any:
    """Return the recorded answer to the GET request of a path."""
    [found] = [each for each in recording.expected
               if (each["method"], each["path"]) == ("GET", path)]  # fmt: skip
    return found["answer"]


def closed_gap(points: pa.Table, last_recorded: int) -> tuple[pa.Table, int]:
    """Shift the recorded points in time, to shorten the gap between recorded and new points.

    Returns all points, and the shift (ms). Without the shift, the oracle would compute all ticks
    since the recording. No window is longer than the rest of the gap.
    """
    ts = points["ts"]
    is_old = pc.less_equal(ts, last_recorded)
    first_new = pc.min(ts.filter(pc.invert(is_old))).as_py()
    shift = max(0, (first_new - last_recorded) // STEP_MS * STEP_MS - 3 * LONGEST_MS)
    shifted = pc.if_else(is_old, pc.add(ts, shift), ts)
    return points.set_column(points.schema.get_field_index("ts"), "ts", shifted), shift


def new_results(url: str, deployment: str, since: int, until: int) -> dict[Identity, float]:
    """Return a deployment's results after ``since`` up to ``until`` (ms): identity -> value."""
    path = f"/api/insights/{deployment}/results?limit=10000&from={since + 1}&to={until}"
    rows = request(url, "GET", path)["answer"]["results"]
    return {(row["insight"], compact_key(row["key"]), row["ts"]): row["value"] for row in rows}


def test_site_of_an_earlier_version_gives_the_same_answers(recording: Recording) -> None:
    pairs = zip(recording.answered, recording.expected, strict=True)
    found = [
        f"{wanted['method']} {wanted['path']} {each}"
        for got, wanted in pairs
        for each in differences(comparable(got), comparable(wanted))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("queries", [SITE, pytest.param(REPLACEMENT, marks=pytest.mark.soak)])
def test_insights_of_an_earlier_version_continue_from_their_states(
    recording: Recording, queries: str
) -> None:
    deployments = answer_to(recording, "/api/insights")["deployments"]
    [deployment] = [each for each in deployments if each["queries"] == queries]
    names = {each["name"] for each in deployment["insights"]}
    # The oracle computes no estimates.
    sampled = {each["name"] for each in deployment["insights"] if "SAMPLE" in each["text"]}
    began = system_clock()
    last = put_points(recording.urls["agent"], 8)
    until = last + LONGEST_MS
    eventually(lambda: final(recording.urls["worker"], last), timeout=90, what="results are final")
    points, shift = closed_gap(points_at(recording.urls["agent"]), recording.last)
    since = max(each["since"] for each in deployment["insights"]) + shift
    expected = expected_values(queries, points, since, until)

    def equal() -> bool:
        results = new_results(recording.urls["enabler"], deployment["deployment_id"], began, until)
        assert {name for name, _, _ in results} == names
        assert exact(results) == pytest.approx(exact(expected), rel=1e-9)
        return True

    def exact(results: dict[Identity, float]) -> dict[Identity, float]:
        return {
            identity: value
            for identity, value in results.items()
            if identity[0] not in sampled and identity[2] > began
        }

    eventually(equal, timeout=60, what="the results equal the oracle's")
