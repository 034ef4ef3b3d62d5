"""Measures the ingest protocols; run as part of ``python -m benchmarks``."""

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.ingestion.bodies import (
    LINE_PROTOCOL,
    PUT,
    REMOTE_WRITE,
    line_bodies,
    put_bodies,
    remote_write_bodies,
)
from benchmarks.ingestion.rainbow import JAR, running_rainbow
from benchmarks.ingestion.wrk import Load, Way, send
from benchmarks.report import Figure, Report
from benchmarks.storage.storage_site import running_site

_RUNS = 5
_CONNECTIONS = 4
_MANY_CONNECTIONS = 64
_HOW = (
    "One agent and one Ignite as they are by default (fsync), and the load generator wrk, on one "
    "machine with two cores. Each of five runs sends new bodies, each body once, for three to ten "
    "seconds. RAINBOW's storage runs in a network namespace of the machine, and gets fewer bodies "
    "of the same form."
)


@dataclass(frozen=True)
class _Case:
    """Bodies of one size over a number of connections; ``bodies`` per run."""

    name: str
    way: Way
    source: Callable[[int, int], Iterable[bytes]]
    points: int
    bodies: int
    connections: int = _CONNECTIONS

    def send(self, url: str, bodies: int | None = None) -> Load:
        """Send new bodies to a server: ``bodies``, or as many as usual."""
        return send(
            url, self.way, self.source(bodies or self.bodies, self.points), self.connections
        )


_PUTS = (
    (_Case("/put, 1 point a body", PUT, put_bodies, 1, 10_000), 300),
    (_Case("/put, 100 points a body", PUT, put_bodies, 100, 5000), 20),
    (_Case("/put, 1,000 points a body", PUT, put_bodies, 1000, 1000), 8),
)
"""The cases that RAINBOW's storage also gets, and how many bodies of them."""

_MANY = _Case("/put, 1 point a body, 64 connections", PUT, put_bodies, 1, 40_000, _MANY_CONNECTIONS)
_OTHERS = (
    _Case("line protocol, 100 lines a body", LINE_PROTOCOL, line_bodies, 100, 3000),
    _Case("line protocol, 1,000 lines a body", LINE_PROTOCOL, line_bodies, 1000, 500),
    _Case("remote write, 100 samples a body", REMOTE_WRITE, remote_write_bodies, 100, 3000),
    _Case("remote write, 1,000 samples a body", REMOTE_WRITE, remote_write_bodies, 1000, 500),
)


def run() -> Report:
    """Measure all ingest protocols; this takes about five minutes."""
    with tempfile.TemporaryDirectory(prefix="mistbow-ingestion-") as folder:
        return Report("Ingestion", _HOW, list(_figures(Path(folder))))


def _figures(folder: Path) -> Iterator[Figure]:
    with running_site(folder / "site") as site:
        _MANY.send(site.url, 5000)  # before the first run, the code is cold
        runs = [_MANY.send(site.url) for _ in range(_RUNS)]
        yield Figure(_MANY.name, "requests/s", [each.rate for each in runs], at_least=4000)
        yield Figure("the same, p50", "ms", [each.p50_ms for each in runs])
        yield Figure("the same, p99", "ms", [each.p99_ms for each in runs], at_most=30)
        ours = [[case.send(site.url) for _ in range(_RUNS)] for case, _ in _PUTS]
        for (case, _), loads in zip(_PUTS, ours, strict=True):
            yield _points(case, case.name, loads, 100_000 if case.points == 100 else None)
            yield Figure("the same, p99", "ms", [each.p99_ms for each in loads])
        for case in _OTHERS:
            loads = [case.send(site.url) for _ in range(_RUNS)]
            yield _points(case, case.name, loads)
            yield Figure("the same, p99", "ms", [each.p99_ms for each in loads])
    if jar := os.environ.get(JAR):
        yield from _beside_rainbow(folder / "rainbow", Path(jar), ours)


def _beside_rainbow(home: Path, jar: Path, ours: list[list[Load]]) -> Iterator[Figure]:
    with running_rainbow(home, jar) as url:
        for (case, bodies), mine in zip(_PUTS, ours, strict=True):
            case.send(url, bodies)
            theirs = [case.send(url, bodies) for _ in range(_RUNS)]
            yield _points(case, f"RAINBOW's storage: {case.name}", theirs)
            ratios = [one.rate / other.rate for one, other in zip(mine, theirs, strict=True)]
            yield Figure("Mistbow : RAINBOW's storage", "ratio", ratios)


def _points(case: _Case, name: str, loads: list[Load], goal: float | None = None) -> Figure:
    return Figure(name, "points/s", [each.rate * case.points for each in loads], at_least=goal)
