"""``mistbow city`` against a real storage agent."""

import re
import subprocess
import sys
from pathlib import Path

from mistbow.client import AgentClient
from mistbow.ignite.server import IgniteServer
from mistbow.ports import free_ports
from tests.support.services import storage_agent


def told(*arguments: str) -> tuple[int, int, int]:
    """Run the command; return its exit code, and the points stored and lost."""
    done = subprocess.run(
        [sys.executable, "-m", "mistbow.cli.app", "city", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    counts = re.findall(r"([\d,]+) points stored, ([\d,]+) lost", done.stdout)
    stored, lost = (sum(int(pair[n].replace(",", "")) for pair in counts) for n in (0, 1))
    return done.returncode, stored, lost


def test_what_is_told_as_stored_is_stored(tmp_path: Path) -> None:
    story = ("--rate", "300", "--seconds", "2")
    with IgniteServer(tmp_path) as ignite, storage_agent(tmp_path, ignite.port) as agent:
        code, stored, lost = told(agent.url, *story)
        held = AgentClient(agent.url).get(latest=False)
    assert (code, lost) == (0, 0)
    assert stored == sum(len(series.values) for node in held for series in node.data) > 400


def test_what_is_lost_is_told() -> None:
    (nobody,) = free_ports(1)
    code, stored, lost = told(f"http://127.0.0.1:{nobody}", "--seconds", "1")
    assert (code, stored) == (1, 0)
    assert lost > 100
