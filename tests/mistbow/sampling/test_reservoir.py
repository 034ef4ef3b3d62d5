from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mistbow.sampling.reservoir import POOL, Floats, Sample, merged
from tests.mistbow.sampling.panes import pane

POINTS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.floats(-9, 9)), min_size=1, max_size=60
)
"""The stratum, time and value of points; each is told apart by its place."""


def sample_of(points: Sequence[tuple[int, tuple[str, int, float]]]) -> Sample:
    strata = [stratum for _, (stratum, _, _) in points]
    ts = np.array([ts for _, (_, ts, _) in points], np.int64)
    identities = np.array([place for place, _ in points], np.uint64)
    values = np.array([value for _, (_, _, value) in points], np.float64)
    return Sample.of("cpu", 5000, pa.array(strata, pa.string()), ts, identities, values)


def content(sample: Sample) -> tuple[object, ...]:
    kept = zip(sample.places.tolist(), sample.lots.tolist(), sample.values.tolist(), strict=True)
    return sample.strata, sample.counts.tolist(), list(kept)


@given(POINTS, st.integers(1, 8), st.randoms(use_true_random=False), st.integers(1, 5))
def test_order_and_parts_change_no_sample(points, size, random, number_of_parts) -> None:
    whole = list(enumerate(points))
    expected = content(sample_of(whole).cut(size))

    random.shuffle(whole)
    parts = [whole[start::number_of_parts] for start in range(number_of_parts)]
    kept = [sample_of(part).cut(size) for part in parts if part]
    assert content(merged(kept).cut(size)) == expected
    # However the parts are merged: two by two, too.
    one = kept[0]
    for other in kept[1:]:
        one = merged([one, other]).cut(size)
    assert content(one) == expected


def test_every_point_has_the_same_chance() -> None:
    points, size, panes = 20, 5, 2000
    times = np.zeros(points)
    for end in range(panes):
        chosen = pane(end, ["a"] * points, np.arange(float(points))).cut(size)
        times[chosen.values.astype(int)] += 1
    expected = panes * size / points
    # Without replacement, the counts vary by (1 - size / points) of what independent ones would.
    chi_square = ((times - expected) ** 2 / expected).sum() / (1 - size / points)
    assert chi_square < 43.8  # 0.999 of a chi-square with 19 degrees of freedom


def test_no_more_is_claimed_than_a_part_that_was_cut_shorter_knows() -> None:
    left = pane(5000, ["a"] * 10, np.arange(10.0)).cut(3)
    right = pane(5000, ["a", "a", "b"], np.array([20.0, 21.0, 22.0]))
    both = merged([left, right])
    assert both.kept.tolist() == [3, 1]
    assert both.counts.tolist() == [12, 1]
    assert sorted(both.lots[:3]) == sorted([*left.lots, *right.lots[:2]])[:3]


def test_small_strata_are_pooled_before_they_are_cut() -> None:
    points = pane(5000, ["a"] * 5 + ["b", "c"], np.arange(7.0))
    pooled = points.pooled(2)
    assert pooled.strata == (POOL, "a")
    assert pooled.counts.tolist() == [2, 5]
    assert sorted(pooled.values[:2]) == [5, 6]
    with pytest.raises(ValueError, match="pooled before"):
        points.cut(1).pooled(9)


def test_words_that_no_point_has_are_no_strata() -> None:
    words = pa.DictionaryArray.from_arrays(pa.array([2, 0, 2], pa.int32()), ["b", "unused", "a"])
    none = np.zeros(3, np.int64)
    values = np.array([1.0, 2.0, 3.0])
    sample = Sample.of("cpu", 5000, words, none, np.arange(3, dtype=np.uint64), values)
    assert sample.strata == ("a", "b")
    assert sample.counts.tolist() == [2, 1]
    assert content(sample) == content(pane_of("aba", values))


def pane_of(strata: str, values: Floats) -> Sample:
    none = np.zeros(len(values), np.int64)
    identities = np.arange(len(values), dtype=np.uint64)
    return Sample.of("cpu", 5000, pa.array(list(strata)), none, identities, values)
