"""The set-up of a machine, needed once, and the check of the ports before each start."""

from importlib.metadata import entry_points
from pathlib import Path

from rich.console import Console

from ignite_server.class_archive import ensure_class_archive
from ignite_server.jars import ensure_jars
from mistbow.ports import check_ports
from suite.settings import RunSettings, StorageSettings


def prepare(jars: Path, console: Console) -> None:
    """Fetch Ignite's jars into a folder, and run the preparations of Ignite and each service.

    A preparation is an entry point of the group ``mistbow.preparations``: a function with a console
    as its argument, which returns at once if nothing needs to be done. Raises ``JarError`` if the
    jars cannot be fetched.
    """
    ensure_jars(jars, console)
    ensure_class_archive(jars, console)
    for preparation in entry_points(group="mistbow.preparations"):
        preparation.load()(console)


def check_all_ports(settings: RunSettings | StorageSettings, host: str) -> None:
    """Raise ``ConflictError`` if a port of the services at ``host``, or of Ignite, is in use.

    Ignite listens at an address of its own.
    """
    of_ignite = {name for name in settings.ports if name.startswith("ignite_")}
    for names, address in (
        (settings.ports.keys() - of_ignite, host),
        (of_ignite, settings.ignite_address),
    ):
        check_ports({name: settings.ports[name] for name in sorted(names)}, address)
