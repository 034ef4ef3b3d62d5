"""The ``mistbow`` command: the suite, each of its services, and insights."""

import sys
from collections.abc import Callable
from importlib.metadata import entry_points

import typer
from pydantic_settings import BaseSettings
from rich.console import Console
from stamina.instrumentation import set_on_retry_hooks

from analytics_enabler.settings import EnablerSettings
from analytics_worker.settings import WorkerSettings
from command_line.backup import backup, restore_command
from command_line.ca import app as ca
from command_line.city import city
from command_line.fabric import app as fabric
from command_line.fog import app as fog
from command_line.identity import app as identity
from command_line.insights import app as insights
from command_line.node import app as node
from command_line.storage import app as storage
from command_line.token import app as token
from command_line.top import top
from ignite_server.settings import IgniteSettings
from mistbow.flags import command_of, exit_on_errors
from monitoring_agent.settings import MonitorSettings
from storage_agent.settings import AgentSettings
from suite.settings import NodeSettings, RunSettings

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
    from suite.run import run

    run(settings)


def _run_node(settings: NodeSettings) -> None:
    from suite.node import run

    run(settings)


def _set_up(settings: IgniteSettings) -> None:
    from suite.preparation import prepare

    prepare(settings.jars_folder, Console())


def _service(name: str) -> Callable[[BaseSettings], None]:
    def serve(settings: BaseSettings) -> None:
        (entry,) = entry_points(group="mistbow.services", name=name)
        entry.load()(settings)

    return serve


app.command("run", help="Run all services on this machine, and show the results of insights.")(
    command_of(RunSettings, _run_suite)
)
for _name, (_settings, _help) in _SERVICES.items():
    app.command(_name, help=_help)(command_of(_settings, _service(_name)))
app.command("supervise", help="Run a worker or an enabler with a monitoring agent.")(
    command_of(NodeSettings, _run_node)
)
app.command("setup", help="Download Ignite's jars, and prepare fast starts of the services.")(
    command_of(IgniteSettings, _set_up)
)
app.command("city")(city)
app.command("backup")(backup)
app.command("restore")(restore_command())
app.command("top")(top)
app.add_typer(insights, name="insights")
app.add_typer(token, name="token")
app.add_typer(identity, name="identity")
app.add_typer(ca, name="ca")
app.add_typer(fog, name="fog")
app.add_typer(fabric, name="fabric")
app.add_typer(node, name="node")
app.add_typer(storage, name="storage")


def main(*words: str) -> None:
    """Run the command with ``words`` and the arguments of the process; print errors as text."""
    set_on_retry_hooks([])
    with exit_on_errors():
        app(args=[*words, *sys.argv[1:]])


if __name__ == "__main__":
    main()
