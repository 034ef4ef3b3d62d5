import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.plan.functions import ACCUMULATED
from analytics_worker.operators.accumulators import START, AccumulatorState, Ewma
from analytics_worker.operators.points import Floats
from mistbow.sampling.pewma import WARM_UP, Pewma
from tests.analytics_worker.operators.values import CALM, CLOSE, arrays

STARTS: dict[str, AccumulatorState] = {
    name: start(0.3) if name in ("EWMA", "PEWMA") else start() for name, start in START.items()
}


def one_by_one(name: str, seen: list[float]) -> float:
    """Return the value of an accumulator after the values ``seen``, by its definition."""
    match name:
        case "RUNNING_COUNT":
            return len(seen)
        case "RUNNING_MEAN":
            return math.fsum(seen) / len(seen)
        case "RUNNING_MAX":
            return max(seen)
        case "RUNNING_MIN":
            return min(seen)
        case "RUNNING_SDEV":
            return float(np.std(seen))
        case "EWMA":
            average = seen[0]
            for value in seen[1:]:
                average = 0.3 * value + 0.7 * average
            return average
        case "PEWMA":
            return carter_streilein(seen, alpha=0.7, beta=0.5)
        case "DIFF":
            return seen[-1] - seen[-2] if len(seen) > 1 else math.nan
    raise AssertionError(name)


def carter_streilein(seen: list[float], alpha: float, beta: float) -> float:
    """Return the PEWMA of values by the formula of Carter and Streilein.

    ``alpha``: the weight of earlier values; ``beta``: the influence of a value's probability.
    """
    s1 = s2 = 0.0
    for t, x in enumerate(seen, 1):
        if t <= 30:
            weight = 1 - 1 / t
        else:
            z = (x - s1) / math.sqrt(s2 - s1 * s1)
            weight = (1 - beta * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)) * alpha
        s1, s2 = weight * s1 + (1 - weight) * x, weight * s2 + (1 - weight) * x * x
    return s1


def after_json(state: AccumulatorState) -> AccumulatorState:
    return msgspec.json.decode(msgspec.json.encode(state), type=AccumulatorState)


def test_each_accumulated_operator_has_the_name_of_its_function() -> None:
    assert set(START) == ACCUMULATED
    assert {name: msgspec.to_builtins(state)["type"] for name, state in STARTS.items()} == {
        name: name for name in ACCUMULATED
    }


@CALM
@given(values=arrays(most=50))
def test_accumulator_equals_its_definition_over_all_values_so_far(values: Floats) -> None:
    # The paper's own form of PEWMA's spread needs one.
    values = values + np.random.default_rng(1).normal(size=len(values))
    seen = values.tolist()
    for name, start in STARTS.items():
        _, outputs = start.advance(values)
        expected = [one_by_one(name, seen[: place + 1]) for place in range(len(seen))]
        assert outputs.tolist() == pytest.approx(expected, rel=CLOSE, abs=1e-9, nan_ok=True), name


@CALM
@given(arrays(least=0, most=80), st.lists(st.integers(0, 80), max_size=4).map(sorted))
def test_a_split_anywhere_and_a_restart_change_nothing(values: Floats, cuts: list[int]) -> None:
    for name, start in STARTS.items():
        state, parts = start, []
        for part in np.split(values, cuts):
            state, outputs = state.advance(part)
            state = after_json(state)
            parts.append(outputs)
        whole, expected = start.advance(values)
        found = np.concatenate(parts)
        if name in ("RUNNING_MEAN", "RUNNING_SDEV"):
            size = np.abs(values).max(initial=0)
            np.testing.assert_allclose(found, expected, CLOSE, CLOSE * size, err_msg=name)
        else:
            np.testing.assert_array_equal(found, expected, err_msg=name)
            assert state == whole


@pytest.mark.parametrize("name", sorted(ACCUMULATED))
def test_state_survives_json_for_values_of_any_size(name: str) -> None:
    huge = np.array([1.7e308, -1.7e308] * 20)
    state, _ = STARTS[name].advance(huge)
    again, _ = after_json(state).advance(huge)
    assert after_json(again) == after_json(state.advance(huge)[0])


def test_deviation_is_exact_for_a_small_spread_far_from_zero() -> None:
    values = 1e9 + np.random.default_rng(5).normal(size=5000)
    _, outputs = STARTS["RUNNING_SDEV"].advance(values)
    assert outputs[-1] == pytest.approx(np.std(values - 1e9), rel=1e-7)


def test_pewma_moves_less_than_ewma_for_the_probable_and_as_much_for_the_improbable() -> None:
    calm = np.random.default_rng(2).normal(size=WARM_UP + 20)
    state, _ = Pewma(0.3).advance(calm)
    _, [spike] = state.advance(np.array([1000.0]))
    assert spike == pytest.approx(0.3 * 1000 + 0.7 * state.average)
    _, [usual] = state.advance(np.array([state.average + 0.01]))
    assert usual - state.average > 0.3 * 0.01


@pytest.mark.parametrize("alpha", [0, -0.5, 1.1, math.nan])
def test_a_weight_is_more_than_0_and_at_most_1(alpha: float) -> None:
    for start in (Ewma, Pewma):
        with pytest.raises(ValueError, match="alpha must be above 0 and at most 1"):
            start(alpha)
