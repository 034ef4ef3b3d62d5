"""Compare the schedulers with each other and with baselines: ``python -m benchmarks schedulers``.

The fogs are generated tiers, and the matrix of round-trip times whose path is in
``MISTBOW_MATRIX`` (see docs/simulator.md).
"""

import os
from collections.abc import Iterator, Mapping, Sequence

from analytics_enabler.scheduling.model.jobs import Job
from analytics_enabler.scheduling.model.snapshot import Fog
from benchmarks.report import Figure, Goals
from benchmarks.schedulers.aggregation import aggregation_rows
from benchmarks.schedulers.measure import Run, gap, mean_value, ratio, run_scheduler
from benchmarks.schedulers.objectives import OBJECTIVES, Objective
from benchmarks.schedulers.workloads import World, with_binding_caps, with_slack, world

_BASELINES = ("fair", "random", "greedy")
_MAX_S = 2.0
_MAX_AGAIN_S = 0.5
_MAX_SHARE_OF_FAIR = 0.7
_MAX_SHARE_OF_LATENCY = 1.1
_TOLERANCE = 1e-6

_HEAD = (
    "scheduler",
    "fog, workload",
    "own objective",
    "above the bound",
    "of fair",
    "of random",
    "of greedy",
    "first call (s)",
    "after a loss (s)",
    "moves: needed, made",
)

_HOW = (
    "1,000 generated nodes, and 200 insights in 50 groups over 50 regions (300 fragments), at the "
    "beginning of a simulation (docs/simulator.md). Own objective: the mean over the groups of the "
    "critical path (latency, cost), of (path + 1 ms) × power (energy), and of (path + 1 ms) ÷ (1 + "
    "checked share) (quality; the others check what their free cores permit, too). Bound: the "
    "least value that a group could have alone in the fog, with the merge on any node (within its "
    "cap); for quality, with all points checked. Of fair, random, greedy: the own objective as a "
    "share of theirs, over the groups that both place completely (their number, if not all). Times "
    "are CPU times of the scheduler, without the all-pairs latencies, which are computed once for "
    "each change of links; with caps, of all 50 calls. A loss: the node with the most fragments. "
    "Goals: at most 0.7 of fair; below random; below greedy, or at the bound; 2 s, 0.5 s; no more "
    "moves than needed; cost at most 1.1 of latency with slack, and never above a cap."
)


def run() -> Goals:
    """Compare the schedulers; this takes a minute."""
    sources = ["tiers"]
    if path := os.environ.get("MISTBOW_MATRIX"):
        sources.append(f"matrix:{path}")
    rows: list[Sequence[str]] = []
    figures: list[Figure] = []
    for source in sources:
        here = world(source)
        for cells, goals in _rows(here):
            rows.append(cells)
            figures += goals
        rows += aggregation_rows(here)
    return Goals("Schedulers", _HOW, figures, _HEAD, rows)


def _rows(here: World) -> Iterator[tuple[Sequence[str], list[Figure]]]:
    names = (*_BASELINES, "latency", "quality", "energy")
    runs = {name: run_scheduler(name, here.jobs, here.fog) for name in names}
    for name in names:
        yield _row(f"{here.name}, no cap", runs[name], runs)
    fast = runs["latency"].placement
    for workload, jobs in (
        ("cap with slack", with_slack(here.jobs, fast, here.fog)),
        ("binding cap", with_binding_caps(here.jobs, fast, here.fog)),
    ):
        yield _capped_row(f"{here.name}, {workload}", jobs, here.fog, runs["latency"])


def _capped_row(
    where: str, jobs: Sequence[Job], fog: Fog, latency: Run
) -> tuple[Sequence[str], list[Figure]]:
    runs = {name: run_scheduler(name, jobs, fog) for name in (*_BASELINES, "cost")}
    cells, figures = _row(where, runs["cost"], runs)
    what = f"cost, {where}"
    share = runs["cost"].largest_share_of_cap
    figures.append(Figure(f"{what}: cost of cap", "", [share], at_most=1 + _TOLERANCE))
    figures.append(Figure(f"{what}: groups", "", [len(runs["cost"].complete)], at_least=len(jobs)))
    if "slack" in where:
        of_latency, _ = ratio(OBJECTIVES["cost"], runs["cost"], latency)
        figures.append(
            Figure(f"{what}: of latency", "", [of_latency], at_most=_MAX_SHARE_OF_LATENCY)
        )
    return cells, figures


def _row(where: str, run: Run, runs: Mapping[str, Run]) -> tuple[Sequence[str], list[Figure]]:
    objective = OBJECTIVES.get(run.scheduler)
    shown, figures = _shown(objective, where, run, runs)
    what = f"{run.scheduler}, {where}"
    times = run.seconds, run.again_s
    if objective is not None:
        figures += [
            Figure(f"{what}: first call", "s", [times[0]], at_most=_MAX_S),
            Figure(f"{what}: after a loss", "s", [times[1]], at_most=_MAX_AGAIN_S),
            Figure(f"{what}: moves", "", [run.made], at_most=run.needed),
        ]
    moves = f"{run.needed}, {run.made}"
    return (run.scheduler, where, *shown, *(f"{time:.2f}" for time in times), moves), figures


def _shown(
    objective: Objective | None, where: str, run: Run, runs: Mapping[str, Run]
) -> tuple[list[str], list[Figure]]:
    """Return the cells of the objective, and the goals of its ratios."""
    if objective is None:
        return ["-"] * 5, []
    above = gap(objective, run)
    cells, figures = [f"{mean_value(objective, run):,.4g} {objective.unit}", f"{above:.1%}"], []
    for other in _BASELINES:
        share, count = ratio(objective, run, runs[other])
        cells.append(f"{share:.3f}" + ("" if count == len(run.jobs) else f" ({count})"))
        limit = _MAX_SHARE_OF_FAIR if other == "fair" else 1 - _TOLERANCE
        if other == "greedy" and above <= _TOLERANCE:
            limit = 1 + _TOLERANCE
        figures.append(Figure(f"{run.scheduler}, {where}: of {other}", "", [share], at_most=limit))
    return cells, figures
