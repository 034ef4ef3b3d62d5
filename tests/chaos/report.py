"""The report of a storm: injected faults, recovery times, and the compared results."""

import math
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.chaos.recovery import GOAL_MS, Recovery, percentile
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

    def _faults(self) -> list[str]:
        injected = Counter(each.step.fault for each in self.log.injected)
        skipped = Counter(each.fault for each in self.log.skipped)
        counted = [
            (name, injected[name], skipped[name])
            for name in sorted(injected.keys() | skipped.keys())
        ]
        rows = [
            ("fault", "injected", "skipped"),
            *counted,
            ("all", injected.total(), skipped.total()),
        ]
        return [f"{name:<26}{one:>9}{other:>9}" for name, one, other in rows]

    def _times(self) -> list[str]:
        lines = [f"{'from the death of a worker to':<34}{'n':>4}{'p50':>9}{'p95':>9}{'max':>9}"]
        alone = [each for each in self.recoveries if each.alone]
        for name, some in (("", self.recoveries), (", no other fault", alone)):
            lines.append(_line(f"the next result{name}", [each.next for each in some]))
            lines.append(_line(f"a complete one{name}", [each.complete for each in some]))
        events = [*self.events, *fault_events(self.log)]
        for each in self.recoveries:
            lines += [_recovery(each), *timeline(each, events)]
        return [
            *lines,
            f"goal: p95 of the next result, no other fault, at most {_seconds(GOAL_MS)} "
            f"(this machine has {os.cpu_count()} cores)",
        ]


def _recovery(recovery: Recovery) -> str:
    step, beside = recovery.death.step, "" if recovery.alone else ", beside other faults"
    times = f"{_seconds(recovery.next)}, complete after {_seconds(recovery.complete)}"
    return f"  {step.target} killed at {step.at_s:.0f} s: {times}{beside}"


def _line(name: str, times: Sequence[int | None]) -> str:
    shown = "".join(f"{_seconds(percentile(times, share)):>9}" for share in (0.5, 0.95, 1.0))
    never = times.count(None)
    return f"{name:<34}{len(times):>4}{shown}" + (f", {never} never" if never else "")


def _seconds(ms: float | None) -> str:
    if ms is None:
        return "-"
    return "never" if ms == math.inf else f"{ms / 1000:.1f} s"
