"""What sampling saves, how far off it is, and how often its bounds hold."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.recording import recorded
from benchmarks.report import Figure, Report
from mistbow.sampling.adam import Adam, Settings
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
from mistbow.sampling.weighted import mean, moments

Floats = npt.NDArray[np.float64]

_PANES = 200
_SENSORS = 100
_CONFIDENCE = 0.95
_ENOUGH = _CONFIDENCE - 3 * math.sqrt(_CONFIDENCE * (1 - _CONFIDENCE) / _PANES)
_SHARE = 0.2
_TARGET = Target(0.05, _CONFIDENCE)
_LONGEST_S = 10


def run() -> Report:
    """Sample made-up panes of 100 sensors, and recorded metrics of a host."""
    figures = [
        *_of_panes(f"MAX_ERROR {_TARGET.max_error}", _Bound, at_most=0.5),
        *_of_panes(f"SAMPLE {_SHARE}", _Share, at_most=_SHARE),
        *_of_panes(f"SAMPLE {_SHARE}, ON ACCURACY", _Budget, at_most=_SHARE),
    ]
    series = recorded()
    for confidence in (0.95, 0.9, 0.8):
        for kind, rates in (("levels", False), ("rates", True)):
            chosen = [values for name, values in series.items() if (".rate " in name) == rates]
            figures += _adam(f"ADAM AND CONFIDENCE {confidence}, {kind}", chosen, confidence)
    seconds = max(len(values) for values in series.values())
    return Report(
        "Sampling",
        f"{_PANES} panes of {_SENSORS} sensors with 10 points each, whose levels go from 5 to 60; "
        "values normal, gamma (skewed) and gamma with 50 points each. Bounds of the average at "
        f"confidence {_CONFIDENCE}. ADAM: {len(series)} series of a host, {seconds / 60:.0f} "
        f"minutes, a value a second, periods up to {_LONGEST_S} s; a value holds until the next is "
        "taken; errors relative to the series' mean. Levels: CPU, load, memory; rates: disks and "
        "networks, which come in bursts.",
        figures,
    )


class _Bound:
    def __init__(self) -> None:
        self._memory = Memory()

    def draw(self, points: Sample, pane: int) -> Sample:  # noqa: ARG002 - as the others
        sample = of_bound(points, _TARGET, self._memory)
        self._memory = adjusted(learned(self._memory, sample), _TARGET, moments(sample))
        return sample


class _Share:
    def __init__(self) -> None:
        self._ledger = Ledger()

    def draw(self, points: Sample, pane: int) -> Sample:
        sample, self._ledger = of_share(points, _SHARE, self._ledger, seed_of(pane))
        return sample


class _Budget:
    def __init__(self) -> None:
        self._ledger, self._memory = Ledger(), Memory()

    def draw(self, points: Sample, pane: int) -> Sample:
        sample, self._ledger = of_budget(points, _SHARE, self._memory, self._ledger, seed_of(pane))
        self._memory = learned(self._memory, sample)
        return sample


@dataclass
class _Outcome:
    kept: int = 0
    seen: int = 0
    right: int = 0
    errors: list[float] = field(default_factory=list)


def _of_panes(
    what: str, sampling: Callable[[], _Bound | _Share | _Budget], at_most: float
) -> list[Figure]:
    found = [
        _outcome(sampling(), each, skewed) for each, skewed in ((10, False), (10, True), (50, True))
    ]
    kept = [one.kept / one.seen for one in found]
    errors = [float(np.quantile(one.errors, 0.95)) for one in found]
    return [
        # The goal is for the normal values; how much skewed ones need, they decide.
        Figure(f"{what}: points read", "share", kept[:1], at_most=at_most),
        Figure(f"{what}: points read, all kinds", "share", kept),
        Figure(f"{what}: relative error, p95", "share", errors),
        Figure(
            f"{what}: the bounds hold", "share", [one.right / _PANES for one in found],
            at_least=_ENOUGH,
        ),
    ]  # fmt: skip


def _outcome(sampling: _Bound | _Share | _Budget, each: int, skewed: bool) -> _Outcome:
    random, found = np.random.default_rng(7), _Outcome()
    levels = np.repeat(np.linspace(5, 60, _SENSORS), each)
    strata = pa.array(np.repeat([f"sensor{n}" for n in range(_SENSORS)], each), pa.string())
    identities = np.arange(len(levels), dtype=np.uint64)
    for pane in range(_PANES):
        values = random.gamma(1.0, levels) if skewed else random.normal(levels, 0.3 * levels)
        ts = np.full(len(levels), pane, np.int64)
        points = Sample.of("cpu", pane, strata, ts, identities, values)
        sample = sampling.draw(points, pane)
        average = mean(moments(sample), _CONFIDENCE)
        if average is None or average.low is None or average.high is None:
            continue
        true = float(values.mean())
        found.right += average.low <= true <= average.high
        found.errors.append(abs(average.value - true) / true)
        found.kept += len(sample.values)
        found.seen += points.seen
    return found


def _adam(what: str, series: Sequence[Floats], confidence: float) -> list[Figure]:
    saved, errors, minutes, peaks = [], [], [], []
    for values in series:
        taken = _taken(values, confidence)
        held = values[np.maximum.accumulate(np.where(taken, np.arange(len(values)), 0))]
        saved.append(1 - taken.mean())
        errors.append(_off(values, held))
        minutes.append(_off(_by_minute(values).mean(axis=1), _by_minute(held).mean(axis=1)))
        peaks.append(_off(_by_minute(values).max(axis=1), _by_minute(held).max(axis=1)))
    return [
        Figure(f"{what}: points saved", "share", saved),
        Figure(f"{what}: error of a value", "share", errors),
        Figure(f"{what}: error of AVG over a minute", "share", minutes),
        Figure(f"{what}: error of MAX over a minute", "share", peaks),
    ]


def _taken(values: Floats, confidence: float) -> npt.NDArray[np.bool_]:
    adam = Adam(Settings(1000, _LONGEST_S * 1000, confidence))
    taken = np.zeros(len(values), np.bool_)
    for second, value in enumerate(values.tolist()):
        if adam.wants(second * 1000):
            adam.feed(second * 1000, value)
            taken[second] = True
    return taken


def _by_minute(values: Floats) -> Floats:
    return values[: len(values) // 60 * 60].reshape(-1, 60)


def _off(true: Floats, found: Floats) -> float:
    return float(np.abs(true - found).mean() / np.abs(true).mean())
