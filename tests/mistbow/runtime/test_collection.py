"""Full collections are paused while many objects are built, and visit the same objects once."""

import gc
from collections.abc import Iterator

import pytest

from mistbow.runtime.collection import full_collections_paused, slow_collections_excluded


@pytest.fixture(autouse=True)
def unfrozen() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_survivors_of_a_slow_full_collection_are_excluded_from_later_ones() -> None:
    survivors = [[number] for number in range(1000)]
    with slow_collections_excluded(slow_s=-1.0):
        gc.collect()
        assert gc.get_freeze_count() > len(survivors)
        later: list[object] = []
        later.append(later)
        del later
        assert gc.collect() > 0
    assert not any(one is survivors for one in gc.get_objects())


@pytest.mark.parametrize(("slow_s", "generation"), [(1000.0, 2), (-1.0, 1)])
def test_fast_and_partial_collections_exclude_nothing(slow_s: float, generation: int) -> None:
    with slow_collections_excluded(slow_s):
        gc.collect(generation)
        assert gc.get_freeze_count() == 0


def test_collections_after_the_block_exclude_nothing() -> None:
    with slow_collections_excluded(slow_s=-1.0):
        pass
    gc.collect()
    assert gc.get_freeze_count() == 0


@pytest.fixture
def collections() -> Iterator[list[tuple[int, int]]]:
    """Record (generation, number of new objects) of each collection."""
    found: list[tuple[int, int]] = []

    def observe(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            found.append((info["generation"], gc.get_count()[0]))

    gc.collect()
    gc.callbacks.append(observe)
    yield found
    gc.callbacks.remove(observe)


def test_pause_has_no_full_collections_and_leaves_few_objects_to_visit(
    collections: list[tuple[int, int]],
) -> None:
    with full_collections_paused(), full_collections_paused():
        built = [[number] for number in range(300_000)]
    assert collections
    assert {generation for generation, _ in collections} == {0, 1}
    # In use after the pause, as by a thread whose request was cancelled.
    others = [[number] for number in range(1000)]
    assert max(new for _, new in collections) <= 20_000
    assert (len(built), len(others)) == (300_000, 1000)


def test_end_of_the_last_pause_restores_the_thresholds() -> None:
    before = gc.get_threshold()
    with full_collections_paused():
        with full_collections_paused():
            pass
        assert gc.get_threshold() != before
    assert gc.get_threshold() == before
