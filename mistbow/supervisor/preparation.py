"""What is done once on a machine before the suite can run, or so that it starts fast."""

from importlib.metadata import entry_points
from pathlib import Path

from rich.console import Console

from mistbow.ignite.jars import ensure_jars


def prepare(jars: Path, console: Console) -> None:
    """Fetch Ignite's jars into a folder, and let each service prepare itself.

    A service does so by an entry point of the group ``mistbow.preparations``: a function of a
    console, which returns at once when there is nothing to do. Raises ``JarError``.
    """
    ensure_jars(jars, console)
    for preparation in entry_points(group="mistbow.preparations"):
        preparation.load()(console)
