"""Replaces the stack traces of expected faults in the output of a child process by one line."""

import re
from collections.abc import Iterator

from mistbow.os_faults import described_faults

_EVENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
"""The beginning of a log event; other lines belong to the event before."""

_AWAITED = re.compile(r" SEVERE | Failed to process client request ")
"""An event whose trace waits until it is complete."""

_TOO_EARLY = re.compile(
    r'because the cluster is inactive|Schema "SYS" not found'
    r'|Table "\w+" not found; SQL statement:\n.*\bSYS\.'
)
"""The errors of requests that arrive after Ignite accepts connections, but before it is active.

Ignite adds the views of its schema SYS one by one while it starts.
"""

_DUMP = " Thread dump at "
_MAX_LINES = 10_000


class TraceFilter:
    """Filters the lines of one run of a child process.

    The lines of an event with an error wait until the next event, or until ``close``. If they are
    the trace of an expected fault, such as a full disk, one line replaces them. Such a fault stops
    Ignite: each later trace of the run is a consequence, and becomes one line with the exception.
    The dump of all threads, which Ignite writes after the fault, is omitted. One line also replaces
    the trace of a request that comes too early.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: list[str] = []
        self._waits = self._drops = self._has_fault = False

    def feed(self, line: str) -> Iterator[str]:
        """Take a line, and yield the lines to log."""
        if _EVENT.match(line):
            yield from self.close()
            self._waits = self._has_fault or _AWAITED.search(line) is not None
            self._drops = self._has_fault and _DUMP in line
            if not self._drops:
                yield line
        elif self._waits:
            self._waiting.append(line)
            if len(self._waiting) > _MAX_LINES:
                yield from self.close()
        else:
            yield line

    def close(self) -> Iterator[str]:
        """Yield the lines that still wait, or the line that replaces them."""
        waiting, self._waiting = self._waiting, []
        drops, self._drops, self._waits = self._drops, False, False
        if drops:
            return
        if _TOO_EARLY.search("\n".join(waiting)):
            yield f"Ignite is not active yet (a trace of {len(waiting)} lines is omitted)"
            return
        fault = next(filter(None, map(_fault_in, reversed(waiting))), None)
        if fault is None and not (self._has_fault and _is_trace(waiting)):
            yield from waiting
        else:
            self._has_fault = True
            reason = fault or waiting[0].strip()
            yield f"mistbow: {self._name}: {reason} (a trace of {len(waiting)} lines is omitted)"


def _is_trace(lines: list[str]) -> bool:
    return any(line.startswith("\tat ") for line in lines)


def _fault_in(line: str) -> str | None:
    if "Exception: " not in line:
        return None
    return next((text for problem, text in described_faults() if problem in line), None)
