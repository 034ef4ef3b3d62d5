"""Run a part of the experiment, or more of it: ``python -m benchmarks.ycsb_fog --nodes 6``.

The stored runs of other combinations remain.
"""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from benchmarks.ycsb_fog.experiment import RESULTS, draw, run
from benchmarks.ycsb_fog.plan import STORES, Plan


def main() -> None:
    """Measure what the arguments select; print the table, and write page, runs and plots."""
    given = _arguments()
    folder: Path = given.folder
    folder.mkdir(exist_ok=True)
    if given.draw:
        page = draw(folder)
    else:
        page = run(_plan(given), folder)
    Console(width=160).print(page.table())
    (folder / "ycsb_fog.md").write_text(page.markdown())


def _arguments() -> argparse.Namespace:
    plan = Plan()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ycsb_fog", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=plan.nodes, help="sizes of the fog")
    parser.add_argument(
        "--operations", type=int, nargs="+", default=plan.operations, help="operations of a run"
    )
    parser.add_argument("--workloads", nargs="+", default=plan.workloads, help="A, B, C, F")
    parser.add_argument("--stores", nargs="+", default=plan.stores, choices=STORES)
    parser.add_argument("--clients", type=int, default=plan.clients, help="concurrent clients")
    parser.add_argument("--runs", type=int, default=plan.runs, help="runs of each combination")
    parser.add_argument(
        "--draw", action="store_true", help="measure nothing: write page and plots again"
    )
    parser.add_argument("--folder", type=Path, default=RESULTS, help="folder of the results")
    return parser.parse_args()


def _plan(given: argparse.Namespace) -> Plan:
    try:
        return Plan(
            nodes=tuple(given.nodes),
            operations=tuple(given.operations),
            workloads=tuple(given.workloads),
            stores=tuple(given.stores),
            clients=given.clients,
            runs=given.runs,
        )
    except ValueError as error:
        sys.exit(str(error))


main()
