"""The plot of simulations: panels over time, with a line for each scheduler."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from analytics_enabler.simulation.engine import Simulation
from analytics_enabler.simulation.metrics import Sample
from mistbow.errors import InvalidRequestError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_Curve = Callable[[Sequence[Sample]], Sequence[float]]

_PANELS: Sequence[tuple[str, _Curve]] = (
    ("critical path, p90 (ms)", lambda samples: [each.latency_p90_ms for each in samples]),
    ("power of the fragments (W)", lambda samples: [each.power_w for each in samples]),
    ("cost per hour", lambda samples: [each.cost_per_hour for each in samples]),
    ("checked share of the points (%)", lambda samples: [100 * each.quality for each in samples]),
    ("fragments without a node", lambda samples: [float(each.refused) for each in samples]),
    (
        "fragments moved so far",
        lambda samples: np.cumsum([each.migrations + each.displaced for each in samples]).tolist(),
    ),
)
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""Colours that people with colour blindness can distinguish (Okabe and Ito 2008)."""

_WIDTHS = (5.0, 1.2)
"""The widths of the first and the last line, so that coinciding lines are all visible."""

_BELOW_ZERO = 0.03
"""The part of a panel below 0, so that lines at 0 are visible."""


def write_plot(simulations: Sequence[Simulation], path: Path) -> None:
    """Write the plot of simulations; the suffix of the path selects the format.

    Equal results give equal files.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise InvalidRequestError(
            "the plot needs matplotlib", hint="Install mistbow[simulation], or omit --out."
        ) from None
    # Without a date and with a fixed salt, equal results give equal files.
    style = {"svg.hashsalt": "mistbow", "font.size": 9.5, "axes.spines.top": False}
    with matplotlib.rc_context({**style, "axes.spines.right": False}):
        figure = Figure(figsize=(11, 9), layout="constrained")
        _draw(figure, simulations)
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(path, metadata=metadata, dpi=100)


def _draw(figure: "Figure", simulations: Sequence[Simulation]) -> None:
    from matplotlib.ticker import MaxNLocator

    first = simulations[0].result
    panels = figure.subplots(3, 2, sharex=True).flat
    for axes, (label, curve) in zip(panels, _PANELS, strict=True):
        for number, each in enumerate(simulations):
            _line(axes, each, curve, number / max(len(simulations) - 1, 1), number)
        axes.set_title(label, loc="left", fontsize=10.5)
        axes.set_xlim(0, first.scenario.hours)
        axes.set_ylim(bottom=-_BELOW_ZERO * axes.get_ylim()[1])
        axes.xaxis.set_major_locator(MaxNLocator(steps=[1, 2, 3, 4, 6, 10]))
        axes.grid(color="#dddddd", linewidth=0.7)
        axes.set_axisbelow(True)
    for axes in figure.axes[-2:]:
        axes.set_xlabel("time (h)")
    figure.suptitle(
        f"{first.scenario.insights} insights in {first.fragments} fragments on "
        f"{first.scenario.nodes} nodes at {first.sites} sites ({first.scenario.topology}), "
        f"seed {first.scenario.seed}"
    )
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)


def _line(
    axes: "Axes", simulation: Simulation, curve: _Curve, position: float, number: int
) -> None:
    """Draw the line of a scheduler; ``position``: from 0 for the first one to 1 for the last."""
    result = simulation.result
    times = [each.at_h for each in result.samples]
    values = list(curve(result.samples))
    axes.step(
        [*times, result.scenario.hours],
        [*values, *values[-1:]],
        where="post",
        label=result.scenario.scheduler,
        color=_COLOURS[number % len(_COLOURS)],
        solid_joinstyle="miter",
        linewidth=_WIDTHS[0] + position * (_WIDTHS[1] - _WIDTHS[0]),
    )
