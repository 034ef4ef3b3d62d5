"""The page of handovers, which ``make handovers`` writes: the pauses by kind of handover."""

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mistbow.clock import utc_now
from tests.support.table_page import replace_rows

_HEAD = """# Handovers

Each row is the last run of a kind of handover by `make handovers` in which no result was missing,
doubled or wrong. The pauses are the times by which a result became readable later than EVERY (1 s)
after the result before it: first of the insights that stay as they are, then of the insight that
is changed. The goal is 2 s. A row `all` has the number of compared results.

| fog | kind | date | seed | handovers | pause p50 (s) | longest pause (s) | changed p50 (s) | changed longest (s) | longest handover (s) | cores | results |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""  # noqa: E501 - a table


@dataclass(frozen=True)
class Handover:
    """A handover and the longest pauses (s) beyond EVERY around it.

    ``stay``: of the insights that stay as they are. ``changed``: of the insight with another
    definition; None: none. ``took``: the duration (s) of the handover.
    """

    kind: str
    stay: float
    changed: float | None
    took: float

    @property
    def longest(self) -> float:
        """The longest pause (s)."""
        return max(self.stay, self.changed or 0.0)

    def __str__(self) -> str:
        changed = "" if self.changed is None else f", {self.changed:.2f} s of the changed insight"
        return f"{self.kind}: {self.stay:.2f} s beyond EVERY{changed}; it took {self.took:.1f} s"


def add_handovers(
    page: Path, fog: str, seed: int, handovers: Sequence[Handover], results: int
) -> None:
    """Add the handovers of a fog, by kind, to the page, in the place of earlier ones."""
    date, cores = f"{utc_now():%Y-%m-%d}", str(os.cpu_count())

    def row(kind: str, some: Sequence[Handover], compared: str) -> tuple[str, ...]:
        changed = [each.changed for each in some if each.changed is not None]
        stay, took = [each.stay for each in some], max(each.took for each in some)
        figures = (*_figures(stay), *_figures(changed), f"{took:.1f}")
        return (fog, kind, date, str(seed), str(len(some)), *figures, cores, compared)

    kinds = sorted({each.kind for each in handovers})
    rows = [row(kind, [each for each in handovers if each.kind == kind], "") for kind in kinds]
    replace_rows(page, _HEAD, [*rows, row("all", handovers, f"{results:,}")], keys=2)


def _figures(pauses: Iterable[float]) -> tuple[str, str]:
    """Return the median and the greatest of pauses (s)."""
    known = sorted(pauses)
    if not known:
        return "", ""
    return f"{known[math.ceil(len(known) / 2) - 1]:.2f}", f"{known[-1]:.2f}"
