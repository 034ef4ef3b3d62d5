"""Runs one Ignite server as a child process."""

import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from ignite_server.cluster import make_ready
from ignite_server.config import ENVIRONMENT, IgniteConfig
from ignite_server.jars import ensure_jars
from ignite_server.ports import free_ports
from ignite_server.settings import IgniteSettings
from mistbow.errors import UnavailableError
from mistbow.java import find_java
from mistbow.runtime.environment import inherited_environment
from mistbow.settings import Durability
from storage_agent.ignite.tls import ServerTls

_START_S = 60.0
_STOP_S = 20.0
_PAUSE_S = 0.1


class IgniteServer:
    """An Ignite server with data under ``home``; a context manager that starts and stops the
    server.

    For port 0, free ports are chosen, which stay the same after a restart. The log is
    ``home/logs/ignite.log``. ``jars``: None: the folder in ``IgniteSettings``. ``nodes`` and
    ``discovery_port`` are for a site of several nodes. ``recorded_classes``: see
    ``IgniteConfig.argv``.
    """

    def __init__(
        self,
        home: Path,
        port: int = 0,
        durability: Durability = "fsync",
        heap_mb: int = 128,
        jars: Path | None = None,
        tls: ServerTls | None = None,
        nodes: tuple[str, ...] = (),
        discovery_port: int = 0,
        recorded_classes: Path | None = None,
    ) -> None:
        free, discovery, communication = free_ports(3)
        self.config = IgniteConfig(
            folder=home / "ignite",
            port=port or free,
            discovery_port=discovery_port or discovery,
            communication_port=communication,
            durability=durability,
            heap_mb=heap_mb,
            tls=tls,
            nodes=nodes,
        )
        self.log = home / "logs" / "ignite.log"
        self._jars = jars or IgniteSettings().jars_folder
        self._recorded_classes = recorded_classes
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        """The port for thin clients."""
        return self.config.port

    @property
    def pid(self) -> int | None:
        """The process id; None: the server is not running."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the server and wait until the server is ready.

        Raises ``UnavailableError`` if the server is not ready in time.
        """
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Start the server without waiting until the server is ready.

        The nodes of a new site must all be started before the first node can be ready.
        """
        ensure_jars(self._jars)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.config.argv(find_java(), self._jars, self._recorded_classes),
                env=inherited_environment(ENVIRONMENT),
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )

    def wait(self) -> None:
        """Wait until the server is ready.

        Raises ``UnavailableError`` if the server ends, or is not ready in time.
        """
        deadline = time.monotonic() + _START_S
        while not make_ready(self.config, self._jars):
            code = None if self._process is None else self._process.poll()
            if self._process is None or code is not None or time.monotonic() > deadline:
                self.kill()
                how = f"not within {_START_S:.0f} s" if code is None else f"ended with code {code}"
                raise UnavailableError(
                    f"Ignite did not start: {how}", hint=f"Read the log of Ignite: {self.log}"
                )
            time.sleep(_PAUSE_S)

    def stop(self, patience_s: float = _STOP_S) -> None:
        """Stop the server by SIGTERM; if the server still runs after ``patience_s``, by SIGKILL."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(patience_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._forget()

    def kill(self) -> None:
        """Stop the server by SIGKILL, as a crash would."""
        if self._process is not None:
            self._process.kill()
        self._forget()

    def restart(self) -> None:
        """Stop the server if it runs, then start the server with the same ports and data."""
        self.stop()
        self.start()

    def _forget(self) -> None:
        if self._process is not None:
            self._process.wait()
        self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
