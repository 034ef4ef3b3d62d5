"""The threads that read a backup while the agent serves other requests."""

import threading
from typing import Any

import httpx
import pytest

from mistbow.client import Point
from mistbow.client.agent import AgentClient
from mistbow.streams.schemas import RAW
from storage_agent.backup import source
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.selection import SeriesSelection


@pytest.fixture
def backup(url: str, client: AgentClient) -> str:
    """The address of a backup that has begun."""
    client.put([Point("cpu", "a", 1, 1.0), Point("cpu", "b", 1, 1.0)])
    client.delete("cpu", "b")
    return f"{url}/backups/{httpx.post(f'{url}/backups').json()['id']}"


@pytest.mark.parametrize(
    ("function", "path"),
    [("encode_part", f"parts/{RAW}?from=0"), ("_encode_deletions", "deletions")],
)
def test_thread_encodes_what_a_backup_reads(
    backup: str, monkeypatch: pytest.MonkeyPatch, function: str, path: str
) -> None:
    threads = []
    encode = getattr(source, function)

    def observed(found: Any) -> bytes:
        threads.append(threading.current_thread().name)
        encoded: bytes = encode(found)
        return encoded

    monkeypatch.setattr(source, function, observed)
    assert httpx.get(f"{backup}/{path}").content
    assert [name.startswith("work") for name in threads] == [True]


def test_no_thread_selects_series_of_a_backup_while_the_event_loop_changes_them(
    backup: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []
    select = Catalogue.select

    def observed(catalogue: Catalogue, *names: Any) -> SeriesSelection:
        threads.append(threading.current_thread().name)
        return select(catalogue, *names)

    monkeypatch.setattr(Catalogue, "select", observed)
    assert httpx.get(f"{backup}/series").json()["metricID"] == "cpu"
    assert threads
    assert not [name for name in threads if name.startswith(("AnyIO", "work"))]
