"""``mistbow run``: the suite on this machine, until Ctrl-C."""

import threading
from contextlib import AbstractContextManager, nullcontext

import psutil
from rich.console import Console
from rich.live import Live

from mistbow.client.enabler import EnablerClient
from mistbow.clock import system_clock
from mistbow.errors import MistbowError
from mistbow.settings import RunSettings
from mistbow.supervisor.board import Board, plain
from mistbow.supervisor.lock import check_ports, only_run
from mistbow.supervisor.output import Filed
from mistbow.supervisor.preparation import prepare
from mistbow.supervisor.showcase import problem, results
from mistbow.supervisor.signals import stop_on_signals
from mistbow.supervisor.suite import children, urls
from mistbow.supervisor.supervisor import Supervisor


def run(settings: RunSettings) -> None:
    """Start the suite, show its insights, and stop it on Ctrl-C or SIGTERM."""
    console = Console()
    with only_run(settings.home) as lock:
        check_ports(settings)
        prepare(settings.jars_folder, console)
        stopping = stop_on_signals()
        output = Filed(settings.home / "logs", console)
        supervisor = Supervisor(children(settings), output, keep_open=[lock])
        try:
            output.say(f"starting; the logs are in {settings.home / 'logs'}")
            with _shown_results(settings, console, output, stopping):
                if supervisor.start(stopping):
                    stopping.wait()
        finally:
            output.say("stopping; Ctrl-C again ends everything at once")
            supervisor.stop()
            output.say("stopped")
            output.close()


def _shown_results(
    settings: RunSettings, console: Console, output: Filed, stopping: threading.Event
) -> AbstractContextManager[object]:
    """Show results from now on, as soon as there are any: on a terminal a live table."""
    board = Board(urls(settings), system_clock)
    arguments = (settings, board, console, output, stopping)
    threading.Thread(target=_follow, args=arguments, daemon=True).start()
    return (
        Live(board, console=console, refresh_per_second=2) if console.is_terminal else nullcontext()
    )


def _follow(
    settings: RunSettings,
    board: Board,
    console: Console,
    output: Filed,
    stopping: threading.Event,
) -> None:
    enabler = EnablerClient(urls(settings)["enabler"], token=settings.secret, ca=settings.tls_ca)
    first = True
    try:
        for result in results(enabler, settings.insights, stopping):
            board.update(result)
            if first:
                age = system_clock() / 1000 - psutil.Process().create_time()
                output.say(f"first insight value after {age:.1f} s")
                first = False
            if not console.is_terminal:
                console.print(plain(result), markup=False, highlight=False, soft_wrap=True)
        if not stopping.is_set():
            output.say(
                f"the insights of {settings.insights} were deleted; the next run deploys them"
            )
    except OSError as error:
        output.say(f"no insights deployed: {error}")
    except MistbowError as error:
        output.say(f"no insights deployed: {problem(error)}")
