"""Run every benchmark, or those named: ``python -m benchmarks [NAME …]``."""

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console

from benchmarks import fog, live, salience, sampling
from benchmarks.insights.run import run as insights
from benchmarks.report import Report
from benchmarks.storage.run import run as storage
from tests.support.suite import Suite, running_suite

_OF_A_SUITE: dict[str, Callable[[Suite], Report]] = {"live": live.run, "salience": salience.run}
_BY_ITSELF: dict[str, Callable[[], Report]] = {
    "storage": storage,
    "insights": insights,
    "fog": fog.run,
    "sampling": sampling.run,
}
_NAMES = (*_OF_A_SUITE, *_BY_ITSELF)
_RESULTS = Path(__file__).parent / "results"
_INSIGHTS = Path(__file__).parents[1] / "examples" / "host.insights"


def main(names: list[str]) -> None:
    """Run benchmarks; print their tables and write them to ``results/``."""
    unknown = set(names) - set(_NAMES)
    if unknown:
        sys.exit(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(_NAMES)}")
    console = Console()
    missed: list[str] = []
    for name, report in _reports(names or list(_NAMES)):
        console.print(report.table())
        _RESULTS.mkdir(exist_ok=True)
        (_RESULTS / f"{name}.md").write_text(report.markdown())
        missed += [figure.what for figure in report.figures if figure.missed]
    if missed:
        sys.exit(f"goals missed: {'; '.join(missed)}")


def _reports(names: list[str]) -> Iterator[tuple[str, Report]]:
    of_a_suite = [name for name in names if name in _OF_A_SUITE]
    if of_a_suite:
        with (
            tempfile.TemporaryDirectory(prefix="mistbow-bench-") as folder,
            running_suite(Path(folder), _INSIGHTS) as suite,
        ):
            for name in of_a_suite:
                yield name, _OF_A_SUITE[name](suite)
    for name in names:
        if name in _BY_ITSELF:
            yield name, _BY_ITSELF[name]()


main(sys.argv[1:])
