"""What the suite, or a part of it, consists of on one machine."""

import os
import sys
from collections.abc import Mapping

import httpx

from mistbow.ignite.cluster import make_ready
from mistbow.ignite.config import IgniteConfig
from mistbow.ignite.java import find_java
from mistbow.ports import LOOPBACK
from mistbow.settings import IgniteSettings, RunSettings, StorageSettings, addresses
from mistbow.supervisor.keeper import Child
from mistbow.tls import own_context
from mistbow.trust_settings import TlsSettings

_PROBE_S = 2.0


def urls(settings: RunSettings) -> dict[str, str]:
    """Return the address of each service by its name."""
    return {
        name: f"{settings.scheme}://{LOOPBACK}:{settings.ports[f'{name}_port']}"
        for name in ("enabler", "agent", "worker", "monitor")
    }


def children(settings: RunSettings) -> list[Child]:
    """Return the processes of the suite; the settings reach them by their environment."""
    at = urls(settings)
    env = {
        "MISTBOW_HOME": str(settings.home.absolute()),
        "MISTBOW_HOST": LOOPBACK,
        "MISTBOW_IGNITE_HOST": settings.ignite_address,
        "MISTBOW_AGENT_URL": at["agent"],
        "MISTBOW_WORKER_URL": at["worker"],
        "MISTBOW_DURABILITY": settings.durability,
        **_of_ignite(settings),
        **{f"MISTBOW_{name.upper()}": str(port) for name, port in settings.ports.items()},
    }
    client = _client(settings)

    def service(name: str, after: tuple[str, ...]) -> Child:
        return _service(name, at[name], client, env | _shown(settings), after)

    return [
        _ignite(settings),
        # Spark needs the longest to get ready, and nothing of the others for that.
        service("worker", after=()),
        service("agent", after=("ignite",)),
        service("monitor", after=("agent",)),
        service("enabler", after=("agent",)),
    ]


def storage(settings: StorageSettings) -> list[Child]:
    """Return the processes of a site's storage; the agent has its own settings by the environment.

    Both listen where the settings say.
    """
    env = {
        "MISTBOW_HOME": str(settings.home.absolute()),
        "MISTBOW_HOST": settings.host,
        "MISTBOW_AGENT_PORT": str(settings.agent_port),
        "MISTBOW_IGNITE_HOST": _hosts(settings),
        "MISTBOW_IGNITE_PORT": str(settings.ignite_port),
        "MISTBOW_DURABILITY": settings.durability,
        **_of_ignite(settings),
        **_shown(settings),
    }
    everywhere = settings.host in ("0.0.0.0", "::")  # noqa: S104 - compared, not listened on
    at = f"{settings.scheme}://{LOOPBACK if everywhere else settings.host}:{settings.agent_port}"
    return [
        _ignite(settings),
        _service("agent", at, _client(settings), env, after=("ignite",)),
    ]


def _service(
    name: str, url: str, client: httpx.Client, env: Mapping[str, str], after: tuple[str, ...]
) -> Child:
    argv = (sys.executable, "-m", "mistbow.cli.app", name)
    return Child(name, argv, lambda: _is_ready(client, url), env, after)


def _shown(settings: TlsSettings) -> dict[str, str]:
    """Return what the services show each other: the token, and certificates."""
    files = {
        "MISTBOW_TLS_CA": settings.tls_ca,
        "MISTBOW_TLS_CERT": settings.tls_cert,
        "MISTBOW_TLS_KEY": settings.tls_key,
        "MISTBOW_TOKEN_FILE": settings.token_file,
    }
    shown = {name: str(file.absolute()) for name, file in files.items() if file is not None}
    if settings.token_file is None and settings.secret is not None:
        shown["MISTBOW_TOKEN"] = settings.secret
    return shown


def _hosts(settings: IgniteSettings) -> str:
    """Return where the agent dials Ignite: this machine's first, then the others of the site.

    Those serve thin clients at the same port; where they do not, MISTBOW_IGNITE_HOST says so.
    """
    if named := os.environ.get("MISTBOW_IGNITE_HOST"):
        return named
    hosts = (host for host, _ in addresses(settings.ignite_nodes))
    return ",".join(dict.fromkeys((settings.ignite_address, *hosts)))


def _of_ignite(settings: IgniteSettings) -> dict[str, str]:
    ca = settings.ignite_tls_ca
    return {} if ca is None else {"MISTBOW_IGNITE_TLS_CA": str(ca.absolute())}


def ignite_config(settings: IgniteSettings) -> IgniteConfig:
    """Return how the Ignite server of this machine is set."""
    return IgniteConfig(
        folder=settings.home / "ignite",
        port=settings.ignite_port,
        discovery_port=settings.ignite_discovery_port,
        communication_port=settings.ignite_communication_port,
        durability=settings.durability,
        heap_mb=settings.ignite_heap_mb,
        address=settings.ignite_address,
        nodes=settings.site_nodes,
        tls=settings.ignite_tls,
        backups=settings.ignite_backups,
    )


def _ignite(settings: IgniteSettings) -> Child:
    config = ignite_config(settings)
    argv = config.argv(find_java(), settings.jars_folder)
    return Child("ignite", tuple(argv), lambda: make_ready(config, settings.jars_folder))


def _client(settings: TlsSettings) -> httpx.Client:
    # One for all probes: to make one takes longer than a probe does.
    headers = {}
    if settings.secret is not None:
        headers["Authorization"] = f"Bearer {settings.secret}"
    return httpx.Client(headers=headers, timeout=_PROBE_S, verify=own_context(settings.tls_ca))


def _is_ready(client: httpx.Client, url: str) -> bool:
    try:
        return client.get(f"{url}/readyz").status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False
