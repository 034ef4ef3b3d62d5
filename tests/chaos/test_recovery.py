"""The figures of a storm, computed from rows of results."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.recovery import (
    GOAL_MS,
    ComputedResult,
    Recovery,
    longest_pause,
    misses_goal,
    percentile,
    recoveries,
)
from tests.chaos.report import StormReport
from tests.chaos.storm import InjectedFault, StormLog
from tests.chaos.timeline import fault_events, logged_events, timeline
from tests.chaos.timetable import Step, Target
from tests.chaos.verdict import ComparedResults

T = 1_000_000


def injected(fault: str, at: int, until: int | None = None, site: str = "north") -> InjectedFault:
    step = Step(at / 1000, (until or at) / 1000, fault, Target((site,), "worker"), 0)
    return InjectedFault(step, at, until)


def result(tick: int, after: int, *, complete: bool = True) -> ComputedResult:
    return ComputedResult(tick, tick + after, complete)


def test_recovery_ends_with_first_result_of_later_tick() -> None:
    log = StormLog((injected("worker killed", T),), ())
    rows = [
        result(T - 1000, 1500),
        result(T + 4000, 1000, complete=False),
        result(T + 6000, 500),
        result(T + 4000, 9000),
    ]
    [recovery] = recoveries(log, rows)
    assert (recovery.next, recovery.complete, recovery.alone) == (5000, 6500, True)


def test_recovery_without_later_result_has_no_time() -> None:
    log = StormLog((injected("worker killed", T),), ())
    [recovery] = recoveries(log, [result(T - 1000, 100)])
    assert (recovery.next, recovery.complete) == (None, None)


def test_death_during_another_fault_is_not_alone() -> None:
    cut = injected("link cut", T - 30_000, T - 1000)
    earlier = injected("agent killed", T - 30_000)
    for others, alone in (((cut,), False), ((earlier,), True)):
        log = StormLog((*others, injected("worker killed", T)), ())
        [recovery] = recoveries(log, [])
        assert recovery.alone is alone


def test_longest_pause_counts_new_ticks_only() -> None:
    rows = [result(T, 0), result(T + 2000, 0), result(T, 4000), result(T + 9000, 0)]
    assert longest_pause(rows, T, T + 10_000) == 7000
    assert longest_pause([], T, T + 10_000) == 10_000


def test_percentile_is_a_value_of_the_list() -> None:
    values = list(range(1, 101))
    assert [percentile(values, share) for share in (0.5, 0.95, 1.0)] == [50, 95, 100]
    never: list[int | None] = [*values[:94], *[None] * 6]
    assert [percentile(never, share) for share in (0.5, 0.94, 0.95)] == [50, 94, math.inf]


def test_goal_is_missed_by_slow_recoveries_and_by_deaths_without_one() -> None:
    def recovered(times: Sequence[int | None], *, alone: bool = True) -> list[Recovery]:
        return [Recovery(injected("worker killed", T), each, None, alone) for each in times]

    assert not misses_goal(recovered([GOAL_MS] * 20))
    assert not misses_goal(recovered([1000] * 19 + [None]))
    assert misses_goal(recovered([1000] * 18 + [None] * 2))
    assert misses_goal(recovered([1000] * 9 + [None]))
    assert misses_goal(recovered([1000] * 9 + [GOAL_MS + 1]))
    assert not misses_goal(recovered([None] * 9))
    assert not misses_goal(recovered([None] * 20, alone=False))


def report(*rows: ComputedResult) -> StormReport:
    log = StormLog((injected("worker killed", T),), (injected("link cut", T).step,))
    return StormReport(
        seed=7,
        seconds=180,
        log=log,
        recoveries=recoveries(log, rows),
        longest_pause=7000,
        results=ComparedResults(3000, 1),
        points=4,
        rows=5,
    )


def test_report_lists_faults_and_times() -> None:
    text = str(report(result(T + 4000, 1000)))
    lines = [line.split() for line in text.splitlines()]
    assert ["worker", "killed", "1", "0"] in lines
    assert ["link", "cut", "0", "1"] in lines
    assert ["the", "next", "result", "1", *["5.0", "s"] * 3] in lines
    assert "seed 7" in text


def test_page_lists_faults_and_times_and_deaths_without_recovery() -> None:
    recovered = report(result(T + 4000, 1000)).page("2026-12-01").splitlines()
    assert "| the next result | 1 | 5.0 s | 5.0 s | 5.0 s | 0 |" in recovered
    assert "| worker killed | 1 | 0 |" in recovered
    assert "| link cut | 0 | 1 |" in recovered
    assert any("2026-12-01; seed 7; 3 minutes" in line for line in recovered)
    assert any("3,000 results, 4 points and 5 rows" in line for line in recovered)
    never = report().page("2026-12-01").splitlines()
    assert "| the next result | 1 | never | never | never | 1 |" in never


def test_slow_recovery_has_a_timeline_of_the_services_logs(tmp_path: Path) -> None:
    def write(site: str, name: str, *events: tuple[str, int, dict[str, object]]) -> None:
        folder = tmp_path / site / "logs"
        folder.mkdir(parents=True)
        lines = [
            json.dumps({"event": event, "timestamp": f"1970-01-01T00:16:{second:02}Z", **fields})
            for event, second, fields in events
        ]
        (folder / name).write_text("\n".join([*lines, '{"event": "wor']))

    # T is 16 min 40 s.
    running = {"fragment": "f", "batches": 2, "spent_ms": {"addBatch": 900}}
    failed: dict[str, object] = {"fragment": "f", "reason": "no answer", "trace": "long"}
    write("north", "worker.jsonl", ("query_running", 39, {}), ("query_running", 59, running))
    write("south", "worker.jsonl.1", *[("fragment_failed", 48, failed)] * 2, ("other", 49, {}))
    write("cloud", "enabler.jsonl", ("worker_lost", 42, {"worker": "w"}))
    events = logged_events(tmp_path)

    cut = injected("link cut", T - 5000, T + 3000)
    log = StormLog((cut, injected("worker killed", T), injected("worker killed", T + 12_000)), ())
    events += fault_events(log)
    slow, fast = recoveries(log, [result(T + 20_000, 0)])
    assert list(timeline(slow, events)) == [
        f"       +0.0 s storm: worker killed: {cut.step.target}",
        "       +2.0 s enabler of cloud: worker_lost worker=w",
        f"       +3.0 s storm: end of link cut: {cut.step.target}",
        "       +8.0 s worker of south: fragment_failed fragment=f reason=no answer",
        f"      +12.0 s storm: worker killed: {cut.step.target}",
        "      +19.0 s worker of north: query_running fragment=f batches=2 "
        "spent_ms={'addBatch': 900}",
    ]
    assert list(timeline(fast, events)) == []
    [never, _] = recoveries(log, [])
    assert len(list(timeline(never, events))) == 6
