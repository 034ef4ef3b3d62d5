"""The results of runs: one row for each run, stored as CSV, and their summaries."""

import csv
import dataclasses
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec


@dataclass(frozen=True)
class RunResult:
    """A run of a workload.

    ``rate``: operations per second. ``behind_s``: how long after the run the replicas had all
    records, at most. ``busy``: the share of the host's cores that were busy.
    ``rest_cores``: the cores that the store used before the runs, without requests. ``node_mb``:
    the mean memory (PSS) of the store at a node. ``delay_ms``: the measured delay of a link, one
    way. ``day``: the date of the run (YYYY-MM-DD).
    """

    nodes: int
    store: str
    replicas: bool
    workload: str
    operations: int
    number: int
    clients: int
    rate: float
    mean_ms: float
    p95_ms: float
    p99_ms: float
    behind_s: float
    busy: float
    rest_cores: float
    node_mb: float
    delay_ms: float
    day: str

    @property
    def case(self) -> "Case":
        """What was measured, but for the number of the run."""
        return Case(self.workload, self.nodes, self.operations, self.store, self.replicas)


class Case(NamedTuple):
    """What runs measure: a workload of some operations, on a store on some nodes."""

    workload: str
    nodes: int
    operations: int
    store: str
    replicas: bool

    @property
    def system(self) -> str:
        """The name of the store, and whether it has replicas."""
        return f"{self.store}, replicas" if self.replicas else self.store


@dataclass(frozen=True)
class Summary:
    """The runs of a case: the medians, and the least and the greatest rate."""

    case: Case
    runs: Sequence[RunResult]

    @property
    def rate(self) -> float:
        """The median rate (operations per second)."""
        return self.median("rate")

    def median(self, field: str) -> float:
        """Return the median of a field over the runs."""
        return float(statistics.median(getattr(run, field) for run in self.runs))

    @property
    def rates(self) -> tuple[float, float]:
        """The least and the greatest rate."""
        rates = [run.rate for run in self.runs]
        return min(rates), max(rates)


def summaries(runs: Iterable[RunResult]) -> list[Summary]:
    """Return the summaries of all cases, sorted."""
    by_case: dict[Case, list[RunResult]] = {}
    for run in runs:
        by_case.setdefault(run.case, []).append(run)
    return [Summary(case, by_case[case]) for case in sorted(by_case)]


def merge(earlier: Iterable[RunResult], later: Sequence[RunResult]) -> list[RunResult]:
    """Return all runs; the later runs replace the earlier runs of their cases."""
    replaced = {run.case for run in later}
    return [*(run for run in earlier if run.case not in replaced), *later]


def write(runs: Iterable[RunResult], path: Path) -> None:
    """Write runs as CSV, sorted."""
    names = [each.name for each in dataclasses.fields(RunResult)]
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for run in sorted(runs, key=lambda run: (run.case, run.number)):
            writer.writerow([_cell(getattr(run, name)) for name in names])


def read(path: Path) -> list[RunResult]:
    """Return the runs in a file that ``write`` wrote; empty if there is no such file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [msgspec.convert(row, RunResult, strict=False) for row in csv.DictReader(file)]


def _cell(value: object) -> object:
    return f"{value:.4g}" if isinstance(value, float) else value
