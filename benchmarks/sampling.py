"""Benchmark of sampling: saved points, errors, and the coverage of confidence bounds."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analytics.plan.expressions import Source
from analytics.plan.nodes import Pane
from analytics.plan.sampling import Bernoulli, NeymanAllocation, ProbabilitySampling
from analytics_worker.evaluate.sample_estimates import finalize_sample
from analytics_worker.panes.routing import route
from analytics_worker.sampling.point_sampling import Chances, stratum_chances
from analytics_worker.sampling.sampling_keys import Floats, Ints
from benchmarks.host_recording import read_recording
from benchmarks.report import Figure, Report
from mistbow.streams.schemas import POINTS, ROW_FRONTIER, SAMPLED_POINT
from monitoring_agent.adam import Adam, Settings

_PANES = 200
_SENSORS = 100
_CONFIDENCE = 0.95
_MIN_COVERAGE = _CONFIDENCE - 3 * math.sqrt(_CONFIDENCE * (1 - _CONFIDENCE) / _PANES)
_SHARE = 0.2
_MAX_ERROR = 0.05
_WIDTH_MS = 5000
_MAX_PERIOD_S = 10
_PERIOD_MS = 12 * _WIDTH_MS
_EVERY_MS = 13 * _WIDTH_MS


def run() -> Report:
    """Measure sampling with synthetic panes of 100 sensors, and with recorded metrics of a host."""
    figures = [
        *_pane_figures(
            f"MAX_ERROR {_MAX_ERROR}",
            NeymanAllocation(_WIDTH_MS, 1, max_error=_MAX_ERROR, confidence=_CONFIDENCE),
            at_most=0.5,
        ),
        *_sliding_figures(),
        *_pane_figures(f"SAMPLE {_SHARE}", Bernoulli(_SHARE), at_most=_SHARE),
        *_pane_figures(
            f"SAMPLE {_SHARE}, ON ACCURACY", NeymanAllocation(_WIDTH_MS, 1, _SHARE), at_most=_SHARE
        ),
    ]
    series = read_recording()
    for confidence in (0.95, 0.9, 0.8):
        for kind, rates in (("levels", False), ("rates", True)):
            chosen = [values for name, values in series.items() if (".rate " in name) == rates]
            figures += _adam_figures(
                f"ADAM AND CONFIDENCE {confidence}, {kind}", chosen, confidence
            )
    seconds = max(len(values) for values in series.values())
    return Report(
        "Sampling",
        f"{_PANES} panes of {_SENSORS} sensors with 10 points each, whose levels go from 5 to 60; "
        "values normal, gamma (skewed) and gamma with 50 points each. Bounds of the average at "
        f"confidence {_CONFIDENCE}. Sliding: windows of {_PERIOD_MS // 1000} s, each "
        f"{_EVERY_MS // 1000} s, of 75 sensors at 10 and 25 at 1000, a point a second in the mean, "
        "at random times; all but one in thirteen are parts of two sampling periods. "
        f"ADAM: {len(series)} series of a host, {seconds / 60:.0f} "
        f"minutes, a value a second, periods up to {_MAX_PERIOD_S} s; a value holds until the "
        "next sample; errors relative to the series' mean. Levels: CPU, load, memory; rates: disks "
        "and networks, which come in bursts.",
        figures,
    )


@dataclass
class _Coverage:
    read: int = 0
    total: int = 0
    covered: int = 0
    errors: list[float] = field(default_factory=list)

    def add(self, routed: pa.Table, sampling: ProbabilitySampling, values: Floats) -> None:
        """Compare the estimate from a window's rows (``ROUTED``) with all values; record the
        result.
        """
        estimate = finalize_sample("AVG", _window(routed), sampling)
        average, low, high = (
            estimate.value[0].as_py(),
            estimate.low[0].as_py(),
            estimate.high[0].as_py(),
        )
        true = float(values.mean())
        self.covered += low is not None and low <= true <= high
        self.errors.append(abs(average - true) / true)
        self.read += len(routed) - routed["value"].null_count
        self.total += len(values)


def _pane_figures(what: str, sampling: ProbabilitySampling, at_most: float) -> list[Figure]:
    found = [
        _cover_panes(sampling, each, skewed)
        for each, skewed in ((10, False), (10, True), (50, True))
    ]
    read = [one.read / one.total for one in found]
    errors = [float(np.quantile(one.errors, 0.95)) for one in found]
    return [
        # The goal applies to normal values; skewed values need larger samples.
        Figure(f"{what}: points read", "share", read[:1], at_most=at_most),
        Figure(f"{what}: points read, all kinds", "share", read),
        Figure(f"{what}: relative error, p95", "share", errors),
        _coverage_figure(what, found),
    ]


def _coverage_figure(what: str, found: Sequence[_Coverage]) -> Figure:
    shares = [one.covered / _PANES for one in found]
    return Figure(f"{what}: coverage of the bounds", "share", shares, at_least=_MIN_COVERAGE)


def _sliding_figures() -> list[Figure]:
    what = f"MAX_ERROR {_MAX_ERROR}, sliding"
    sampling = NeymanAllocation(_PERIOD_MS, 1, max_error=_MAX_ERROR, confidence=_CONFIDENCE)
    found = _cover_windows(sampling)
    met = sum(error <= _MAX_ERROR for error in found.errors) / _PANES
    return [
        Figure(f"{what}: points read", "share", [found.read / found.total], at_most=0.5),
        Figure(f"{what}: error within MAX_ERROR", "share", [met], at_least=_MIN_COVERAGE),
        _coverage_figure(what, [found]),
    ]


def _cover_windows(sampling: NeymanAllocation) -> _Coverage:
    """Return the coverage for non-overlapping windows, whose samples are independent."""
    random, found = np.random.default_rng(7), _Coverage()
    whole = Pane(id="whole", source=Source("x"), by=(), width_ms=_WIDTH_MS, contents=("sample",))
    pane = msgspec.structs.replace(whole, source=Source("x", sampling=sampling))
    # Two more periods, without known variances.
    number = (_PANES * _EVERY_MS + 2 * _PERIOD_MS) // 1000 * _SENSORS
    ts = np.sort(random.integers(1, number * 1000 // _SENSORS + 1, number))
    places = random.integers(0, _SENSORS, number)
    values = np.where(places < 75, 10.0, 1000.0) * random.normal(1, 0.05, number)
    bounds = np.searchsorted(ts, np.arange(0, ts[-1] + _PERIOD_MS, _PERIOD_MS), side="right")
    chances: list[Chances] = [{}, {}]
    parts = []
    for period, (first, last) in enumerate(itertools.pairwise(bounds.tolist())):
        batch = _batch(ts[first:last], places[first:last], values[first:last])
        chances.append(stratum_chances(route(batch, [whole]), pane, (period + 3) * _PERIOD_MS))
        parts.append(route(batch, [pane], partial(_known_chances, chances[period])))
    routed = pa.concat_tables(parts).sort_by("ts")
    read = routed["ts"].to_numpy()
    for window in range(1, _PANES + 1):
        end = 2 * _PERIOD_MS + window * _EVERY_MS
        first, last = np.searchsorted(read, [end - _PERIOD_MS, end], side="right")
        drawn = routed.slice(first, last - first)
        first, last = np.searchsorted(ts, [end - _PERIOD_MS, end], side="right")
        found.add(drawn, sampling, values[first:last])
    return found


def _cover_panes(sampling: ProbabilitySampling, each: int, skewed: bool) -> _Coverage:
    random, found = np.random.default_rng(7), _Coverage()
    places = np.repeat(np.arange(_SENSORS), each)
    levels = np.linspace(5, 60, _SENSORS)[places]
    steps = np.tile(np.arange(1, each + 1) * (_WIDTH_MS // each), _SENSORS)
    whole = Pane(id="whole", source=Source("x"), by=(), width_ms=_WIDTH_MS, contents=("sample",))
    pane = msgspec.structs.replace(whole, source=Source("x", sampling=sampling))
    chances: Chances = {}
    for number in range(_PANES + 1):
        values = random.gamma(1.0, levels) if skewed else random.normal(levels, 0.3 * levels)
        batch, earlier = _batch(number * _WIDTH_MS + steps, places, values), chances
        if isinstance(sampling, NeymanAllocation):
            chances = stratum_chances(route(batch, [whole]), pane, (number + 2) * _WIDTH_MS)
        if not number:
            continue  # without known variances, the pane is read whole
        found.add(route(batch, [pane], partial(_known_chances, earlier)), sampling, values)
    return found


def _known_chances(chances: Chances, _pane: Pane, _period: int) -> Chances:
    return chances


def _batch(ts: Ints, places: Ints, values: Floats) -> pa.RecordBatch:
    numbers = pa.array(places.astype(np.int32))
    names = [f"sensor{place}" for place in range(_SENSORS)]
    columns = [
        pa.DictionaryArray.from_arrays(np.zeros(len(values), np.int32), ["x"]),
        pa.DictionaryArray.from_arrays(numbers, names),
        pa.DictionaryArray.from_arrays(numbers, [f'{{"entityID":"{name}"}}' for name in names]),
        pa.array(ts),
        pa.array(values),
        pa.array(np.full(len(values), -1)),
    ]
    return pa.record_batch(columns, schema=POINTS.append(ROW_FRONTIER))


def _window(routed: pa.Table) -> pa.Table:
    rows = routed.combine_chunks()
    draw = rows["draw"].combine_chunks()
    columns = [rows["ts"].combine_chunks(), rows["value"].combine_chunks(), *draw.flatten()]
    drawn = pa.StructArray.from_arrays(columns, fields=list(SAMPLED_POINT))
    return pa.table({"sample": pa.ListArray.from_arrays([0, len(drawn)], drawn)})


def _adam_figures(what: str, series: Sequence[Floats], confidence: float) -> list[Figure]:
    saved, errors, minutes, peaks = [], [], [], []
    for values in series:
        sampled = _sampled(values, confidence)
        reconstructed = values[np.maximum.accumulate(np.where(sampled, np.arange(len(values)), 0))]
        saved.append(1 - sampled.mean())
        errors.append(_relative_error(values, reconstructed))
        minutes.append(
            _relative_error(_by_minute(values).mean(axis=1), _by_minute(reconstructed).mean(axis=1))
        )
        peaks.append(
            _relative_error(_by_minute(values).max(axis=1), _by_minute(reconstructed).max(axis=1))
        )
    return [
        Figure(f"{what}: points saved", "share", saved),
        Figure(f"{what}: error of a value", "share", errors),
        Figure(f"{what}: error of AVG over a minute", "share", minutes),
        Figure(f"{what}: error of MAX over a minute", "share", peaks),
    ]


def _sampled(values: Floats, confidence: float) -> npt.NDArray[np.bool_]:
    adam = Adam(Settings(1000, _MAX_PERIOD_S * 1000, confidence))
    sampled = np.zeros(len(values), np.bool_)
    for second, value in enumerate(values.tolist()):
        if adam.is_due(second * 1000):
            adam.advance(second * 1000, value)
            sampled[second] = True
    return sampled


def _by_minute(values: Floats) -> Floats:
    return values[: len(values) // 60 * 60].reshape(-1, 60)


def _relative_error(true: Floats, found: Floats) -> float:
    return float(np.abs(true - found).mean() / np.abs(true).mean())
