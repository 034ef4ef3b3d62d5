"""``mistbow storage``: runs a site's Ignite and storage agent until SIGTERM, in a container."""

from ignite_server.jars import ensure_jars
from mistbow.home_lock import home_lock
from mistbow.private_files import make_home
from mistbow.service import require_token_beyond_loopback
from suite.child_logs import StdoutLog
from suite.preparation import check_all_ports
from suite.processes import storage
from suite.services import check_settings_of, secrets_of
from suite.settings import StorageSettings
from suite.supervisor import supervise


def run(settings: StorageSettings) -> None:
    """Run Ignite and the storage agent until SIGTERM or Ctrl-C, with logs on standard output."""
    require_token_beyond_loopback("storage", settings.host, settings)
    problems = make_home(settings.home)
    check_settings_of(storage(settings))
    with home_lock(settings.home, "run", "mistbow storage") as lock:
        check_all_ports(settings, settings.host)
        ensure_jars(settings.jars_folder)
        # The class path of Ignite lists its jars, which exist only now.
        supervise(storage(settings), StdoutLog(secrets_of(settings)), problems, keep_open=[lock])
