"""The child processes of the suite, or of a site's storage, on one machine."""

import os
from functools import partial

from ignite_server.cluster import make_ready
from ignite_server.config import ENVIRONMENT, IgniteConfig
from ignite_server.ports import LOOPBACK
from ignite_server.settings import IgniteSettings
from mistbow.java import find_java
from mistbow.settings import parse_addresses
from suite.child import Child
from suite.services import local_urls, probe_client, readiness, service_child, trust_variables
from suite.settings import RunSettings, StorageSettings


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
    client = probe_client(settings)

    def service(name: str, after: tuple[str, ...]) -> Child:
        is_ready = readiness(client, at[name], settings.proof)
        return service_child(name, is_ready, env | trust_variables(settings), after)

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
    ports = {name: settings.ports[f"{name}_port"] for name in settings.service_names}
    at = local_urls(settings.host, settings.scheme, ports)
    env = {
        "MISTBOW_HOME": str(settings.home.absolute()),
        "MISTBOW_HOST": settings.host,
        "MISTBOW_IGNITE_HOST": _hosts(settings),
        "MISTBOW_DURABILITY": settings.durability,
        **{f"MISTBOW_{name.upper()}": str(port) for name, port in settings.ports.items()},
        **_of_ignite(settings),
        **trust_variables(settings),
    }
    client = probe_client(settings)

    def service(name: str) -> Child:
        is_ready = readiness(client, at[name], settings.proof)
        # Other nodes reach the agent at the address in its settings; services of this node, here.
        own = {} if name == "agent" else {"MISTBOW_AGENT_URL": at["agent"]}
        if name == "worker" and settings.worker_identity_file is not None:
            own["MISTBOW_IDENTITY_FILE"] = str(settings.worker_identity_file.absolute())
        after = {"agent": ("ignite",), "monitor": ("agent",)}.get(name, ())
        return service_child(name, is_ready, env | own, after)

    return [_ignite(settings), *map(service, settings.service_names)]


def _hosts(settings: IgniteSettings) -> str:
    """Return the hosts of Ignite, separated by commas: this machine first, then the site's others.

    MISTBOW_IGNITE_HOST overrides the result, and may contain ports. Without ports, all hosts serve
    thin clients at the same port.
    """
    if named := os.environ.get("MISTBOW_IGNITE_HOST"):
        return named
    hosts = (host for host, _ in parse_addresses(settings.ignite_nodes))
    return ",".join(dict.fromkeys((settings.ignite_address, *hosts)))


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
