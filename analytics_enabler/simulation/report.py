"""The report of simulations: a table, JSON files, and a plot."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from rich.table import Table
from rich.text import Text

from analytics_enabler.simulation.engine import Simulation
from analytics_enabler.simulation.metrics import Totals
from analytics_enabler.simulation.plot import write_plot


def table(simulations: Sequence[Simulation]) -> Table:
    """Return a table with a column for each simulation."""
    first = simulations[0].result
    shape = f"{first.sites} sites, {first.jobs} groups, {first.fragments} fragments"
    made = Table(title=Text(f"{first.scenario.topology}, {first.scenario.hours:g} h: {shape}"))
    made.add_column("")
    for each in simulations:
        made.add_column(each.result.scenario.scheduler, justify="right")
    totals = [each.result.totals for each in simulations]
    for label, values in (
        ("latency p50, p90 (ms)", [_latencies(t) for t in totals]),
        ("energy (Wh)", [f"{t.energy_wh:.0f}" for t in totals]),
        ("cost", [f"{t.cost:.2f}" for t in totals]),
        ("checked share", [f"{t.quality:.0%}" for t in totals]),
        ("between sites (GB)", [f"{t.gigabytes:.2f}" for t in totals]),
        ("refused (fragment-hours)", [f"{t.refused_fragment_hours:.1f}" for t in totals]),
        ("no known path (group-hours)", [f"{t.unreachable_job_hours:.1f}" for t in totals]),
        ("migrations", [f"{t.migrations}" for t in totals]),
        ("displaced by lost nodes", [f"{t.displaced}" for t in totals]),
        ("decisions, failed decisions", [f"{t.decisions}, {t.failures}" for t in totals]),
        ("CPU time p50, max (s)", [_times(each.seconds) for each in simulations]),
    ):
        made.add_row(label, *values)
    return made


def _latencies(totals: Totals) -> str:
    if not totals.reachable_job_hours:
        return "-"
    return f"{totals.latency_p50_ms:.1f}, {totals.latency_p90_ms:.1f}"


def _times(seconds: Sequence[float]) -> str:
    if not seconds:
        return "-"
    return f"{np.median(seconds):.3f}, {max(seconds):.3f}"


def write(simulations: Sequence[Simulation], folder: Path) -> list[Path]:
    """Write the results as JSON, the CPU times as JSON, and a plot; return the paths.

    The results are equal for equal scenarios; the CPU times are not.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results = [each.result for each in simulations]
    times = {each.result.scenario.scheduler: list(each.seconds) for each in simulations}
    written = [folder / "results.json", folder / "times.json", folder / "plot.svg"]
    for path, content in zip(written, (results, times), strict=False):
        path.write_bytes(msgspec.json.format(msgspec.json.encode(content)) + b"\n")
    write_plot(simulations, written[-1])
    return written
