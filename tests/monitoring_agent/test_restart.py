"""The restart of a monitoring agent with points that the storage agent does not have yet."""

import json
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from ignite_server.ports import free_ports
from mistbow.client import Point
from monitoring_agent import metrics
from monitoring_agent.buffer import Batch
from monitoring_agent.buffer_file import BufferFile
from monitoring_agent.main import create_app
from monitoring_agent.settings import MonitorSettings
from tests.support.conditions import eventually
from tests.support.services import Service, storage_agent

Row = tuple[str, str, int]


def spooled(home: Path) -> Counter[Row]:
    """Return the points in the spool of a storage agent without Ignite: none before it exists."""
    try:
        with closing(sqlite3.connect(f"file:{home}/agent/spool.db?mode=ro", uri=True)) as file:
            bodies = [json.loads(body) for (body,) in file.execute("select body from bodies")]
    except sqlite3.OperationalError:
        return Counter()
    return Counter(
        (each["metricID"], each["entityID"], each["timestamp"])
        for body in bodies
        for each in body["monitoring"]
    )


@pytest.mark.soak
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


def test_damaged_files_are_moved_aside_and_none_replaces_another(tmp_path: Path) -> None:
    file = tmp_path / "monitor-buffer"
    for text in (b"\xffno batches", b"\xffneither"):
        file.write_bytes(text)
        assert BufferFile(file).load() == []
    aside = sorted(tmp_path.glob("monitor-buffer.damaged-*"))
    assert [each.read_bytes() for each in aside] == [b"\xffno batches", b"\xffneither"]
    assert not file.exists()


def test_file_is_deleted_once_after_all_points_were_sent(tmp_path: Path) -> None:
    path = tmp_path / "monitor-buffer"
    file = BufferFile(path)
    file.save([Batch("key", (Point("m", "e", 1.0, 0),))])
    file.save(())
    assert not path.exists()
    path.mkdir()  # An attempt to delete it would fail.
    with capture_logs() as logs:
        file.save(())
    assert logs == []


def test_file_that_cannot_be_deleted_or_moved_is_logged(tmp_path: Path) -> None:
    path = tmp_path / "monitor-buffer"
    path.mkdir()
    file = BufferFile(path)
    with capture_logs() as logs:
        file.save(())
    assert [each["event"] for each in logs] == ["buffer_file_delete_failed"]


async def test_metric_of_waiting_points_counts_points_of_the_former_process(tmp_path: Path) -> None:
    points = tuple(Point("m", "e", 1.0, time) for time in range(7))
    BufferFile(tmp_path / "monitor-buffer").save([Batch("key", points)])
    app = create_app(MonitorSettings(home=tmp_path, agent_url="http://127.0.0.1:1"))
    metrics.BUFFERED_POINTS.set(0)
    async with app.router.lifespan_context(app):
        # Nothing is collected or sent before the event loop runs.
        [sample] = metrics.BUFFERED_POINTS.collect()[0].samples
    assert sample.value == 7
