"""``mistbow city`` against a real storage agent."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ignite_server.ports import free_ports
from ignite_server.server import IgniteServer
from mistbow.client import AgentClient
from tests.support.services import storage_agent

pytestmark = pytest.mark.usefixtures("processes")


def run_city(*arguments: str) -> tuple[int, int, int]:
    """Run ``mistbow city``; return its exit code, and the numbers of stored and of lost points."""
    done = subprocess.run(
        [sys.executable, "-m", "command_line.app", "city", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    counts = re.findall(r"([\d,]+) points stored, ([\d,]+) lost", done.stdout)
    stored, lost = (sum(int(pair[n].replace(",", "")) for pair in counts) for n in (0, 1))
    return done.returncode, stored, lost


def test_city_reports_stored_points_that_are_stored(tmp_path: Path) -> None:
    story = ("--rate", "300", "--seconds", "2")
    with IgniteServer(tmp_path) as ignite, storage_agent(tmp_path, ignite.port) as agent:
        code, stored, lost = run_city(agent.url, *story)
        nodes = AgentClient(agent.url).get(latest=False)
    assert (code, lost) == (0, 0)
    assert stored == sum(len(series.values) for node in nodes for series in node.data) > 400


def test_city_reports_lost_points() -> None:
    (nobody,) = free_ports(1)
    code, stored, lost = run_city(f"http://127.0.0.1:{nobody}", "--seconds", "1")
    assert (code, stored) == (1, 0)
    assert lost > 100
