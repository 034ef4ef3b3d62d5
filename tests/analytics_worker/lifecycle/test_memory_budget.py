"""The memory that fragments may use, computed from readings."""

from dataclasses import replace

import pytest

from analytics.plan.demand import MAX_MEMORY_MB
from analytics_worker.lifecycle.memory_budget import (
    FIRST_FRAGMENT_MB,
    IDLE_MB,
    MIN_MEMORY_MB,
    SETTLED_S,
    MemoryBudget,
    MemoryReading,
    check_memory,
)
from mistbow.errors import CapacityError

IDLE = MemoryReading(
    limit_mb=1900, free_mb=1840 - IDLE_MB, own_mb=IDLE_MB, demand_mb=0, settled_s=SETTLED_S
)


def budget_after(*readings: MemoryReading) -> MemoryBudget:
    budget = MemoryBudget(handover_mb=180)
    for reading in readings:
        budget.update(reading)
    return budget


def loaded(fragments: int, *, each_mb: float = 170, settled_s: float = SETTLED_S) -> MemoryReading:
    """Return a reading of an idle worker that has got fragments, each with a demand of 170 MB."""
    used = fragments * each_mb + FIRST_FRAGMENT_MB
    return MemoryReading(
        limit_mb=1900,
        free_mb=IDLE.free_mb - used,
        own_mb=IDLE_MB + used,
        demand_mb=fragments * 170,
        settled_s=settled_s,
    )


def test_budget_of_idle_worker_is_what_is_free_without_reserve_and_first_costs() -> None:
    assert budget_after(IDLE).budget_mb == IDLE.free_mb - 95 - 180 - FIRST_FRAGMENT_MB


def test_budget_does_not_change_while_fragments_start_and_run() -> None:
    idle = budget_after(IDLE).budget_mb
    for started in (0, 40, 120, 170):
        starting = loaded(3, each_mb=started, settled_s=2)
        assert budget_after(IDLE, starting).budget_mb == pytest.approx(idle)
    assert budget_after(IDLE, loaded(3)).budget_mb == pytest.approx(idle)


def test_budget_shrinks_when_fragments_need_more_than_their_demand() -> None:
    idle = budget_after(IDLE).budget_mb
    budget = budget_after(IDLE, loaded(2, each_mb=340))
    assert budget.excess == pytest.approx(2)
    # The reserve for a handover grows too.
    assert budget.budget_mb == pytest.approx((idle - 180) / 2)


def test_budget_shrinks_by_what_other_processes_use() -> None:
    idle, reading = budget_after(IDLE), loaded(1)
    other = replace(reading, free_mb=reading.free_mb - 400)
    assert budget_after(IDLE, other).budget_mb == pytest.approx(idle.budget_mb - 400)


def test_fragments_that_need_less_than_their_demand_make_no_room_for_more() -> None:
    idle = budget_after(IDLE).budget_mb
    cheap = budget_after(IDLE, loaded(4, each_mb=100))
    assert cheap.budget_mb == pytest.approx(idle)
    assert cheap.excess == 1


def test_fragments_exceed_budget_only_when_free_memory_is_used_up() -> None:
    cheap = loaded(6, each_mb=100)
    assert budget_after(IDLE, cheap).budget_mb == 6 * 170
    assert budget_after(IDLE, replace(cheap, free_mb=90)).budget_mb < 6 * 170


def test_fragment_that_was_stopped_for_memory_does_not_fit_again() -> None:
    full = replace(loaded(3, each_mb=340), free_mb=90)
    budget = budget_after(IDLE, full)
    assert budget.budget_mb < 3 * 170
    budget.update(replace(loaded(2, each_mb=340), free_mb=270 + 340))
    assert budget.budget_mb < 3 * 170


def test_lower_limit_lowers_budget_and_higher_limit_raises_it() -> None:
    reading = loaded(3)
    idle = budget_after(IDLE).budget_mb
    for change in (-300, 2000):
        changed = replace(reading, limit_mb=1900 + change, free_mb=reading.free_mb + change)
        expected = idle + change - 0.05 * change
        assert budget_after(IDLE, changed).budget_mb == pytest.approx(max(expected, 0), rel=0.1)


def test_small_node_offers_the_memory_of_a_handover_but_starts_none_without_memory() -> None:
    # As measured in a container of 1 GB: four fragments, after ten minutes.
    idle = replace(IDLE, limit_mb=1024, free_mb=1024 - IDLE_MB - 40)
    four = replace(idle, own_mb=900, free_mb=84, demand_mb=4 * MAX_MEMORY_MB)
    budget = MemoryBudget(handover_mb=MAX_MEMORY_MB)
    budget.update(idle)
    assert budget.budget_mb >= 4 * MAX_MEMORY_MB
    assert budget.has_handover_memory
    budget.update(four)
    assert 4 * MAX_MEMORY_MB <= budget.budget_mb < 5 * MAX_MEMORY_MB
    assert not budget.has_handover_memory


def test_memory_that_java_keeps_is_free_for_new_fragments() -> None:
    kept = replace(IDLE, own_mb=IDLE_MB + 200, free_mb=IDLE.free_mb - 200)
    assert budget_after(IDLE, loaded(3), kept).budget_mb == budget_after(IDLE).budget_mb


def test_least_memory_is_enough_for_one_fragment_and_its_handover() -> None:
    budget = MemoryBudget(handover_mb=MAX_MEMORY_MB)
    budget.update(
        replace(IDLE, limit_mb=MIN_MEMORY_MB, free_mb=MIN_MEMORY_MB - IDLE_MB, own_mb=IDLE_MB)
    )
    assert budget.budget_mb >= MAX_MEMORY_MB


def test_node_with_too_little_memory_for_one_fragment_is_refused_with_both_figures() -> None:
    check_memory(MIN_MEMORY_MB)
    with pytest.raises(CapacityError, match=f"at least {MIN_MEMORY_MB:.0f} MB.* has 512 MB"):
        check_memory(512)
