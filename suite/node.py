"""``mistbow supervise``: runs a worker or an enabler, and a monitoring agent, in a container."""

from mistbow.home_lock import home_lock
from mistbow.ports import check_ports
from mistbow.private_files import make_home
from mistbow.service import require_token_beyond_loopback
from suite.child import Child
from suite.child_logs import StdoutLog
from suite.services import (
    check_settings_of,
    local_urls,
    probe_client,
    readiness,
    secrets_of,
    service_child,
    trust_variables,
)
from suite.settings import NodeSettings
from suite.supervisor import supervise


def processes(settings: NodeSettings) -> list[Child]:
    """Return the services of a node without storage, in the order of their start.

    The services also read settings that are not in ``settings``, from environment variables.
    """
    env = {
        "MISTBOW_HOME": str(settings.home.absolute()),
        "MISTBOW_HOST": settings.host,
        **{f"MISTBOW_{name.upper()}_PORT": str(port) for name, port in settings.ports.items()},
        **trust_variables(settings),
    }
    at = local_urls(settings.host, settings.scheme, settings.ports)
    client = probe_client(settings)

    def service(name: str) -> Child:
        is_ready = readiness(client, at[name], settings.proof_of(name))
        file = settings.identity_file_of(name)
        own = {} if file is None else {"MISTBOW_IDENTITY_FILE": str(file.absolute())}
        return service_child(name, is_ready, env | own)

    return [service(name) for name in settings.service_names]


def run(settings: NodeSettings) -> None:
    """Run the services of a node until SIGTERM or Ctrl-C, with logs on standard output."""
    require_token_beyond_loopback("supervise", settings.host, settings)
    problems = make_home(settings.home)
    children = processes(settings)
    check_settings_of(children)
    with home_lock(settings.home, "run", "mistbow supervise") as lock:
        ports = {f"{name}_port": port for name, port in settings.ports.items()}
        check_ports(ports, settings.host)
        supervise(children, StdoutLog(secrets_of(settings)), problems, keep_open=[lock])
