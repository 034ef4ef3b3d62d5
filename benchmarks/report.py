"""Reports of benchmarks: tables of figures."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """A measured figure: name, unit, the values of all runs, and the goal for the median."""

    what: str
    unit: str
    runs: Sequence[float]
    at_most: float | None = None
    at_least: float | None = None

    @property
    def missed(self) -> bool:
        """Whether the median of the runs misses the goal."""
        median = statistics.median(self.runs)
        return (self.at_most is not None and median > self.at_most) or (
            self.at_least is not None and median < self.at_least
        )

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the figure's row: what, unit, minimum, median, maximum, goal."""
        values = (min(self.runs), statistics.median(self.runs), max(self.runs))
        return (self.what, self.unit, *(_number(value) for value in values), self._goal())

    def _goal(self) -> str:
        bounds = [("≤", self.at_most), ("≥", self.at_least)]
        goal = ", ".join(f"{sign} {_number(bound)}" for sign, bound in bounds if bound is not None)
        return f"{goal}: missed" if self.missed else goal


class BenchmarkReport(Protocol):
    """The report of a benchmark in any form; ``figures`` may have goals."""

    @property
    def figures(self) -> Sequence[Figure]:
        """The measured figures."""
        ...

    def table(self) -> Table:
        """Return the report as a table for a terminal."""
        ...

    def markdown(self) -> str:
        """Return the report as a Markdown page."""
        ...


@dataclass(frozen=True)
class Report:
    """The report of a benchmark: the figures, and how the figures were measured."""

    title: str
    how: str
    figures: Sequence[Figure]

    _HEAD = ("what", "unit", "min", "median", "max", "goal")

    def table(self) -> Table:
        """Return the report as a table for a terminal."""
        table = Table(*self._HEAD, title=self.title, caption=self.how)
        for figure in self.figures:
            table.add_row(*figure.cells())
        return table

    def markdown(self) -> str:
        """Return the report as a Markdown page."""
        rows = [self._HEAD, ("---",) * len(self._HEAD), *(f.cells() for f in self.figures)]
        lines = [f"| {' | '.join(row)} |" for row in rows]
        return "\n".join([f"# {self.title}", "", self.how, "", *lines, ""])


@dataclass(frozen=True)
class Goals:
    """The report of a benchmark in rows of its own; ``figures``: its goals, which are not shown."""

    title: str
    how: str
    figures: Sequence[Figure]
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def table(self) -> Table:
        """Return the report as a table for a terminal."""
        table = Table(*self.head, title=self.title, caption=self.how)
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """Return the report as a Markdown page, with the missed goals."""
        rows = [self.head, ("---",) * len(self.head), *self.rows]
        lines = [f"| {' | '.join(row)} |" for row in rows]
        missed = [
            f"- {figure.what}: {figure.runs[0]:.4g}" for figure in self.figures if figure.missed
        ]
        verdict = ["Missed goals:", "", *missed] if missed else ["All goals are met."]
        return "\n".join([f"# {self.title}", "", self.how, "", *lines, "", *verdict, ""])


def _number(value: float) -> str:
    if value >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"
