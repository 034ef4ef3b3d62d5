"""Stores of earlier versions: the current agent answers as the earlier version did.

``make_store.py`` makes the store of another version.
"""

import json
import tarfile
from pathlib import Path
from typing import Any

import httpx
import pytest

from ignite_server.server import IgniteServer
from storage_agent.settings import AgentSettings
from tests.storage_agent.compatibility.make_store import NODE, SPOOLED, read
from tests.support.agents import running_agent
from tests.support.conditions import eventually

HERE = Path(__file__).parent
VERSIONS = sorted(path.name[len("store-") : -len(".tar.xz")] for path in HERE.glob("store-*"))


def comparable(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer without the parts that every start of an agent changes.

    A start moves the head of ``raw`` by one. The order of listed series is that of a scan of
    Ignite.
    """
    content = dict(answer["answer"])
    if answer["path"].startswith("/streams/raw/rows"):
        del content["head"]
    if answer["path"] == "/list":
        content["metric"] = sorted(content["metric"], key=lambda each: sorted(each.items()))
    return {**answer, "answer": content}


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("version", VERSIONS)
def test_store_of_an_earlier_version_gives_the_same_answers(version: str, tmp_path: Path) -> None:
    with tarfile.open(HERE / f"store-{version}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    expected = json.loads((HERE / f"answers-{version}.json").read_text())
    with IgniteServer(tmp_path, durability="log") as server:
        settings = AgentSettings(
            home=tmp_path,
            node=NODE,
            ignite_port=server.port,
            collect_routes=False,
            durability="log",
        )
        with running_agent(settings) as url:
            for got, wanted in zip(read(url), expected, strict=True):
                assert comparable(got) == comparable(wanted)
            spooled = eventually(lambda: read_spooled(url), what="the spool is drained")
            assert spooled == [{"timestamp": SPOOLED["timestamp"], "val": SPOOLED["val"]}]
        # After a start of the present agent, which may have compacted the store: the same.
        with running_agent(settings) as url:
            for got, wanted in zip(read(url), expected, strict=True):
                assert comparable(got) == comparable(wanted)


def read_spooled(url: str) -> list[dict[str, Any]]:
    """Return the values of the series that waited in the spool of the earlier version."""
    body = {"metricID": ["spooled"], "from": 0}
    found = httpx.post(f"{url}/get", json=body).json()["monitoring"]
    return [value for node in found for series in node["data"] for value in series["values"]]
