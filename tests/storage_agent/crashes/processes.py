"""A storage agent as a process of its own, so that it can be killed."""

import os
import subprocess
import sys
import time
from pathlib import Path

import httpx
import msgspec
from pyignite import Client

from mistbow.errors import UnavailableError
from mistbow.ignite.server import IgniteServer
from mistbow.ports import free_ports
from storage_agent.ignite_client import METADATA
from tests.support.waiting import eventually

_MERGE_S = 60.0


class AgentProcess:
    """``python -m storage_agent`` on a port that it keeps, with settings by their names."""

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
        """Start it."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "storage_agent"],
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def start(self) -> None:
        """Start it and wait until it is ready."""
        self.launch()
        eventually(self._ready, timeout=120, what="the agent is ready")

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def ends(self) -> bool:
        """Tell whether it has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def _ready(self) -> bool:
        try:
            return self._http.get("/readyz").is_success
        except httpx.TransportError as error:
            raise AssertionError(str(error)) from error


def start_again(ignite: IgniteServer) -> None:
    """Start Ignite as a supervisor does: once more if it does not come up in its time."""
    try:
        ignite.start()
    except UnavailableError:
        ignite.start()


def until_a_merge(ignite: IgniteServer, stream: str = "raw") -> None:
    """Wait until the agent is at building a run of a stream."""
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
