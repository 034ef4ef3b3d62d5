"""The stored data after a power cut, and the agent on a full disk."""

import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest

from ignite_server.server import IgniteServer
from tests.storage_agent.crashes.disks import Disk, needs_disks
from tests.storage_agent.crashes.limits import POWER_CUTS
from tests.storage_agent.crashes.load import Load
from tests.storage_agent.crashes.processes import AgentProcess, restart_ignite, wait_for_compaction
from tests.support.conditions import eventually

pytestmark = [needs_disks, pytest.mark.soak]

_MAX_BODIES = 100
_DRAINED_S = 120.0
_DISK_MB = 400


@dataclass(frozen=True)
class Node:
    """A node on a disk of its own: an Ignite server, and an agent with its spool."""

    disk: Disk
    ignite: IgniteServer
    agent: AgentProcess

    def start(self) -> None:
        """Start Ignite and the agent, as the supervisor does."""
        restart_ignite(self.ignite)
        self.agent.start()

    def kill(self) -> None:
        """Kill Ignite and the agent."""
        self.agent.kill()
        self.ignite.kill()

    def restart_exited_ignite(self) -> None:
        """Start Ignite again if it has exited."""
        if psutil.Process(self.ignite.pid).status() == psutil.STATUS_ZOMBIE:
            self.ignite.kill()
            restart_ignite(self.ignite)


@pytest.fixture(scope="module")
def node(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("power")
    with Disk(folder, _DISK_MB) as disk:
        ignite = IgniteServer(disk.root, durability="fsync")
        node = Node(disk, ignite, AgentProcess(disk.root, ignite))
        try:
            node.start()
            yield node
        finally:
            node.kill()
            # The disk is gone after this.
            shutil.copy(ignite.log, folder)


@pytest.mark.usefixtures("processes")
def test_power_cut_loses_what_was_not_synced(tmp_path: Path) -> None:
    """Check the simulated power cut itself, on which the next test relies."""
    with Disk(tmp_path, 16) as disk:
        for name in ("synced", "not"):
            with (disk.root / name).open("wb") as file:
                file.write(b"data")
                file.flush()
                if name == "synced":
                    os.fsync(file.fileno())
        disk.cut_power()
        disk.come_back()
        stored = {path.name: path.read_bytes() for path in disk.root.iterdir() if path.is_file()}
        assert stored.get("synced") == b"data"
        assert stored.get("not", b"") == b""


@pytest.mark.timeout(180 + 60 * POWER_CUTS)
def test_power_cut_loses_no_acknowledged_points(node: Node) -> None:
    chance = random.Random()  # noqa: S311 - any moment will do
    with Load(node.agent.url) as load:
        for number in range(POWER_CUTS):
            load.progress(chance.randint(1, _MAX_BODIES))
            if number % 2:
                wait_for_compaction(node.ignite)
            node.disk.cut_power()
            node.kill()
            node.disk.come_back()
            node.start()
            load.progress(1)
            items = load.check(within=_DRAINED_S)
            print(f"cut {number + 1}: {items} points and rows are there")
    load.check(within=_DRAINED_S)


@pytest.mark.timeout(300)
def test_full_disk_loses_no_acknowledged_points(node: Node) -> None:
    with Load(node.agent.url, most=200) as load:
        load.progress()
        node.disk.fill()
        eventually(lambda: load.refusals > 0, timeout=60, what="a write is refused")
        body = {"monitoring": [{"entityID": "e", "metricID": "m", "val": 1, "timestamp": 1}]}
        refused = eventually(
            lambda: (r := httpx.post(f"{node.agent.url}/put", json=body, timeout=20)).is_error and r
        )
        assert refused.status_code in (503, 507)
        assert refused.json()["error"]["hint"]
        node.disk.make_room()
        node.restart_exited_ignite()
        load.progress()
    load.check(within=_DRAINED_S)
