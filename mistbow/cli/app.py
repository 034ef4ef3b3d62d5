"""The ``mistbow`` command: the suite, each of its services, and insights."""

import sys
from collections.abc import Callable
from importlib.metadata import entry_points

import typer
from pydantic_settings import BaseSettings
from rich.console import Console
from stamina.instrumentation import set_on_retry_hooks

from mistbow.cli.city import city
from mistbow.cli.flags import command_of
from mistbow.cli.fog import app as fog
from mistbow.cli.insights import app as insights
from mistbow.cli.storage import app as storage
from mistbow.cli.token import app as token
from mistbow.errors import MistbowError
from mistbow.monitoring.settings import MonitorSettings
from mistbow.settings import (
    AgentSettings,
    EnablerSettings,
    IgniteSettings,
    RunSettings,
    WorkerSettings,
)

_SERVICES: dict[str, tuple[type[BaseSettings], str]] = {
    "agent": (AgentSettings, "Run a storage agent."),
    "worker": (WorkerSettings, "Run an analytics worker."),
    "enabler": (EnablerSettings, "Run an analytics enabler."),
    "monitor": (MonitorSettings, "Run a monitoring agent."),
}

app = typer.Typer(
    help="A fog data-management suite: storage agents, declarative insights, fog-aware scheduling.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _run_suite(settings: RunSettings) -> None:
    from mistbow.supervisor.run import run

    run(settings)


def _set_up(settings: IgniteSettings) -> None:
    from mistbow.supervisor.preparation import prepare

    prepare(settings.jars_folder, Console())


def _service(name: str) -> Callable[[BaseSettings], None]:
    def serve(settings: BaseSettings) -> None:
        (entry,) = entry_points(group="mistbow.services", name=name)
        entry.load()(settings)

    return serve


app.command("run", help="Run the whole suite on this machine, and show its insights.")(
    command_of(RunSettings, _run_suite)
)
for _name, (_settings, _help) in _SERVICES.items():
    app.command(_name, help=_help)(command_of(_settings, _service(_name)))
app.command("setup", help="Fetch and prepare what Mistbow needs beside Python's packages.")(
    command_of(IgniteSettings, _set_up)
)
app.command("city")(city)
app.add_typer(insights, name="insights")
app.add_typer(token, name="token")
app.add_typer(fog, name="fog")
app.add_typer(storage, name="storage")


def main(*words: str) -> None:
    """Run the command, of ``words`` and what follows on the line; our errors are told in words."""
    set_on_retry_hooks([])
    try:
        app(args=[*words, *sys.argv[1:]])
    except MistbowError as error:
        lines = [f"mistbow: {error.message}"]
        if error.hint:
            lines.append(f"  hint: {error.hint}")
        if error.details:
            lines.append(f"  {error.details}")
        sys.exit("\n".join(lines))


if __name__ == "__main__":
    main()
