"""Run every benchmark, or those named: ``python -m benchmarks [ingest] [live]``."""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from benchmarks import ingest, live
from benchmarks.report import Report
from tests.support.suite import Suite, running_suite

_BENCHMARKS: dict[str, Callable[[Suite], Report]] = {"ingest": ingest.run, "live": live.run}
_RESULTS = Path(__file__).parent / "results"
_INSIGHTS = Path(__file__).parents[1] / "examples" / "host.insights"


def main(names: list[str]) -> None:
    """Run benchmarks over one suite; print their tables and write them to ``results/``."""
    unknown = set(names) - _BENCHMARKS.keys()
    if unknown:
        sys.exit(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(_BENCHMARKS)}")
    console = Console()
    missed: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="mistbow-bench-") as folder,
        running_suite(Path(folder), _INSIGHTS) as suite,
    ):
        for name in names or _BENCHMARKS:
            report = _BENCHMARKS[name](suite)
            console.print(report.table())
            _RESULTS.mkdir(exist_ok=True)
            (_RESULTS / f"{name}.md").write_text(report.markdown())
            missed += [figure.what for figure in report.figures if figure.missed]
    if missed:
        sys.exit(f"goals missed: {'; '.join(missed)}")


main(sys.argv[1:])
