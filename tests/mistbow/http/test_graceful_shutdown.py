"""Services in processes of their own that leave the fog before they stop."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ignite_server.ports import free_ports
from tests.support.conditions import eventually

SERVICE = """
import asyncio, sys
from pathlib import Path
from mistbow.service import create_service, serve
from mistbow.settings import ServiceSettings

folder, port = Path(sys.argv[1]), int(sys.argv[2])

async def ready():
    return []

async def leave():
    (folder / "leaving").touch()
    while not (folder / "left").exists():
        await asyncio.sleep(0.02)

settings = ServiceSettings(home=folder / "home", log_level="warning")
serve(create_service("leaver", settings, readiness=ready, leave=leave), "leaver", port, settings)
"""

Leaver = tuple[subprocess.Popen[bytes], str]


@pytest.fixture
def leaver(processes: None, tmp_path: Path) -> Iterator[Leaver]:
    """Yield a service at which SIGTERM has arrived, and its URL."""
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}/healthz"
    process = subprocess.Popen((sys.executable, "-c", SERVICE, str(tmp_path), str(port)))
    try:
        eventually(lambda: httpx.get(url).is_success, what="the service answers")
        process.send_signal(signal.SIGTERM)
        eventually((tmp_path / "leaving").exists, what="the service begins to leave")
        yield process, url
    finally:
        process.kill()
        process.wait(10)


def test_service_answers_until_it_has_left(leaver: Leaver, tmp_path: Path) -> None:
    process, url = leaver
    assert httpx.get(url).is_success
    assert process.poll() is None
    (tmp_path / "left").touch()
    assert process.wait(10) == -signal.SIGTERM


def test_second_signal_stops_a_leaving_service_at_once(leaver: Leaver) -> None:
    process, _ = leaver
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == -signal.SIGTERM
