"""Bounds of samples of bursty series: a flat level with rare spikes of 2 to 50 times the level."""

import math
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from analytics_worker.evaluate.composition import compose
from analytics_worker.sampling.sampling_keys import Floats, Ints
from analytics_worker.stateful.state_table import StateTable
from mistbow.streams.schemas import POINTS, ROW_FRONTIER
from tests.analytics_worker.evaluate.test_sample_estimates import BEFORE, WIDTH_MS, plan_of, routed
from tests.support.windows import windows_of_routed

# The tests compute for seconds.
pytestmark = pytest.mark.integration

SERIES = (
    # (the probability of a spike, the least and the greatest factor, the noise)
    (0.002, 50, 50, 0.02),
    (0.005, 2, 50, 0.02),
    (0.01, 2, 50, 0.05),
    (0.02, 10, 50, 0.05),
    (0.05, 2, 50, 0.1),
    (0.01, 20, 20, 0.0),
    (0.03, 2, 5, 0.02),
    (0.001, 30, 50, 0.1),
)
LEVEL = 10.0
RATE = 20
WINDOWS = 400
SEED = 17
CONFIDENCE = 0.95
ENOUGH = CONFIDENCE - 3 * math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / WINDOWS)


@cache
def bursty() -> pa.Table:
    """Return the points of all series, sorted by time; the seed of series n is ``SEED + n``."""
    number = (BEFORE + WINDOWS) * WIDTH_MS // 1000 * RATE
    columns = [_series(index, number) for index in range(len(SERIES))]
    ts, values = (np.concatenate(each) for each in zip(*columns, strict=True))
    indices = pa.array(np.repeat(np.arange(len(SERIES), dtype=np.int32), number))
    names = [f"s{index}" for index in range(len(SERIES))]
    texts = pa.DictionaryArray.from_arrays(indices, [f'{{"entityID":"{n}"}}' for n in names])
    metric = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(ts), np.int32)), ["x"])
    entities = pa.DictionaryArray.from_arrays(indices, names)
    frontier = pa.array(np.full(len(ts), -1))
    schema = POINTS.append(ROW_FRONTIER)
    return pa.table([metric, entities, texts, ts, values, frontier], schema=schema).sort_by("ts")


def _series(index: int, number: int) -> tuple[Ints, Floats]:
    probability, least, greatest, noise = SERIES[index]
    random = np.random.default_rng(SEED + index)
    values = LEVEL * (1 + noise * random.standard_normal(number))
    spikes = random.random(number) < probability
    values[spikes] *= random.uniform(least, greatest, int(spikes.sum()))
    return np.arange(1, number + 1) * 1000 // RATE, values


@pytest.mark.parametrize(
    ("sampling", "most"),
    [
        ("SAMPLE 0.2", 0.2),
        # At most 20 points of each batch are sent on, and a window consists of several batches.
        ("SAMPLE 20", 0.35),
        ("SAMPLE 0.2 AND AWARENESS ON ACCURACY", 0.26),
        ("MAX_ERROR 0.05 AND CONFIDENCE 0.95", 1.0),
    ],
)
def test_bounds_of_bursty_series_contain_the_true_values(sampling: str, most: float) -> None:
    plan = plan_of(f"SUM(x) BY entityID EVERY 5 s WITH {sampling}")
    rows = bursty()
    read = routed(rows, plan)
    read = read.filter(pc.greater(read["ts"], BEFORE * WIDTH_MS))
    results = compose(windows_of_routed(read, plan), plan, StateTable()).to_pylist()
    panes = np.ceil(rows["ts"].to_numpy() / WIDTH_MS).astype(np.int64)
    for index in range(len(SERIES)):
        own = pc.equal(rows["entity"], f"s{index}").to_numpy()
        true = np.bincount(panes[own], weights=rows["value"].to_numpy()[own])
        found = [row for row in results if row["key"] == f'{{"entityID":"s{index}"}}']
        within = [
            row["low"] - 1e-6 <= true[row["ts"] // WIDTH_MS] <= row["high"] + 1e-6 for row in found
        ]
        near = [abs(row["value"] / true[row["ts"] // WIDTH_MS] - 1) <= 0.05 for row in found]
        assert len(found) == WINDOWS
        assert np.mean(within) >= ENOUGH, SERIES[index]
        if "MAX_ERROR" in sampling:
            assert np.mean(near) >= ENOUGH, SERIES[index]
    selected = len(read) - read["value"].null_count
    assert selected <= most * WINDOWS * len(SERIES) * RATE * WIDTH_MS / 1000


def test_awareness_on_accuracy_selects_more_points_of_keys_that_vary_more() -> None:
    plan = plan_of("AVG(x) BY entityID EVERY 5 s WITH SAMPLE 0.3 AND AWARENESS ON ACCURACY")
    rows = bursty()
    read = routed(rows, plan)
    read = read.filter(
        pc.and_(pc.greater(read["ts"], BEFORE * WIDTH_MS), pc.is_valid(read["value"]))
    )
    shares = {
        index: pc.sum(pc.equal(read["entity"], f"s{index}")).as_py() / (WINDOWS * 5 * RATE)
        for index in range(len(SERIES))
    }
    calm, restless = shares[0], shares[7]  # without spikes, the noise is 0.02 and 0.1
    assert calm < 0.3 < restless
    assert sum(shares.values()) / len(SERIES) <= 0.4
