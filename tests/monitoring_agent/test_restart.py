"""The restart of a monitoring agent with points that the storage agent does not have yet."""

import json
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from ignite_server.ports import free_ports
from monitoring_agent.buffer_file import BufferFile
from tests.support.conditions import eventually
from tests.support.services import Service, storage_agent

Row = tuple[str, str, int]


def spooled(home: Path) -> Counter[Row]:
    """Return the points in the spool of a storage agent without Ignite."""
    with closing(sqlite3.connect(home / "agent" / "spool.db")) as file:
        bodies = [json.loads(body) for (body,) in file.execute("select body from bodies")]
    return Counter(
        (each["metricID"], each["entityID"], each["timestamp"])
        for body in bodies
        for each in body["monitoring"]
    )


@pytest.mark.usefixtures("processes")
def test_restarted_monitoring_agent_sends_each_point_of_its_buffer_once(tmp_path: Path) -> None:
    port, monitor_port, ignite_port = free_ports(3)
    home, stored = tmp_path / "monitor", tmp_path / "storage"
    settings = {
        **{"home": home, "monitor_port": monitor_port, "interval_ms": 200},
        "agent_url": f"http://127.0.0.1:{port}",
    }
    monitor, file = Service("monitoring_agent", monitor_port, settings), home / "monitor-buffer"
    waiting = BufferFile(file)

    def run_until_sent(rows: set[Row]) -> None:
        monitor.start(ready=False)
        try:
            eventually(lambda: rows <= spooled(stored).keys(), what="the points are stored")
            eventually(lambda: not file.exists(), what="the file is deleted")
        finally:
            monitor.stop()

    def rows() -> set[Row]:
        return {
            (point.metric, point.entity, int(point.ts))
            for batch in waiting.load()
            for point in batch.points
        }

    def collects() -> bool:
        text = httpx.get(f"{monitor.url}/metrics").text
        return "mistbow_monitor_collected_points_total{" in text

    for _ in range(2):
        # The storage agent is away.
        before = rows()
        monitor.start(ready=False)
        eventually(collects, what="points are collected")
        monitor.stop()
        assert before < rows()
    assert file.stat().st_mode & 0o777 == 0o600
    expected = rows()
    shutil.copy(file, copy := tmp_path / "copy")
    with storage_agent(stored, ignite_port, port=port, node="n", ready=False):
        run_until_sent(expected)
        # As after a crash between the answer and the deletion of the file.
        shutil.copy(copy, file)
        run_until_sent(expected)
    found = spooled(stored)
    assert {found[row] for row in expected} == {1}


def test_damaged_file_is_moved_aside(tmp_path: Path) -> None:
    file = tmp_path / "monitor-buffer"
    file.write_bytes(b"\xffno batches")
    assert BufferFile(file).load() == []
    assert file.with_name("monitor-buffer.damaged").read_bytes() == b"\xffno batches"
