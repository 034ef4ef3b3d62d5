"""A storage agent as a process of its own, so that it can be killed."""

import os
import subprocess
import sys
import time
from pathlib import Path

import httpx
import msgspec
from pyignite import Client

from ignite_server.ports import free_ports
from ignite_server.server import IgniteServer
from mistbow.errors import UnavailableError
from storage_agent.ignite.client import METADATA
from tests.support.conditions import eventually

_MERGE_S = 60.0


class AgentProcess:
    """A process ``python -m storage_agent`` on a fixed port; ``settings``: name -> value."""

    def __init__(self, home: Path, ignite: IgniteServer, **settings: str) -> None:
        [port] = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self._environment = {
            **os.environ,
            "MISTBOW_HOME": str(home),
            "MISTBOW_NODE": "n1",
            "MISTBOW_AGENT_PORT": str(port),
            "MISTBOW_IGNITE_PORT": str(ignite.port),
            **{f"MISTBOW_{name.upper()}": value for name, value in settings.items()},
        }
        self._process: subprocess.Popen[bytes] | None = None
        # One for all questions: to make one takes longer than to ask.
        self._http = httpx.Client(base_url=self.url, timeout=10)

    def launch(self) -> None:
        """Start the process, without waiting."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "storage_agent"],
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def start(self) -> None:
        """Start the process, and wait until the agent is ready."""
        self.launch()
        eventually(self._ready, timeout=120, what="the agent is ready")

    def kill(self) -> None:
        """Kill the process, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def ends(self) -> bool:
        """Return whether the process was started and has ended."""
        return self._process is not None and self._process.poll() is not None

    def _ready(self) -> bool:
        try:
            return self._http.get("/readyz").is_success
        except httpx.TransportError as error:
            raise AssertionError(str(error)) from error


def restart_ignite(ignite: IgniteServer) -> None:
    """Start Ignite like a supervisor: try again if Ignite does not start in time."""
    try:
        ignite.start()
    except UnavailableError:
        ignite.start()


def wait_for_compaction(ignite: IgniteServer, stream: str = "raw") -> None:
    """Wait until the agent builds a run of a stream.

    Raises ``AssertionError`` after ``_MERGE_S`` seconds.
    """
    client = Client(timeout=10)
    with client.connect("127.0.0.1", ignite.port):
        manifests = client.get_cache(METADATA)
        end = time.monotonic() + _MERGE_S
        while time.monotonic() < end:
            manifest = manifests.get(f"manifest/{stream}")
            if manifest is not None and msgspec.json.decode(manifest)["building"] is not None:
                return
            # It lasts some ten milliseconds.
            time.sleep(0.004)
    raise AssertionError(f"no run of {stream} was begun within {_MERGE_S} s")
