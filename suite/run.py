"""``mistbow run``: runs the suite on this machine until Ctrl-C or SIGTERM."""

import threading
from contextlib import AbstractContextManager, nullcontext, suppress

import psutil
from rich.console import Console
from rich.live import Live

from analytics.client.enabler import EnablerClient
from ignite_server.ports import LOOPBACK
from mistbow.client.credentials import service_credentials
from mistbow.clock import system_clock
from mistbow.errors import MistbowError
from mistbow.home_lock import home_lock
from mistbow.private_files import make_home
from suite.child_logs import FileLog
from suite.example_insights import follow_results, problem, silent_insights
from suite.preparation import check_all_ports, prepare
from suite.processes import children, urls
from suite.results_table import ResultsTable, result_line
from suite.services import check_settings_of, secrets_of
from suite.settings import RunSettings
from suite.signals import stop_on_signals
from suite.supervisor import Supervisor

_SILENCE_PERIOD_S = 5.0


def run(settings: RunSettings) -> None:
    """Start the suite, show its insights, and stop it on Ctrl-C or SIGTERM."""
    console = Console()
    problems = make_home(settings.home)
    check_settings_of(children(settings))
    with home_lock(settings.home, "run", "mistbow run") as lock:
        check_all_ports(settings, LOOPBACK)
        prepare(settings.jars_folder, console)
        stopping = stop_on_signals()
        output = FileLog(settings.home / "logs", console, secrets_of(settings))
        # The class path of Ignite lists its jars, which exist only now.
        supervisor = Supervisor(children(settings), output, keep_open=[lock])
        try:
            for each in problems:
                output.report(each)
            output.report(f"starting; the logs are in {settings.home / 'logs'}")
            with _shown_results(settings, console, output, stopping):
                if supervisor.start(stopping):
                    stopping.wait()
        finally:
            output.report("stopping; a second Ctrl-C kills all processes at once")
            supervisor.stop()
            output.report("stopped")
            output.close()


def _shown_results(
    settings: RunSettings, console: Console, output: FileLog, stopping: threading.Event
) -> AbstractContextManager[object]:
    """Follow the results in a thread, and return a context in which a terminal shows a live table.

    If the console is not a terminal, each result is printed as a line instead.
    """
    board = ResultsTable(urls(settings), system_clock)
    arguments = (settings, board, console, output, stopping)
    threading.Thread(target=_follow, args=arguments, daemon=True).start()
    if console.is_terminal:
        silence = (settings, board, stopping)
        threading.Thread(target=_follow_silence, args=silence, daemon=True).start()
    return (
        Live(board, console=console, refresh_per_second=2) if console.is_terminal else nullcontext()
    )


def _enabler_client(settings: RunSettings) -> EnablerClient:
    url = urls(settings)["enabler"]
    credentials = service_credentials(url, settings.proof)
    return EnablerClient(url, credentials, ca=settings.client_tls)


def _follow_silence(settings: RunSettings, board: ResultsTable, stopping: threading.Event) -> None:
    """Show the insights without values in the live table."""
    enabler = _enabler_client(settings)
    while not stopping.wait(_SILENCE_PERIOD_S):
        with suppress(MistbowError):
            board.set_silent(silent_insights(enabler, settings.insights))


def _follow(
    settings: RunSettings,
    board: ResultsTable,
    console: Console,
    output: FileLog,
    stopping: threading.Event,
) -> None:
    enabler = _enabler_client(settings)
    first = True
    try:
        for result in follow_results(enabler, settings.insights, stopping):
            board.update(result)
            if first:
                age = system_clock() / 1000 - psutil.Process().create_time()
                output.report(f"first insight value after {age:.1f} s")
                first = False
            if not console.is_terminal:
                console.print(result_line(result), markup=False, highlight=False, soft_wrap=True)
        if not stopping.is_set():
            output.report(
                f"the insights of {settings.insights} were deleted; a restart deploys them again"
            )
    except OSError as error:
        output.report(f"no insights deployed: {error}")
    except MistbowError as error:
        output.report(f"no insights deployed: {problem(error)}")
