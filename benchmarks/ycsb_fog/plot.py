"""The plot of a workload: panels for each size of the fog, with a line for each system."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.ycsb_fog.results import Summary

_ROWS = (
    ("rate", "operations per second"),
    ("mean_ms", "mean latency (ms)"),
    ("p95_ms", "95th percentile (ms)"),
)
_COLOURS = {
    "Redis": "#D55E00",
    "Redis, replicas": "#E69F00",
    "Mistbow": "#0072B2",
    "Mistbow, replicas": "#56B4E9",
}
"""Colours that people with colour blindness can distinguish (Okabe and Ito 2008)."""


def write_plot(found: Sequence[Summary], path: Path) -> None:
    """Write the plot of a workload's summaries as SVG; equal results give equal files."""
    sizes = {each.case.nodes for each in found}
    style = {"svg.hashsalt": "mistbow", "font.size": 9.5, "axes.spines.top": False}
    with matplotlib.rc_context({**style, "axes.spines.right": False}):
        figure = Figure(figsize=(2.9 * len(sizes) + 0.6, 8), layout="constrained")
        draw_panels(figure, found)
        figure.suptitle(f"Workload {found[0].case.workload}: each run (dot) and the medians (line)")
        figure.savefig(path, metadata={"Date": None})


def draw_panels(figure: Figure, found: Sequence[Summary]) -> None:
    """Draw a column of panels for each size of the fog; the panels of a row have one scale."""
    sizes = sorted({each.case.nodes for each in found})
    counts = sorted({each.case.operations for each in found})
    panels = figure.subplots(len(_ROWS), len(sizes), sharex=True, sharey="row", squeeze=False)
    for row, (field, label) in zip(panels, _ROWS, strict=True):
        row[0].set_ylabel(label)
        for axes, size in zip(row, sizes, strict=True):
            _draw(axes, [each for each in found if each.case.nodes == size], field, counts)
        # After all panels: a limit ends the automatic scale of the row.
        row[0].set_ylim(bottom=0)
    for axes, size in zip(panels[0], sizes, strict=True):
        axes.set_title(f"{size} nodes", loc="left", fontsize=10.5)
    for axes in panels[-1]:
        axes.set_xlabel("operations of a run")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)


def _draw(axes: Axes, found: Sequence[Summary], field: str, counts: Sequence[int]) -> None:
    for system, colour in _COLOURS.items():
        line = [each for each in found if each.case.system == system]
        places = [counts.index(each.case.operations) for each in line]
        medians = [each.median(field) for each in line]
        axes.plot(places, medians, color=colour, label=system, linewidth=1.4)
        for place, each in zip(places, line, strict=True):
            values = [getattr(run, field) for run in each.runs]
            axes.plot([place] * len(values), values, "o", color=colour, markersize=3, alpha=0.7)
    axes.set_xticks(range(len(counts)), [f"{count:,}" for count in counts])
    axes.margins(x=0.15)
    axes.grid(color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
