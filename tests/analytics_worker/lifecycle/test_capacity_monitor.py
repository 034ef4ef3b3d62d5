"""The monitor of a worker's capacity: what it announces, and which fragments it admits."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from analytics.plan.demand import MAX_MEMORY_MB, PARTIAL
from analytics.plan.fragments import Fragment
from analytics_worker.lifecycle.capacity import NodeMemory
from analytics_worker.lifecycle.capacity_monitor import CapacityMonitor, Measures
from analytics_worker.lifecycle.kill_record import KillRecord
from analytics_worker.lifecycle.memory_budget import (
    FIRST_FRAGMENT_MB,
    IDLE_MB,
    SETTLED_S,
)
from mistbow.errors import CapacityError
from mistbow.fabric import Worker
from tests.analytics_worker.lifecycle.fragments import partial

WORKER = Worker(name="w", url="http://w", cores=1, memory_mb=1, cores_free=1, memory_free_mb=1)


class Node:
    """A node of 1900 MB with a worker, on which each fragment uses its demand."""

    def __init__(self, folder: Path) -> None:
        self.limit_mb, self.others_mb, self.cores = 1900.0, 60.0, 2.0
        self.free_share = 1.0
        self.fragments: list[Fragment] = []
        self.now = 0.0
        record = KillRecord(folder / "kills.json", lambda: None, lambda: round(self.now * 1000))
        measures = Measures(lambda: self.cores, self._memory, self._own_mb)
        self.handovers = 0
        self.monitor = CapacityMonitor(
            self._running,
            lambda: len(self.fragments) + self.handovers,
            record,
            measures,
            lambda: self.now,
            free_cores=lambda cores: self.free_share * cores,
        )
        record.open()
        self.monitor.note_warm()
        self.settle()

    def settle(self) -> None:
        self.monitor.measure()
        self.now += SETTLED_S
        self.monitor.measure()

    def run(self, fragment: Fragment) -> None:
        self.monitor.check(fragment, self.fragments)
        self.fragments.append(fragment)
        self.monitor.measure()

    def run_many(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.run(partial(f"g.at-x.{number}"))

    @property
    def announced(self) -> Worker:
        return self.monitor.announced(WORKER)

    def _running(self) -> Sequence[Fragment]:
        return tuple(self.fragments)

    def _own_mb(self) -> float:
        first = FIRST_FRAGMENT_MB if self.fragments else 0.0
        queries = len(self.fragments) + self.handovers
        return IDLE_MB + first + queries * PARTIAL.memory_mb

    def _memory(self) -> NodeMemory:
        return NodeMemory(self.limit_mb, self.limit_mb - self.others_mb - self._own_mb())


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_fragments_are_admitted_until_memory_is_used_up(node: Node) -> None:
    capacity_mb = node.announced.memory_free_mb
    fitting = int(capacity_mb // PARTIAL.memory_mb)
    for number in range(fitting):
        node.run(partial(f"g.at-x.{number}"))
    assert node.announced.memory_free_mb == capacity_mb  # used by fragments, or free
    assert node.monitor.announced(WORKER).memory_mb == node.limit_mb
    with pytest.raises(CapacityError) as refused:
        node.run_many(range(fitting, fitting + 2))
    assert refused.value.details["needed_mb"] == PARTIAL.memory_mb
    assert refused.value.details["free_mb"] < PARTIAL.memory_mb
    assert f"needs {PARTIAL.memory_mb:g} MB of memory, and" in refused.value.message
    assert "of 1900 MB is free for fragments" in refused.value.message


def test_changed_limits_are_announced_at_the_next_measurement(node: Node) -> None:
    before = node.announced
    node.limit_mb, node.cores = 2500.0, 1.0
    node.monitor.measure()
    after = node.announced
    assert (after.memory_mb, after.cores, after.cores_free) == (2500, 1, 1)
    assert after.memory_free_mb == pytest.approx(before.memory_free_mb + 0.95 * 600, abs=2)
    node.limit_mb = 700.0
    node.monitor.measure()
    assert node.announced.memory_free_mb == 0


def test_noise_is_not_announced(node: Node) -> None:
    before = node.announced
    for others_mb in (90.0, 40.0, 75.0):
        node.others_mb = others_mb
        node.monitor.measure()
        assert node.announced == before
    node.others_mb = 200.0
    node.monitor.measure()
    assert node.announced.memory_free_mb < before.memory_free_mb


def test_fragments_are_not_refused_for_noise(node: Node) -> None:
    while node.announced.memory_free_mb >= (len(node.fragments) + 1) * PARTIAL.memory_mb:
        node.others_mb = 75.0
        node.monitor.measure()
        node.run(partial(f"g.at-x.{len(node.fragments)}"))


def test_handover_lowers_no_budget_and_a_second_one_waits_for_memory(node: Node) -> None:
    for number in range(int(node.announced.memory_free_mb // PARTIAL.memory_mb)):
        node.run(partial(f"g.at-x.{number}"))
    node.settle()
    node.others_mb += node.announced.memory_free_mb % PARTIAL.memory_mb  # now it is full
    node.monitor.measure()
    before = node.announced
    assert node.monitor.has_handover_memory()
    node.handovers = 1
    node.settle()
    assert node.announced == before
    assert not node.monitor.has_handover_memory()


def test_restarted_worker_refuses_the_load_under_which_it_was_killed(tmp_path: Path) -> None:
    killed = Node(tmp_path)
    for number in range(3):
        killed.run(partial(f"g.at-x.{number}"))
    killed.others_mb = 1900 - IDLE_MB - FIRST_FRAGMENT_MB - 3 * PARTIAL.memory_mb - 10
    killed.monitor.measure()
    node = Node(tmp_path)
    assert node.announced.limit is not None
    assert node.announced.memory_free_mb == 2 * MAX_MEMORY_MB
    node.run(partial("g.at-x.0"))
    node.run(partial("g.at-x.1"))
    with pytest.raises(CapacityError, match="at most 2 fragments after it was killed"):
        node.run(partial("g.at-x.2"))


def test_measured_free_cores_are_announced(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.free_share = 0.75
    node.monitor.measure()
    assert (node.announced.cores, node.announced.cores_free) == (2.0, 1.5)
