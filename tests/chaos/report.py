"""The report of a storm: injected faults, recovery times, and the compared results."""

import math
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.chaos.recovery import GOAL_MS, MIN_DEATHS, Recovery, misses_goal, percentile
from tests.chaos.storm import StormLog
from tests.chaos.timeline import LoggedEvent, fault_events, timeline
from tests.chaos.verdict import ComparedResults


@dataclass(frozen=True, slots=True)
class StormReport:
    """The figures of a storm; ``longest_pause``: the longest time (ms) without a new result.

    ``events``: the logged events of recoveries, which show why a recovery was slow.
    """

    seed: int
    seconds: float
    log: StormLog
    recoveries: Sequence[Recovery]
    longest_pause: int
    results: ComparedResults
    points: int
    rows: int
    events: Sequence[LoggedEvent] = ()

    def __str__(self) -> str:
        lines = [f"chaos: seed {self.seed}, {self.seconds:.0f} s", *self._faults(), *self._times()]
        lines += [
            f"longest pause between new results: {_seconds(self.longest_pause)}",
            f"compared: {self.results.equal} results, {self.points} points, {self.rows} rows of "
            "streams; 0 wrong, missing or doubled",
            f"uncorrected results of ended generations: {self.results.uncorrected}",
        ]
        return "\n".join(lines)

    def page(self, date: str) -> str:
        """Return the page of the storm in Markdown; ``date``: when it took place."""
        deaths = sum(each.alone for each in self.recoveries)
        verdict = "missed" if misses_goal(self.recoveries) else "met"
        if deaths < MIN_DEATHS:
            verdict = f"not compared, since it takes {MIN_DEATHS} deaths"
        return "\n".join([
            *_HEAD,
            f"- Date: {date}; seed {self.seed}; {self.seconds / 60:g} minutes; "
            f"{os.cpu_count()} cores.",
            f"- Compared: {self.results.equal:,} results, {self.points:,} points and "
            f"{self.rows:,} rows of streams; none wrong, missing or doubled.",
            f"- Results of ended generations without points that arrived long after the end: "
            f"{self.results.uncorrected:,}.",
            f"- Longest pause between new results: {_seconds(self.longest_pause)}.",
            f"- The goal for deaths with no other fault, a next result within "
            f"{_seconds(GOAL_MS)} after 95 % of them: {verdict}.",
            "",
            *_table(("from the death of a worker to", "n", "p50", "p95", "max", "never")),
            *map(_cells, self._recovery_figures()),
            "",
            *_table(("fault", "injected", "skipped")),
            *map(_cells, self._fault_counts()),
            "",
        ])  # fmt: skip

    def _fault_counts(self) -> list[tuple[str, int, int]]:
        injected = Counter(each.step.fault for each in self.log.injected)
        skipped = Counter(each.fault for each in self.log.skipped)
        counted = [
            (name, injected[name], skipped[name])
            for name in sorted(injected.keys() | skipped.keys())
        ]
        return [*counted, ("all", injected.total(), skipped.total())]

    def _faults(self) -> list[str]:
        rows = [("fault", "injected", "skipped"), *self._fault_counts()]
        return [f"{name:<26}{one:>9}{other:>9}" for name, one, other in rows]

    def _recovery_figures(self) -> list[tuple[str, int, str, str, str, int]]:
        """Return what follows a death, and n, p50, p95, max and never of the time to it."""
        alone = [each for each in self.recoveries if each.alone]
        found = []
        for name, some in (("", self.recoveries), (", no other fault", alone)):
            found.append(_figures(f"the next result{name}", [each.next for each in some]))
            found.append(_figures(f"a complete one{name}", [each.complete for each in some]))
        return found

    def _times(self) -> list[str]:
        lines = [f"{'from the death of a worker to':<34}{'n':>4}{'p50':>9}{'p95':>9}{'max':>9}"]
        for name, n, *times, never in self._recovery_figures():
            shown = "".join(f"{each:>9}" for each in times)
            lines.append(f"{name:<34}{n:>4}{shown}" + (f", {never} never" if never else ""))
        events = [*self.events, *fault_events(self.log)]
        for each in self.recoveries:
            lines += [_recovery(each), *timeline(each, events)]
        return [
            *lines,
            f"goal: p95 of the next result, no other fault, at most {_seconds(GOAL_MS)} "
            f"(this machine has {os.cpu_count()} cores)",
        ]


_HEAD = (
    "# A storm of faults",
    "",
    "The last run of `make chaos` in which all results equalled those of the oracle",
    "([the test](../../docs/operations.md#faults-of-the-whole-fog)). A death after which no result",
    "came counts as an infinite time.",
    "",
)


def _recovery(recovery: Recovery) -> str:
    step, beside = recovery.death.step, "" if recovery.alone else ", beside other faults"
    times = f"{_seconds(recovery.next)}, complete after {_seconds(recovery.complete)}"
    return f"  {step.target} killed at {step.at_s:.0f} s: {times}{beside}"


def _figures(name: str, times: Sequence[int | None]) -> tuple[str, int, str, str, str, int]:
    p50, p95, longest = (_seconds(percentile(times, share)) for share in (0.5, 0.95, 1.0))
    return name, len(times), p50, p95, longest, times.count(None)


def _table(columns: tuple[str, ...]) -> list[str]:
    return [_cells(columns), _cells(["---"] * len(columns))]


def _cells(values: Iterable[object]) -> str:
    return f"| {' | '.join(str(each) for each in values)} |"


def _seconds(ms: float | None) -> str:
    if ms is None:
        return "-"
    return "never" if ms == math.inf else f"{ms / 1000:.1f} s"
