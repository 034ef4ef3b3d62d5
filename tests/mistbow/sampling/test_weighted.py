import math
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mistbow.sampling.reservoir import Sample, seed_of
from mistbow.sampling.sizes import (
    Ledger,
    Memory,
    Target,
    adjusted,
    learned,
    of_bound,
    of_budget,
    of_share,
)
from mistbow.sampling.weighted import Estimate, Moments, count, mean, moments, total
from tests.mistbow.sampling.panes import WIDTH_MS, pane, sensors

RUNS = 200
CONFIDENCE = 0.95


def enough(runs: int) -> float:
    """Return how often a bound must hold: its confidence less three standard errors."""
    return runs * CONFIDENCE - 3 * math.sqrt(runs * CONFIDENCE * (1 - CONFIDENCE))


def holds(estimate: Estimate | None, true: float) -> bool:
    assert estimate is not None
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low <= true <= estimate.high


@pytest.mark.parametrize("skewed", [False, True])
def test_a_bound_holds_as_often_as_it_says_and_half_the_points_are_not_read(skewed: bool) -> None:
    random, target, memory = np.random.default_rng(1), Target(0.05, CONFIDENCE), Memory()
    read = seen = stated = near = 0
    for run in range(RUNS):
        points = pane(run * WIDTH_MS, *sensors(random, 100, 10, skewed))
        sample = of_bound(points, target, memory)
        found = moments(sample)
        memory = adjusted(learned(memory, sample), target, found)
        true = points.values.mean()
        average = mean(found, CONFIDENCE)
        stated += holds(average, true) and holds(total(found, CONFIDENCE), points.values.sum())
        near += abs(average.value - true) <= 0.05 * true
        read += len(sample.values)
        seen += points.seen
    assert stated >= enough(RUNS)
    assert near >= enough(RUNS)
    assert read <= seen / 2


@pytest.mark.parametrize(("each", "share"), [(1, 0.2), (7, 0.2), (10, 0.35)])
def test_a_share_is_never_exceeded_and_its_bounds_hold(each: int, share: float) -> None:
    random, ledger = np.random.default_rng(2), Ledger()
    right = 0
    for run in range(RUNS):
        points = pane(run * WIDTH_MS, *sensors(random, 50, each))
        sample, ledger = of_share(points, share, ledger, seed_of("cpu", run))
        right += holds(mean(moments(sample), CONFIDENCE), points.values.mean())
        assert ledger.kept <= share * ledger.seen
    assert right >= enough(RUNS)
    assert ledger.kept >= 0.95 * share * ledger.seen


