"""Full collections that take long happen once for the same objects."""

import gc
from collections.abc import Iterator

import pytest

from mistbow.runtime.collection import slow_collections_excluded


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
