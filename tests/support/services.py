"""Services in processes of their own."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from ignite_server.ports import free_ports
from mistbow.tls import client_context
from tests.support.conditions import eventually


class Service:
    """A service in a process of its own, which a test kills and starts again.

    ``arguments``: of the module. ``token``: a token that may read from the service. ``ca``: the
    authorities of its certificate; None: the service has no TLS.
    """

    def __init__(
        self,
        module: str,
        port: int,
        settings: Mapping[str, object],
        prefix: Sequence[str] = (),
        *,
        arguments: Sequence[str] = (),
        token: str | None = None,
        ca: Path | None = None,
    ) -> None:
        self._module = module
        self._prefix = prefix
        self._arguments = arguments
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._settings = {f"MISTBOW_{name.upper()}": str(value) for name, value in settings.items()}
        self._process: subprocess.Popen[bytes] | None = None
        self._tls = True if ca is None else client_context(ca)
        self.url = f"{'http' if ca is None else 'https'}://127.0.0.1:{port}"

    @property
    def pid(self) -> int:
        """The id of the running process."""
        assert self._process is not None
        return self._process.pid

    def start(self, *, ready: bool = True) -> None:
        """Start the process and wait until it is ready, or only until it answers."""
        self.launch()
        self.wait(ready=ready)

    def launch(self) -> None:
        """Start the process."""
        self._process = subprocess.Popen(
            [*self._prefix, sys.executable, "-m", self._module, *self._arguments],
            env={**os.environ, **self._settings},
        )

    def wait(self, *, ready: bool = True) -> None:
        """Wait until the service is ready, or only until it answers."""
        path = "/readyz" if ready else "/healthz"

        def answers() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, f"{self._module} has ended"
            answer = httpx.get(self.url + path, headers=self._headers, verify=self._tls)
            return answer.is_success

        eventually(answers, timeout=180, what=f"{self._module} is ready")

    def kill(self) -> None:
        """End the process at once, as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End the process by SIGTERM, and wait for its end."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(30)
            self._process = None


@contextmanager
def service(
    module: str,
    port_setting: str,
    *,
    port: int | None = None,
    prefix: Sequence[str] = (),
    ready: bool = True,
    **settings: object,
) -> Iterator[Service]:
    """Run a service within the ``with``; yield the service.

    ``port``: None: a free port. ``prefix``: a command that runs the service as its argument.
    ``ready``: whether to wait until the service is ready, or only until it answers.
    """
    port = port or free_ports(1)[0]
    own = {port_setting.replace("_port", "_url"): f"http://127.0.0.1:{port}"}
    given = {port_setting: port, **own, "log_level": "warning", **settings}
    running = Service(module, port, given, prefix)
    try:
        running.start(ready=ready)
        yield running
    finally:
        running.stop()


@contextmanager
def storage_agent(
    home: Path, ignite_port: int, *, port: int | None = None, **settings: object
) -> Iterator[Service]:
    """Run a storage agent over an Ignite server within the ``with``; yield the service.

    ``port`` None: a free port.
    """
    with service(
        "storage_agent", "agent_port", port=port, home=home, ignite_port=ignite_port, **settings
    ) as running:
        yield running
