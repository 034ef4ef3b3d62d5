"""The record of kills for lack of memory, and the limit of fragments that follows from it."""

import stat
from pathlib import Path

import pytest

from analytics_worker.lifecycle.kill_record import STEP_MS, KillRecord


class Machine:
    """A machine with a clock, and a count of kills."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "worker-n1.json"
        self.now = 1_000_000
        self.kills: int | None = 0

    def started(self) -> KillRecord:
        record = KillRecord(self.file, lambda: self.kills, lambda: self.now)
        record.open()
        return record


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def fragments_of(record: KillRecord) -> int | None:
    return None if record.limit is None else record.limit.fragments


def test_killed_worker_runs_one_fragment_less_and_recovers_with_time(machine: Machine) -> None:
    machine.started().update(7, is_short=True)
    record = machine.started()
    assert record.limit is not None
    assert (record.limit.fragments, record.limit.ran) == (6, 7)
    assert record.limit.until == machine.now + STEP_MS
    machine.now += STEP_MS
    assert fragments_of(record) == 7
    machine.now += STEP_MS
    assert fragments_of(record) is None


def test_worker_that_stopped_or_had_memory_was_not_killed_for_memory(machine: Machine) -> None:
    stopped = machine.started()
    stopped.update(7, is_short=True)
    stopped.stop()
    assert fragments_of(machine.started()) is None
    machine.started().update(7, is_short=False)
    assert fragments_of(machine.started()) is None


def test_kill_is_recognized_by_the_count_of_the_control_group(machine: Machine) -> None:
    record = machine.started()
    record.update(7, is_short=False)
    machine.kills = 1
    assert fragments_of(machine.started()) == 6


def test_kill_of_spark_s_processes_limits_the_worker_that_lives(machine: Machine) -> None:
    record = machine.started()
    record.update(4, is_short=False)
    machine.kills = 1
    record.update(4, is_short=False)
    assert fragments_of(record) == 3


def test_new_control_group_counts_from_zero(machine: Machine) -> None:
    machine.kills = 5
    machine.started().update(7, is_short=False)
    machine.kills = 0
    assert fragments_of(machine.started()) is None


def test_one_kill_is_counted_once_and_each_further_kill_lowers_the_limit(
    machine: Machine,
) -> None:
    record = machine.started()
    record.update(4, is_short=True)
    machine.kills = 1
    record.update(4, is_short=True)  # Java was killed, and the worker ends
    record = machine.started()
    assert fragments_of(record) == 3
    record.update(3, is_short=True)
    record = machine.started()
    assert record.limit is not None
    assert record.limit.fragments == 2
    assert record.limit.until == machine.now + 2 * STEP_MS


def test_record_is_private_and_a_damaged_one_is_ignored(machine: Machine) -> None:
    machine.started().update(2, is_short=True)
    assert stat.S_IMODE(machine.file.stat().st_mode) == 0o600
    machine.file.write_bytes(b"\x00{")
    assert fragments_of(machine.started()) is None
