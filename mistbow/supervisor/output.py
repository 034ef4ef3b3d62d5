"""Where the lines of the children go: all to files, the grave ones to the terminal too."""

import logging
import re
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.text import Text

_ROTATE_BYTES = 8 * 2**20
_OLD_FILES = 2
_LONGEST_LINE = 300  # on the terminal; the files have all of it
_COLORS = ("cyan", "green", "magenta", "blue", "yellow")

# As our services and as Ignite mark them; Spark warns of too much.
_GRAVE = re.compile(r"\[(warning|error|critical) *\]|^\S+ SEVERE ")


class Output(Protocol):
    """Takes the lines of children and of their supervisor, from any thread."""

    def open(self, name: str) -> None:
        """Make ready for the lines of a child."""
        ...

    def line(self, name: str, text: str, *, ending: bool = False) -> None:
        """Take a line that a child wrote; while it is ``ending``, its trouble is none."""
        ...

    def say(self, text: str) -> None:
        """Take a line of the supervisor itself."""
        ...


class Printed:
    """All lines on the standard output, each with its writer's name: for a container's log."""

    def open(self, name: str) -> None:
        """Make ready for the lines of a child."""

    def line(self, name: str, text: str, *, ending: bool = False) -> None:  # noqa: ARG002
        """Print a line that a child wrote."""
        # One call, so that lines of several threads do not mix.
        print(f"{name:>8} | {text}\n", end="", flush=True)

    def say(self, text: str) -> None:
        """Print a line of the supervisor itself."""
        self.line("mistbow", text)


class Filed:
    """Log files ``folder/NAME.log``, of limited size, and a terminal; safe to use from threads."""

    def __init__(self, folder: Path, console: Console) -> None:
        self._folder = folder
        self._console = console
        self._files: dict[str, logging.Logger] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def open(self, name: str) -> None:
        """Make ready for the lines of a child."""
        handler = RotatingFileHandler(
            self._folder / f"{name}.log", maxBytes=_ROTATE_BYTES, backupCount=_OLD_FILES
        )
        # Not of logging's tree: these lines were logged once already.
        logger = self._files[name] = logging.Logger(name)
        logger.addHandler(handler)

    def line(self, name: str, text: str, *, ending: bool = False) -> None:
        """Keep a line that a child wrote, and show it if it tells of trouble.

        While a child is ``ending`` by our will, its trouble is none.
        """
        self._files[name].info("%s", text)
        if not ending and _GRAVE.search(text):
            color = _COLORS[list(self._files).index(name) % len(_COLORS)]
            self._show((f"{name:>8} | ", color), text)

    def say(self, text: str) -> None:
        """Show a line of the supervisor itself."""
        self._show((" mistbow | ", "bold"), text)

    def _show(self, who: tuple[str, str], text: str) -> None:
        # Wrapped by the terminal, if at all: a line in a file or a pipe stays one.
        self._console.print(Text.assemble(who, text[:_LONGEST_LINE]), soft_wrap=True)

    def close(self) -> None:
        """Close all files."""
        for logger in self._files.values():
            for handler in logger.handlers:
                handler.close()
