"""The cores that other programs leave, from readings of CPU times and from a real program."""

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from analytics_worker.lifecycle import free_cores
from analytics_worker.lifecycle.free_cores import (
    MIN_SHARE,
    SMOOTHING_S,
    CpuReading,
    FreeCores,
    cpu_reading,
)
from tests.support.conditions import eventually

GROUP = (Path("group"), 2.0)


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process have four cores, and read the CPU times only when a test says so."""
    monkeypatch.setattr(free_cores, "_permitted_cores", lambda: 4)
    monkeypatch.setattr(free_cores, "PERIOD_S", float("inf"))


def readings(
    *, others: list[float], own: float = 1.0, group: float | None = None
) -> Iterator[CpuReading]:
    """Yield a reading every 60 s; ``others``, ``own``: the cores in use meanwhile.

    ``group``: the cores that others of the limited control group use; None: no group is limited.
    """
    used = itertools.accumulate([0.0, *others], lambda total, each: total + 60 * each)
    for number, other_s in enumerate(used):
        own_s = 60 * own * number
        groups = {} if group is None else {GROUP: own_s + 60 * group * number}
        yield CpuReading(60.0 * number, own_s + other_s, own_s, groups)


def measured(given: Iterator[CpuReading], of: float = 4.0) -> list[float]:
    """Return what is free after each reading but the first."""
    each = list(given)
    found = FreeCores(iter(each).__next__)
    free = []
    for _ in each[1:]:
        found.update()
        free.append(found.measure(of))
    return free


def test_cores_of_other_programs_are_not_free_but_those_of_the_worker_are() -> None:
    assert measured(readings(others=[1.0])) == [3.0]
    assert measured(readings(others=[0.0])) == [4.0]


def test_load_of_a_start_leaves_nearly_all_cores_free(monkeypatch: pytest.MonkeyPatch) -> None:
    # A reading after a twelfth of the time constant, as the first one after the start.
    monkeypatch.setattr(free_cores, "SMOOTHING_S", 12 * SMOOTHING_S)
    assert min(measured(readings(others=[4.0, 0.0]))) > 3.6


def test_all_cores_are_free_again_when_other_programs_have_ended() -> None:
    free = measured(readings(others=[1.0, *[0.0] * 20]))
    assert free[0] == 3.0
    assert free[-1] == 4.0


def test_half_of_the_cores_is_free_at_any_load() -> None:
    assert measured(readings(others=[4.0])) == [MIN_SHARE * 4]


def test_programs_in_a_limited_control_group_leave_less() -> None:
    # The group has 2 cores. Other programs of the group take 0.5 of them.
    assert measured(readings(others=[0.5], group=0.5), of=2.0) == [1.5]


def test_raised_limit_of_a_control_group_leaves_more_at_once() -> None:
    raised = CpuReading(121.0, 90.0, 60.0, {(GROUP[0], 3.0): 90.0})
    found = FreeCores(itertools.chain(readings(others=[0.5], group=0.5), [raised]).__next__)
    found.update()
    assert [found.measure(cores) for cores in (2.0, 3.0, 3.0)] == [1.5, 3.0, 3.0]


def test_small_changes_are_not_reported() -> None:
    assert measured(readings(others=[1.0, 1.3, 1.5])) == [3.0, 3.0, 2.5]


def test_load_is_smoothed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_cores, "SMOOTHING_S", 2 * SMOOTHING_S)
    assert measured(readings(others=[0.0, 2.0])) == [4.0, 3.0]


def test_cores_of_child_processes_are_those_of_the_worker(processes: None) -> None:
    before = cpu_reading()
    burning = subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
    try:
        eventually(lambda: cpu_reading().at - before.at > 2, what="two seconds of load")
        after = cpu_reading()
    finally:
        burning.kill()
        burning.wait()
    assert after.own - before.own > 0.2
    assert after.busy - before.busy >= 0.9 * (after.own - before.own)