def test_panes_of_one_point_make_a_window_with_bounds() -> None:
    random, ledger = np.random.default_rng(3), Ledger()
    right = 0
    for window in range(RUNS // 2):
        values, found = random.normal(20, 5, 20), Moments()
        for second, value in enumerate(values):
            one = pane(window * 20 + second, ["a"], np.array([value]))
            sample, ledger = of_share(one, 0.5, ledger, seed_of(window, second))
            found += moments(sample)
        right += holds(mean(found, CONFIDENCE), values.mean())
    assert right >= enough(RUNS // 2)
    assert 0.48 * ledger.seen <= ledger.kept <= 0.5 * ledger.seen


def test_a_budget_goes_where_values_vary() -> None:
    random = np.random.default_rng(4)
    strata = ["calm"] * 400 + ["wild"] * 100
    plain, budget, memory = Ledger(), Ledger(), Memory()
    widths = np.zeros((2, 30))
    for run in range(30):
        values = np.concatenate([random.normal(50, 0.1, 400), random.normal(50, 20, 100)])
        points = pane(run, strata, values)
        even, plain = of_share(points, 0.1, plain, seed_of(run))
        aimed, budget = of_budget(points, 0.1, memory, budget, seed_of(run))
        memory = learned(memory, aimed)
        for place, sample in enumerate((even, aimed)):
            average = mean(moments(sample), CONFIDENCE)
            assert average is not None
            assert average.high is not None
            widths[place, run] = average.high - average.value
    assert budget.kept <= 0.1 * budget.seen
    assert np.median(widths[1]) < 0.5 * np.median(widths[0])


def test_a_target_for_a_window_is_shared_by_its_panes() -> None:
    random, memory = np.random.default_rng(5), Memory()
    for run in range(20):
        points = pane(run, *sensors(random, 100, 20))
        memory = learned(memory, points)
    alone = of_bound(points, Target(0.01, CONFIDENCE), memory)
    one_of_many = of_bound(points, Target(0.01, CONFIDENCE, panes=10), memory)
    assert len(one_of_many.values) < 0.5 * len(alone.values)


def test_weights_are_those_of_the_hierarchy() -> None:
    strata = ["a"] * 40 + ["b"] * 6 + ["c"] * 3
    sample, weights = pane(0, strata, np.arange(49.0)), np.ones(3)
    for size in (20, 5, 4):  # an edge, a region, a cloud
        arrived = sample.kept
        sample = sample.cut(size)
        weights *= np.maximum(1, arrived / size)
    assert sample.weights.tolist() == weights[sample.places].tolist()
    assert set(sample.weights) == {10, 1.5, 1}


def test_estimates_are_those_of_the_textbook() -> None:
    values = np.array([10.0, 12, 14, 16, 1, 2])
    sample = pane(0, ["a"] * 4 + ["b"] * 2, values).cut(np.array([2, 2]))
    a = sample.values[:2]
    found = moments(sample)
    # N² (1 - n / N) s² / n, and one degree of freedom
    error = math.sqrt(16 * (1 - 2 / 4) * a.var(ddof=1) / 2)
    estimate = total(found, 0.5)
    assert estimate is not None
    assert estimate.value == pytest.approx(4 * a.mean() + 3)
    assert estimate.high == pytest.approx(4 * a.mean() + 3 + error)
    assert count(found, 0.5) == Estimate(6, 6, 6, 0.5)


def test_what_is_not_known_is_not_stated() -> None:
    one_of_many = moments(pane(0, ["a"] * 9, np.arange(9.0)).cut(1))
    known = mean(one_of_many, CONFIDENCE)
    assert known is not None
    assert (known.low, known.high) == (None, None)
    for scale in (1e100, 1e300):
        huge = pane(0, ["a"] * 4, np.array([1, 2, 4, 8]) * scale)
        overflow = total(moments(huge.cut(2)), CONFIDENCE)
        assert overflow is not None
        assert overflow.low is None
    assert mean(Moments(), CONFIDENCE) is None
    nothing, _ = of_share(pane(0, ["a"], np.ones(1)), 0.5, Ledger(), 0)
    assert mean(moments(nothing), CONFIDENCE) is None
    with pytest.raises(ValueError, match="no point is kept"):
        moments(pane(0, ["a"], np.ones(1)).cut(0))
    everything = mean(moments(pane(0, ["a", "b", "b"], np.arange(3.0))), CONFIDENCE)
    assert everything == Estimate(1, 1, 1, CONFIDENCE)


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9), min_size=1, max_size=6))
def test_what_panes_come_to_adds_up(panes: list[list[float]]) -> None:
    found = Moments()
    for end, values in enumerate(panes):
        pool = pane(end, ["a"] * len(values), np.array(values)).pooled(math.inf)
        found += moments(replace(pool, even=True))
    everything = [value for values in panes for value in values]
    assert found.count == found.kept == len(everything)
    assert found.loose.mean == pytest.approx(np.mean(everything), abs=1e-6)
    squares = np.var(everything) * len(everything)
    assert found.loose.squares == pytest.approx(squares, rel=1e-9, abs=1e-3)


def test_what_is_remembered_repeats_the_samples() -> None:
    random, target = np.random.default_rng(6), Target(0.05, CONFIDENCE)
    panes = [pane(run, *sensors(random, 20, 30)) for run in range(6)]

    def drawn(memory: Memory, some: list[Sample]) -> tuple[Memory, list[list[float]]]:
        kept = []
        for points in some:
            sample = of_bound(points, target, memory)
            memory = learned(memory, sample)
            kept.append(sample.values.tolist())
        return memory, kept

    _, expected = drawn(Memory(), panes)
    memory, before = drawn(Memory(), panes[:3])
    stored = msgspec.json.decode(msgspec.json.encode(memory), type=Memory)
    assert before + drawn(stored, panes[3:])[1] == expected


def test_shares_and_targets_that_make_no_sense_are_refused() -> None:
    points = pane(0, ["a"], np.ones(1))
    for share in (0.0, -0.1, 1.1):
        with pytest.raises(ValueError, match="share"):
            of_share(points, share, Ledger(), 0)
    for error, confidence, panes in ((0.0, 0.9, 1), (0.1, 1.0, 1), (0.1, 0.9, 0)):
        with pytest.raises(ValueError, match="between 0 and 1"):
            Target(error, confidence, panes)
