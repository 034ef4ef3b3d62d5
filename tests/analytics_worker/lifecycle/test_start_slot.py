"""The order in which the queries of a worker start."""

from itertools import permutations

import pytest

from analytics.plan.fragments import Fragment
from analytics_worker.lifecycle import start_slot
from analytics_worker.lifecycle.start_slot import StartSlot
from tests.analytics_worker.lifecycle.fragments import partial, whole


class Owner:
    """An owner of the slot, with the fragment that it starts."""

    def __init__(self, fragment: Fragment, *, for_handover: bool = False) -> None:
        self.fragment = fragment
        self.for_handover = for_handover

    def acquires(self, slot: StartSlot) -> bool:
        return slot.acquire(self, self.fragment, for_handover=self.for_handover)


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_interrupted_results_come_before_panes_and_handovers(order: tuple[int, ...]) -> None:
    slot, first = StartSlot(lambda: True), Owner(partial("f"))
    assert first.acquires(slot)
    by_rank = [
        Owner(whole(salience=3)), Owner(whole()), Owner(partial("p")),
        Owner(whole(salience=5), for_handover=True),
    ]  # fmt: skip
    assert not any(by_rank[number].acquires(slot) for number in order)
    slot.release(first)
    for owner in by_rank:
        waiting = [each for each in by_rank[by_rank.index(owner) :] if each is not owner]
        assert not any(each.acquires(slot) for each in waiting)
        assert owner.acquires(slot)
        assert owner.acquires(slot)
        slot.release(owner)


def test_owner_that_no_longer_asks_delays_no_other_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    slot, first, other = StartSlot(lambda: True), Owner(partial("f")), Owner(partial("p"))
    gone = Owner(whole())
    assert first.acquires(slot)
    assert not gone.acquires(slot)
    slot.release(first)
    assert not other.acquires(slot)
    monkeypatch.setattr(start_slot, "_POLLED_S", 1e-9)
    assert other.acquires(slot)


def test_start_that_is_prepared_first_leaves_the_slot_to_a_requested_one_of_greater_rank() -> None:
    slot, panes, results = StartSlot(lambda: True), Owner(partial("p")), Owner(whole())
    slot.request(results, results.fragment)
    assert not panes.acquires(slot)
    assert results.acquires(slot)
    slot.release(results)
    assert panes.acquires(slot)


def test_withdrawn_request_delays_no_owner() -> None:
    slot, panes, results = StartSlot(lambda: True), Owner(partial("p")), Owner(whole())
    slot.request(results, results.fragment)
    slot.withdraw(results)
    assert panes.acquires(slot)
