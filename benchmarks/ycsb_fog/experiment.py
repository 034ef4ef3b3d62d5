"""The benchmark ``ycsb_fog``: measures a plan, and stores the runs and their plots."""

from pathlib import Path

from rich.console import Console

from benchmarks.ycsb_fog.page import Page, plot_name, workloads
from benchmarks.ycsb_fog.plan import Plan
from benchmarks.ycsb_fog.plot import write_plot
from benchmarks.ycsb_fog.results import RunResult, merge, read, summaries, write
from benchmarks.ycsb_fog.run import measure

RESULTS = Path(__file__).parents[1] / "results"


def run(plan: Plan | None = None, folder: Path = RESULTS) -> Page:
    """Measure a plan; write ``ycsb_fog.csv`` and the plots into ``folder``, and return the page.

    ``plan``: None: the plan of the experiment. The file's runs of other combinations remain.
    """
    terminal = Console()

    def show(text: str) -> None:
        terminal.print(text, markup=False, highlight=False, soft_wrap=True)

    file = folder / "ycsb_fog.csv"
    earlier = read(file) if file.exists() else []
    found: list[RunResult] = []
    try:
        found.extend(measure(plan or Plan(), show))
    finally:
        write(merge(earlier, found), file)
    return draw(folder)


def draw(folder: Path = RESULTS) -> Page:
    """Write the plots of the stored runs into ``folder``, and return their page."""
    runs = read(folder / "ycsb_fog.csv")
    for name in workloads(runs):
        theirs = [run for run in runs if run.workload == name]
        write_plot(summaries(theirs), folder / plot_name(name))
    return Page(runs)
