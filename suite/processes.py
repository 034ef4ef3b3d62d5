"""The child processes of the suite, or of a site's storage, on one machine."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import httpx
from pydantic_settings import BaseSettings

from analytics_enabler.settings import EnablerSettings
from analytics_worker.settings import WorkerSettings
from ignite_server.cluster import make_ready
from ignite_server.config import ENVIRONMENT, IgniteConfig
from ignite_server.ports import LOOPBACK
from ignite_server.settings import IgniteSettings
from mistbow.client.credentials import service_credentials
from mistbow.flags import check_settings
from mistbow.java import find_java
from mistbow.settings import parse_addresses
from mistbow.tls import supervisor_context
from mistbow.trust_settings import TlsSettings
from monitoring_agent.settings import MonitorSettings
from storage_agent.settings import AgentSettings
from suite.child import Child
from suite.settings import RunSettings, StorageSettings

_PROBE_S = 2.0

PACKAGES = {
    "agent": "storage_agent",
    "worker": "analytics_worker",
    "monitor": "monitoring_agent",
    "enabler": "analytics_enabler",
}
"""Service -> the package that runs it; ``mistbow NAME`` would also load all other commands."""


_SETTINGS: dict[str, type[BaseSettings]] = {
    "agent": AgentSettings,
    "worker": WorkerSettings,
    "monitor": MonitorSettings,
    "enabler": EnablerSettings,
}


def check_settings_of(processes: Iterable[Child]) -> None:
    """End the command if the settings of a service are invalid: it would be restarted for ever."""
    for each in processes:
        if each.name in _SETTINGS:
            check_settings(_SETTINGS[each.name], each.env)


def urls(settings: RunSettings) -> dict[str, str]:
    """Return name of a service -> URL of the service."""
    return {
        name: f"{settings.scheme}://{LOOPBACK}:{settings.ports[f'{name}_port']}"
        for name in ("enabler", "agent", "worker", "monitor")
    }


def children(settings: RunSettings) -> list[Child]:
    """Return the processes of the suite, with their settings as environment variables."""
    at = urls(settings)
    env = {
        "MISTBOW_HOME": str(settings.home.absolute()),
        "MISTBOW_HOST": LOOPBACK,
        "MISTBOW_IGNITE_HOST": settings.ignite_address,
        "MISTBOW_AGENT_URL": at["agent"],
        "MISTBOW_WORKER_URL": at["worker"],
        "MISTBOW_ENABLER_URL": at["enabler"],
        "MISTBOW_DURABILITY": settings.durability,
        "MISTBOW_WHEN_FENCED": _when_fenced(settings),
        **_of_ignite(settings),
        **{f"MISTBOW_{name.upper()}": str(port) for name, port in settings.ports.items()},
    }
    client = _client(settings)

    def service(name: str, after: tuple[str, ...]) -> Child:
        credentials = service_credentials(at[name], settings.proof)
        is_ready = partial(_is_ready, client, at[name], credentials)
        return _service(name, is_ready, env | _trust_variables(settings), after)

    return [
        _ignite(settings),
        # Spark starts slowest, and needs no other service for that.
        service("worker", after=()),
        service("agent", after=("ignite",)),
        service("monitor", after=("agent",)),
        service("enabler", after=("agent",)),
    ]


def storage(settings: StorageSettings) -> list[Child]:
    """Return the processes of a node with a site's storage: Ignite, the agent, further services.

    The services also read settings that are not in ``settings``, from environment variables.
    """
    everywhere = settings.host in ("0.0.0.0", "::")  # noqa: S104 - compared, not listened on
    host = LOOPBACK if everywhere else settings.host
    at = {
        name: f"{settings.scheme}://{host}:{settings.ports[f'{name}_port']}"
        for name in settings.service_names
    }
    env = {
        "MISTBOW_HOME": str(settings.home.absolute()),
        "MISTBOW_HOST": settings.host,
        "MISTBOW_IGNITE_HOST": _hosts(settings),
        "MISTBOW_DURABILITY": settings.durability,
        **{f"MISTBOW_{name.upper()}": str(port) for name, port in settings.ports.items()},
        **_of_ignite(settings),
        **_trust_variables(settings),
    }
    client = _client(settings)

    def service(name: str) -> Child:
        is_ready = partial(
            _is_ready, client, at[name], service_credentials(at[name], settings.proof)
        )
        # Other services reach the agent at the address in its settings; those of its node, here.
        own = {} if name == "agent" else {"MISTBOW_AGENT_URL": at["agent"]}
        if name == "worker" and settings.worker_identity_file is not None:
            own["MISTBOW_IDENTITY_FILE"] = str(settings.worker_identity_file.absolute())
        after = {"agent": ("ignite",), "monitor": ("agent",)}.get(name, ())
        return _service(name, is_ready, env | own, after)

    return [_ignite(settings), *map(service, settings.service_names)]


def _service(
    name: str, is_ready: Callable[[], bool], env: Mapping[str, str], after: tuple[str, ...]
) -> Child:
    argv = (sys.executable, "-m", PACKAGES[name])
    return Child(name, argv, is_ready, env, after)


def _trust_variables(settings: TlsSettings) -> dict[str, str]:
    """Return name -> value of the environment variables for the token and the TLS files."""
    files = {
        "MISTBOW_TLS_CA": settings.tls_ca,
        "MISTBOW_TLS_CERT": settings.tls_cert,
        "MISTBOW_TLS_KEY": settings.tls_key,
        "MISTBOW_TLS_CLIENT_CA": settings.tls_client_ca,
        "MISTBOW_TOKEN_FILE": settings.token_file,
        "MISTBOW_IDENTITY_FILE": settings.identity_file,
    }
    variables = {name: str(file.absolute()) for name, file in files.items() if file is not None}
    if settings.identities_required:
        variables["MISTBOW_IDENTITIES_REQUIRED"] = "true"
    if settings.token_file is None and settings.secret is not None:
        variables["MISTBOW_TOKEN"] = settings.secret
    return variables


def _hosts(settings: IgniteSettings) -> str:
    """Return the hosts of Ignite, separated by commas: this machine first, then the site's others.

    MISTBOW_IGNITE_HOST overrides the result, and may contain ports. Without ports, all hosts serve
    thin clients at the same port.
    """
    if named := os.environ.get("MISTBOW_IGNITE_HOST"):
        return named
    hosts = (host for host, _ in parse_addresses(settings.ignite_nodes))
    return ",".join(dict.fromkeys((settings.ignite_address, *hosts)))


def secrets_of(settings: TlsSettings) -> tuple[str, ...]:
    """Return the secrets that logs must not show."""
    return () if settings.secret is None else (settings.secret,)


def _when_fenced(settings: RunSettings) -> str:
    # By default, the agents of a site of several machines do not fence each other in turns.
    default = "stay" if settings.site_nodes else "end"
    return os.environ.get("MISTBOW_WHEN_FENCED", default)


def _of_ignite(settings: IgniteSettings) -> dict[str, str]:
    ca = settings.ignite_tls_ca
    return {} if ca is None else {"MISTBOW_IGNITE_TLS_CA": str(ca.absolute())}


def ignite_config(settings: IgniteSettings) -> IgniteConfig:
    """Return the configuration of this machine's Ignite server."""
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
    is_ready = partial(make_ready, config, settings.jars_folder)
    return Child("ignite", tuple(argv), is_ready, inherits=ENVIRONMENT)


def _client(settings: TlsSettings) -> httpx.Client:
    # One client for all probes: its creation takes longer than a probe.
    context = supervisor_context(settings.client_tls)
    return httpx.Client(timeout=_PROBE_S, verify=context, trust_env=False)


def _is_ready(client: httpx.Client, url: str, credentials: httpx.Auth | None) -> bool:
    try:
        return client.get(f"{url}/readyz", auth=credentials).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False
