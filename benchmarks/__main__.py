"""Run all benchmarks, or the named ones: ``python -m benchmarks [NAME …]``."""

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console

from benchmarks import (
    composed_fog,
    continuous,
    control_plane,
    cost_model,
    edge_worker,
    fog_links,
    live,
    many_series,
    salience,
    sampling,
)
from benchmarks.console.run import run as console
from benchmarks.ingestion.run import run as ingestion
from benchmarks.insights.run import run as insights
from benchmarks.recovery.run import run as recovery
from benchmarks.report import BenchmarkReport, Report
from benchmarks.schedulers.run import run as schedulers
from benchmarks.storage.run import run as storage
from benchmarks.ycsb_fog.experiment import run as ycsb_fog
from tests.support.suite import Suite, running_suite

_WITH_SUITE: dict[str, Callable[[Suite], Report]] = {
    "live": live.run,
    "salience": salience.run,
    "cost_model": cost_model.run,
    "console": console,
}
_STANDALONE: dict[str, Callable[[], BenchmarkReport]] = {
    "ingestion": ingestion,
    "storage": storage,
    "many_series": many_series.run,
    "insights": insights,
    "continuous": continuous.run,
    "edge_worker": edge_worker.run,
    "composed_fog": composed_fog.run,
    "fog_links": fog_links.run,
    "control_plane": control_plane.run,
    "sampling": sampling.run,
    "schedulers": schedulers,
    "recovery": recovery,
    "ycsb_fog": ycsb_fog,
}
_NAMES = (*_WITH_SUITE, *_STANDALONE)
_RESULTS = Path(__file__).parent / "results"
_INSIGHTS = Path(__file__).parents[1] / "examples" / "host.insights"


def main(names: list[str]) -> None:
    """Run the named benchmarks; print their tables and write the tables to ``results/``.

    Exits with an error if a figure misses its goal.
    """
    unknown = set(names) - set(_NAMES)
    if unknown:
        sys.exit(f"unknown benchmarks: {', '.join(sorted(unknown))}; use {', '.join(_NAMES)}")
    terminal = Console()
    missed: list[str] = []
    for name, report in _reports(names or list(_NAMES)):
        terminal.print(report.table())
        _RESULTS.mkdir(exist_ok=True)
        (_RESULTS / f"{name}.md").write_text(report.markdown())
        missed += [figure.what for figure in report.figures if figure.missed]
    if missed:
        sys.exit(f"goals missed: {'; '.join(missed)}")


def _reports(names: list[str]) -> Iterator[tuple[str, BenchmarkReport]]:
    with_suite = [name for name in names if name in _WITH_SUITE]
    if with_suite:
        with (
            tempfile.TemporaryDirectory(prefix="mistbow-bench-") as folder,
            running_suite(Path(folder), _INSIGHTS) as suite,
        ):
            for name in with_suite:
                yield name, _WITH_SUITE[name](suite)
    for name in names:
        if name in _STANDALONE:
            yield name, _STANDALONE[name]()


main(sys.argv[1:])
