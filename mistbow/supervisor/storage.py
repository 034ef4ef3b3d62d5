"""``mistbow storage``: a site's Ignite and its storage agent, until SIGTERM; for a container."""

from mistbow.ignite.jars import check_jars, ensure_jars, wanted_jars
from mistbow.service import refuse_to_be_open
from mistbow.settings import StorageSettings
from mistbow.supervisor.lock import check_ports, only_run
from mistbow.supervisor.output import Printed
from mistbow.supervisor.signals import stop_on_signals
from mistbow.supervisor.suite import storage
from mistbow.supervisor.supervisor import Supervisor


def run(settings: StorageSettings) -> None:
    """Keep both until SIGTERM or Ctrl-C; their logs go to the standard output."""
    refuse_to_be_open("storage", settings.host, settings)
    with only_run(settings.home) as lock:
        check_ports(settings)
        # Only checked where all are there: an image's own may not be written to.
        if not settings.jars_folder.exists() or check_jars(settings.jars_folder, wanted_jars()):
            ensure_jars(settings.jars_folder)
        stopping = stop_on_signals()
        output = Printed()
        supervisor = Supervisor(storage(settings), output, keep_open=[lock])
        try:
            if supervisor.start(stopping):
                stopping.wait()
        finally:
            output.say("stopping")
            supervisor.stop()
            output.say("stopped")
