"""One Ignite server as a process of ours: start, activate once, stop, kill, restart."""

import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from mistbow.errors import UnavailableError
from mistbow.ignite.cluster import make_ready
from mistbow.ignite.config import IgniteConfig
from mistbow.ignite.jars import ensure_jars
from mistbow.ignite.java import find_java
from mistbow.ignite.tls import ServerTls
from mistbow.ports import free_ports
from mistbow.settings import Durability, IgniteSettings

_START_S = 60.0
_STOP_S = 20.0
_PAUSE_S = 0.1


class IgniteServer:
    """A server under ``home``; as a context manager it runs inside the ``with``.

    Port 0 takes free ports, and keeps them over a restart. Its log is ``home/logs/ignite.log``.
    Without ``jars`` the folder of the settings is used, whatever ``home`` is. ``nodes`` and
    ``discovery_port`` are for one node of several.
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
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        """The thin-client port."""
        return self.config.port

    @property
    def pid(self) -> int | None:
        """The process id, or None when it was not started or was stopped."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the server and wait until it serves; raises ``UnavailableError`` if it does not."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Start the server; several that are first started together wait for each other."""
        ensure_jars(self._jars)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.config.argv(find_java(), self._jars),
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )

    def wait(self) -> None:
        """Wait until the server serves; raises ``UnavailableError`` if it does not."""
        deadline = time.monotonic() + _START_S
        while not make_ready(self.config, self._jars):
            code = None if self._process is None else self._process.poll()
            if self._process is None or code is not None or time.monotonic() > deadline:
                self.kill()
                how = f"not within {_START_S:.0f} s" if code is None else f"ended with code {code}"
                raise UnavailableError(f"Ignite did not start: {how}", hint=f"its log: {self.log}")
            time.sleep(_PAUSE_S)

    def stop(self) -> None:
        """End the server by SIGTERM, by SIGKILL when that takes too long."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._forget()

    def kill(self) -> None:
        """End the server at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
        self._forget()

    def restart(self) -> None:
        """Start the server again, on the same ports and data; stop it first if it runs."""
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
