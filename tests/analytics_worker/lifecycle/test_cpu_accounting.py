import pytest

from analytics_worker.lifecycle.cpu_accounting import (
    IDLE_CORES,
    MAX_OVERHEAD,
    CpuAccounting,
    process_tree_cpu_s,
)

STEP_S = 5.0


class Machine:
    """The CPU times of a worker and its queries, in steps of ``STEP_S``."""

    def __init__(self) -> None:
        self.now = self.worker_s = 0.0
        self.queries_s: dict[str, float] = {}
        self.accounting = CpuAccounting(
            lambda: self.queries_s, lambda: self.worker_s, lambda: self.now
        )

    def run(self, seconds: float, rest: float, **cores: float) -> None:
        """Run for a time; ``rest``: the cores that belong to no query."""
        for _ in range(round(seconds / STEP_S)):
            self.now += STEP_S
            self.worker_s += STEP_S * (rest + sum(cores.values()))
            self.queries_s = {
                name: self.queries_s.get(name, 0.0) + STEP_S * each for name, each in cores.items()
            }
            self.accounting.update()


def test_accounting_divides_the_usage_beyond_that_of_an_idle_worker() -> None:
    machine = Machine()
    machine.run(300, rest=0.04)
    machine.run(600, rest=0.10, one=0.1, other=0.2)
    before = {name: machine.accounting.cpu_s(name) for name in ("one", "other")}
    machine.run(100, rest=0.10, one=0.1, other=0.2)
    cores = {name: (machine.accounting.cpu_s(name) - before[name]) / 100 for name in before}
    assert cores["other"] == pytest.approx(2 * cores["one"])
    assert sum(cores.values()) == pytest.approx(0.3 + 0.10 - 0.04, rel=0.02)


def test_accounting_never_takes_time_from_a_query() -> None:
    machine = Machine()
    machine.run(100, rest=-0.05, one=0.1)
    assert machine.accounting.overhead == 1.0
    assert machine.accounting.cpu_s("one") == pytest.approx(0.1 * (100 - STEP_S))


def test_accounting_limits_the_overhead_of_a_start() -> None:
    machine = Machine()
    machine.run(20, rest=2.0, one=0.1)
    assert machine.accounting.overhead == MAX_OVERHEAD


def test_accounting_forgets_fragments_that_have_ended() -> None:
    machine = Machine()
    machine.run(20, rest=IDLE_CORES, one=0.1)
    machine.run(20, rest=IDLE_CORES)
    assert machine.accounting.cpu_s("one") == 0.0


def test_process_tree_takes_cpu_time() -> None:
    before = process_tree_cpu_s()
    while (spent := process_tree_cpu_s() - before) < 0.05:
        sum(range(10_000))
    assert spent < 5
