"""All figures of the storage service in one run."""

import tempfile
from pathlib import Path

from benchmarks.report import Figure, Report
from benchmarks.storage import day, requests, sites, steady, ycsb
from benchmarks.storage.fleet import site

_HOW = (
    "One agent and one Ignite as they are by default (fsync), each a process of its own, on a "
    "machine that also runs the clients: one process with a connection for each client. Five runs "
    "of five seconds; YCSB: runs of 1,000, 5,000, 10,000 and 20,000 operations over records of "
    "1 KB, and Redis 7 with the same clients. Memory is each process' own share (PSS)."
)


def run() -> Report:
    """Measure everything; takes about half an hour."""
    found: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="mistbow-storage-") as name:
        folder = Path(name)
        with site(folder / "requests") as running:
            found += requests.figures(running)
        found += day.figures(folder / "day")
        found += sites.figures(folder / "sites")
        found += steady.figures(folder / "steady")
        found += ycsb.figures(folder / "ycsb")
    return Report("Storage", _HOW, found)
