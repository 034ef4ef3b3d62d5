"""A site as it is deployed: ``mistbow storage``, a worker and an enabler, with identities."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from analytics.client.enabler import EnablerClient
from fog_emulation.fog_trust import FogTrust, NodeTrust
from ignite_server.ports import free_ports
from mistbow.auth.identity import IdentityFile
from mistbow.client.agent import AgentClient
from suite.settings import RunSettings
from tests.support.services import Service
from tests.support.site_certificates import SiteCertificates

SITE = "cloud"
ROLES = ("storage", "worker", "enabler")
"""The processes of the site; ``storage`` starts Ignite, the agent and a monitoring agent."""

_PORTS = (
    "agent", "worker", "enabler", "monitor", "ignite", "ignite_discovery", "ignite_communication"
)  # fmt: skip
_KINDS = {"storage": "agent", "worker": "worker", "enabler": "enabler"}
_MODULES: dict[str, tuple[str, ...]] = {
    "storage": ("command_line.app", "storage"),
    "worker": ("analytics_worker",),
    "enabler": ("analytics_enabler",),
}
_COMMAND_S = 120


class SiteProcesses:
    """The processes of one site, and clients with the rights of an administrator.

    ``certificates``: of ``ROLES``, for mutual TLS; None: the site has no TLS.
    """

    def __init__(self, folder: Path, certificates: SiteCertificates | None = None) -> None:
        self.home = folder / "storage"
        self._folder = folder
        self._ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
        self._published = self._ports.copy()
        self._certificates = certificates
        self._trust = FogTrust(folder / "trust")
        self._files = folder / "files"
        self._files.mkdir(parents=True)
        node = NodeTrust(SITE, tuple(_KINDS.values()), ("*",))
        for name, content in self._trust.files(node).items():
            file = self._files / name
            file.write_bytes(content)
            file.chmod(0o600)
        self._running: dict[str, Service] = {}
        self.token = self._trust.token(SITE, "admin")
        self.ca = None if certificates is None else certificates.bundle
        self.agent = AgentClient(self.url("agent"), token=self.token, ca=self.ca)
        self.enabler = EnablerClient(self.url("enabler"), token=self.token, ca=self.ca)

    def url(self, service: str) -> str:
        """Return the address of a service."""
        return self._url(self._ports[service])

    def port(self, service: str) -> int:
        """Return the port of a service."""
        return self._ports[service]

    def identity(self, kind: str) -> IdentityFile:
        """Return the identity of a service of the site."""
        return IdentityFile(self._files / f"{kind}.identity")

    def publish(self, service: str, port: int) -> None:
        """Let the other services reach a service at another port, such as that of a gate.

        For services that are started later.
        """
        self._published[service] = port

    def start(self, *roles: str, prefix: Sequence[str] = ()) -> None:
        """Start processes at the same time, and wait until all of them are ready.

        ``prefix``: a command that runs a process as its argument.
        """
        for role in roles:
            self._running[role] = self._service(role, prefix)
            self._running[role].launch()
        for role in roles:
            self._running[role].wait()

    def stop(self, *roles: str) -> None:
        """End processes by SIGTERM, and wait for their end."""
        for role in roles:
            self._running.pop(role).stop()

    def close(self) -> None:
        """End all processes and clients."""
        with ExitStack() as stack:
            stack.callback(self.agent.close)
            stack.callback(self.enabler.close)
            for service in self._running.values():
                stack.callback(service.stop)

    def command(self, *arguments: str) -> str:
        """Run a command of ``mistbow`` with the token of an administrator; return its output."""
        trusted = {
            "MISTBOW_TOKEN_FILE": str(self._trust.token_file(SITE, "admin")),
            "MISTBOW_AGENT_URL": self.url("agent"),
        }
        done = subprocess.run(
            [sys.executable, "-m", "command_line.app", *arguments],
            env={**os.environ, **trusted},
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMMAND_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def ignite_options(self) -> list[str]:
        """Return the options by which a command starts the Ignite of the site."""
        options = ["--home", str(self.home), "--jars", self._jars]
        for name in ("ignite", "ignite_discovery", "ignite_communication"):
            options += [f"--{name.replace('_', '-')}-port", str(self._ports[name])]
        return options

    @property
    def _jars(self) -> str:
        return str(RunSettings().jars_folder.absolute())

    def _url(self, port: int) -> str:
        return f"{'http' if self.ca is None else 'https'}://127.0.0.1:{port}"

    def _service(self, role: str, prefix: Sequence[str]) -> Service:
        module, *arguments = _MODULES[role]
        port = self._ports["agent" if role == "storage" else role]
        settings = {
            "home": self._folder / role,
            "jars": self._jars,
            "site": SITE,
            "node": f"node-{SITE}",
            "services": "agent,monitor",
            "identity_file": self._files / f"{_KINDS[role]}.identity",
            "tokens_file": self._files / "tokens.json",
            "spark_master": "local[2]",
            "driver_memory": "512m",
            "collect_routes": "false",
            "log_level": "warning",
            **{f"{name}_port": number for name, number in self._ports.items()},
            **{
                f"{name}_url": self._url(self._published[name])
                for name in ("agent", "worker", "enabler")
            },
            **({} if self._certificates is None else self._certificates.settings(role)),
        }
        return Service(
            module, port, settings, prefix, arguments=arguments, token=self.token, ca=self.ca
        )


@contextmanager
def site_processes(
    folder: Path, certificates: SiteCertificates | None = None
) -> Iterator[SiteProcesses]:
    """Yield a site, none of whose processes runs yet; end its processes after the ``with``."""
    site = SiteProcesses(folder, certificates)
    try:
        yield site
    finally:
        site.close()
