"""The services of Mistbow as child processes, with their settings and their readiness."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

import httpx
from pydantic_settings import BaseSettings

from analytics_enabler.settings import EnablerSettings
from analytics_worker.settings import WorkerSettings
from ignite_server.ports import LOOPBACK
from mistbow.auth.identity import Proof
from mistbow.client.credentials import service_credentials
from mistbow.flags import check_settings
from mistbow.tls import supervisor_context
from mistbow.trust_settings import TlsSettings
from monitoring_agent.settings import MonitorSettings
from storage_agent.settings import AgentSettings
from suite.child import Child

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


def readiness(client: httpx.Client, url: str, proof: Proof) -> Callable[[], bool]:
    """Return the probe of a service at an address, with the proof of a service of its site."""
    return partial(_is_ready, client, url, service_credentials(url, proof))


def service_child(
    name: str, is_ready: Callable[[], bool], env: Mapping[str, str], after: tuple[str, ...] = ()
) -> Child:
    """Return the process of a service; see ``Child``."""
    child = Child(name, (sys.executable, "-m", PACKAGES[name]), is_ready, env, after)
    if name != "worker":
        return child
    # At SIGTERM, a worker may wait until other workers have taken over its fragments. They learn by
    # the agent that it leaves.
    return replace(child, uses=("agent",), patience_s=child.patience_s + _drain_s())


def _drain_s() -> float:
    try:
        return float(os.environ.get("MISTBOW_DRAIN_S", "0"))
    except ValueError:  # the check of the worker's settings reports it
        return 0.0


def local_urls(host: str, scheme: str, ports: Mapping[str, int]) -> dict[str, str]:
    """Return service -> the address at which its supervisor reaches it; ``ports``: by service."""
    everywhere = host in ("0.0.0.0", "::")  # noqa: S104 - compared, not listened on
    reached = LOOPBACK if everywhere else host
    return {name: f"{scheme}://{reached}:{port}" for name, port in ports.items()}


def trust_variables(settings: TlsSettings) -> dict[str, str]:
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


def secrets_of(settings: TlsSettings) -> tuple[str, ...]:
    """Return the secrets that logs must not show."""
    return () if settings.secret is None else (settings.secret,)


def probe_client(settings: TlsSettings) -> httpx.Client:
    """Return the client of all probes."""
    # One client for all probes: its creation takes longer than a probe.
    context = supervisor_context(settings.client_tls)
    return httpx.Client(timeout=_PROBE_S, verify=context, trust_env=False)


def _is_ready(client: httpx.Client, url: str, credentials: httpx.Auth | None) -> bool:
    try:
        return client.get(f"{url}/readyz", auth=credentials).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False
