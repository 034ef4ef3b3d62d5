"""Senders of points that go on during a backup, and the restoration of a backup in a test."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ignite_server.server import IgniteServer
from mistbow.client import Point
from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from storage_agent.backup.archive import Archive, BackupContents
from storage_agent.backup.restore import restore
from storage_agent.ignite.client import IgniteClient
from tests.support.ignite import empty


class Load:
    """Sends one point after another, each with another value, and records the acknowledged ones."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.acknowledged: list[float] = []
        self._client = AgentClient(url, token=token)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def _send(self) -> None:
        value = 0.0
        while not self._ends.is_set():
            value += 1
            self._client.put(
                [Point(metric="load", entity=f"e{value % 7:.0f}", value=value, ts=system_clock())],
                idempotency_key=f"load-{value}",
            )
            self.acknowledged.append(value)

    @contextmanager
    def running(self) -> Iterator["Load"]:
        self._thread.start()
        try:
            yield self
        finally:
            self._ends.set()
            self._thread.join()
            self._client.close()


def wipe(ignite: IgniteServer, home: Path) -> None:
    """Remove all data of a site whose agent is stopped."""
    empty(ignite)
    shutil.rmtree(home / "agent", ignore_errors=True)


async def restored(archive: Archive, ignite: IgniteServer) -> BackupContents:
    """Restore a backup to an empty Ignite."""
    client = IgniteClient([("127.0.0.1", ignite.port)])
    client.start()
    try:
        assert await client.wait_connected(20)
        return await restore(archive, client, system_clock)
    finally:
        await client.close()
