"""The CPU time of Spark's Python processes, by query.

Spark runs the tasks of all queries in the same Python processes. So each process adds its CPU time
since its previous record to a small file in the folder of the query that it has just worked for,
and the worker adds up the files. The time between two tasks is little, and counts for the second.
"""

import os
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_RECORD = struct.Struct("<qq")
_recorded_ns = 0


@dataclass(frozen=True, slots=True)
class TaskUsage:
    """The CPU time (s) of a query's Python tasks, and the rows that its source has read."""

    cpu_s: float = 0.0
    rows_read: int = 0


def record_usage(folder: Path | str | None, rows_read: int = 0) -> None:
    """Add this process's CPU time since its previous record, and rows, to the usage of a query.

    ``folder``: the folder of the query's usage; None: the query is not measured. Does nothing if
    the folder is missing, because the query has ended or runs on another machine.
    """
    global _recorded_ns
    if folder is None:
        return
    now = time.process_time_ns()
    spent, _recorded_ns = now - _recorded_ns, now
    path = Path(folder) / str(os.getpid())
    with suppress(FileNotFoundError):
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            found = os.pread(file, _RECORD.size, 0)
            former = _RECORD.unpack(found) if len(found) == _RECORD.size else (0, 0)
            os.pwrite(file, _RECORD.pack(former[0] + spent, former[1] + rows_read), 0)
        finally:
            os.close(file)


def read_usage(folder: Path) -> TaskUsage:
    """Return the usage of a query so far: the sum over all Python processes."""
    records = [path.read_bytes() for path in folder.iterdir()] if folder.is_dir() else []
    totals = [_RECORD.unpack(each) for each in records if len(each) == _RECORD.size]
    return TaskUsage(sum(each[0] for each in totals) / 1e9, sum(each[1] for each in totals))
