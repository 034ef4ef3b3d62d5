"""The report of simulations: a table, JSON files, and a plot."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from rich.table import Table

from analytics_enabler.simulation.engine import Simulation
from analytics_enabler.simulation.metrics import Sample
from mistbow.errors import InvalidRequestError

_PANELS = (
    ("latency_p90_ms", "latency p90 (ms)"),
    ("power_w", "power of the fragments (W)"),
    ("cost_per_hour", "cost per hour"),
    ("quality", "checked share of the points"),
)


def table(simulations: Sequence[Simulation]) -> Table:
    """Return a table with a column for each simulation."""
    first = simulations[0].result
    shape = f"{first.sites} sites, {first.jobs} groups, {first.fragments} fragments"
    made = Table(title=f"{first.scenario.topology}, {first.scenario.hours:g} h: {shape}")
    made.add_column("")
    for each in simulations:
        made.add_column(each.result.scenario.scheduler, justify="right")
    totals = [each.result.totals for each in simulations]
    for label, values in (
        (
            "latency p50, p90 (ms)",
            [f"{t.latency_p50_ms:.1f}, {t.latency_p90_ms:.1f}" for t in totals],
        ),
        ("energy (Wh)", [f"{t.energy_wh:.0f}" for t in totals]),
        ("cost", [f"{t.cost:.2f}" for t in totals]),
        ("checked share", [f"{t.quality:.0%}" for t in totals]),
        ("between sites (GB)", [f"{t.gigabytes:.2f}" for t in totals]),
        ("refused (fragment-hours)", [f"{t.refused_fragment_hours:.1f}" for t in totals]),
        ("migrations", [f"{t.migrations}" for t in totals]),
        ("displaced by lost nodes", [f"{t.displaced}" for t in totals]),
        ("decisions, failed decisions", [f"{t.decisions}, {t.failures}" for t in totals]),
        ("CPU time p50, max (s)", [_times(each.seconds) for each in simulations]),
    ):
        made.add_row(label, *values)
    return made


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
    _plot(simulations, written[-1])
    return written


def _plot(simulations: Sequence[Simulation], path: Path) -> None:
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise InvalidRequestError(
            "the plot needs matplotlib", hint="Install mistbow[simulation], or omit --out."
        ) from None
    figure = Figure(figsize=(10, 7), layout="constrained")
    for axes, (name, label) in zip(figure.subplots(2, 2).flat, _PANELS, strict=True):
        for each in simulations:
            samples: Sequence[Sample] = each.result.samples
            axes.step(
                [sample.at_h for sample in samples],
                [getattr(sample, name) for sample in samples],
                where="post",
                label=each.result.scenario.scheduler,
            )
        axes.set_xlabel("time (h)")
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        axes.legend()
    # Without a date and with a fixed salt, equal results give equal files.
    with matplotlib.rc_context({"svg.hashsalt": "mistbow"}):
        figure.savefig(path, metadata={"Date": None})
