"""The logs of child processes, written to files and a terminal, or to the standard output."""

import contextlib
import logging
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.text import Text

from mistbow.telemetry import LogFile, make_log_folder, scrubber

_ROTATE_BYTES = 8 * 2**20
_OLD_FILES = 2
_MAX_LINE = 300  # on the terminal; files have whole lines
_COLORS = ("cyan", "green", "magenta", "blue", "yellow")

# The marks of our services and of Ignite. Spark logs too many warnings to be shown.
_SEVERE = re.compile(r"\[(warning|error|critical) *\]|^\S+ SEVERE |^mistbow: ")


class ChildLogs(Protocol):
    """A destination of the lines that children and their supervisor write; safe for threads."""

    def open(self, name: str) -> None:
        """Prepare for the lines of a child."""
        ...

    def line(self, name: str, text: str, *, ending: bool = False) -> None:
        """Write a line of a child; while the child is ``ending``, its errors are expected."""
        ...

    def report(self, text: str) -> None:
        """Write a line of the supervisor itself."""
        ...


class StdoutLog:
    """The standard output, for a container: each line begins with the name of its writer.

    ``secrets`` are masked in each line.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._scrub = scrubber(secrets)

    def open(self, name: str) -> None:
        """Prepare for the lines of a child."""

    def line(self, name: str, text: str, *, ending: bool = False) -> None:  # noqa: ARG002
        """Print a line of a child."""
        # One call, so that the lines of several threads do not interleave.
        with contextlib.suppress(OSError):  # the output may be a file on a full disk
            print(f"{name:>8} | {self._scrub(text)}\n", end="", flush=True)

    def report(self, text: str) -> None:
        """Print a line of the supervisor itself."""
        self.line("mistbow", text)


class FileLog:
    """Rotated log files ``folder/NAME.log`` for all lines, and a terminal for severe lines.

    ``secrets`` are masked in each line.
    """

    def __init__(self, folder: Path, console: Console, secrets: Iterable[str] = ()) -> None:
        self._scrub = scrubber(secrets)
        self._folder = folder
        self._console = console
        self._files: dict[str, logging.Logger] = {}
        make_log_folder(folder)

    def open(self, name: str) -> None:
        """Prepare for the lines of a child."""
        handler = LogFile(self._folder / f"{name}.log", _ROTATE_BYTES, _OLD_FILES)
        # Outside the tree of loggers: these lines were logged once already.
        logger = self._files[name] = logging.Logger(name)
        logger.addHandler(handler)

    def line(self, name: str, text: str, *, ending: bool = False) -> None:
        """Write a line of a child to a file, and to the terminal if it is a warning or an error.

        While a child is ``ending``, its errors are expected and are not shown on the terminal.
        """
        text = self._scrub(text)
        self._files[name].info("%s", text)
        if not ending and _SEVERE.search(text):
            color = _COLORS[list(self._files).index(name) % len(_COLORS)]
            self._show((f"{name:>8} | ", color), text)

    def report(self, text: str) -> None:
        """Show a line of the supervisor itself on the terminal."""
        self._show((" mistbow | ", "bold"), text)

    def _show(self, who: tuple[str, str], text: str) -> None:
        # Only the terminal wraps: in a file or a pipe a line stays one line.
        with contextlib.suppress(OSError):  # the output may be a file on a full disk
            self._console.print(Text.assemble(who, text[:_MAX_LINE]), soft_wrap=True)

    def close(self) -> None:
        """Close all log files."""
        for logger in self._files.values():
            for handler in logger.handlers:
                handler.close()
