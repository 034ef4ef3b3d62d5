"""Measures all figures of the storage agent in one run."""

import tempfile
from pathlib import Path

from benchmarks.report import Figure, Report
from benchmarks.storage import day, requests, sites, steady, ycsb
from benchmarks.storage.storage_site import running_site

_HOW = (
    "One agent and one Ignite as they are by default (fsync), each a process of its own, on a "
    "machine that also runs the clients: one process with a connection for each client. Five runs "
    "of five seconds; YCSB: runs of 1,000, 5,000, 10,000 and 20,000 operations over records of "
    "1 KB, and Redis 7 with the same clients. Memory is each process' own share (PSS)."
)


def run() -> Report:
    """Measure all figures; this takes about half an hour."""
    results: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="mistbow-storage-") as name:
        folder = Path(name)
        with running_site(folder / "requests") as running:
            results += requests.figures(running)
        results += day.figures(folder / "day")
        results += sites.figures(folder / "sites")
        results += steady.figures(folder / "steady")
        results += ycsb.figures(folder / "ycsb")
    return Report("Storage", _HOW, results)
