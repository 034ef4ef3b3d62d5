"""What sampling saves, how far off it is, and how often its bounds hold."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analytics_worker.sampled import finish_sample
from benchmarks.recording import recorded
from benchmarks.report import Figure, Report
from mistbow.panes.routing import route
from mistbow.panes.thinning import Chances, chances_of
from mistbow.plan.expressions import Source
from mistbow.plan.nodes import Pane
from mistbow.plan.sampling import Allotted, ByLot, Even
from mistbow.sampling.adam import Adam, Settings
from mistbow.sampling.lots import Floats, Ints
from mistbow.streams.schemas import DRAWN, HORIZON, POINTS

_PANES = 200
_SENSORS = 100
_CONFIDENCE = 0.95
_ENOUGH = _CONFIDENCE - 3 * math.sqrt(_CONFIDENCE * (1 - _CONFIDENCE) / _PANES)
_SHARE = 0.2
_MAX_ERROR = 0.05
_WIDTH_MS = 5000
_LONGEST_S = 10
_PERIOD_MS = 12 * _WIDTH_MS
_EVERY_MS = 13 * _WIDTH_MS


def run() -> Report:
    """Sample made-up panes of 100 sensors, and recorded metrics of a host."""
    figures = [
        *_of_panes(
            f"MAX_ERROR {_MAX_ERROR}",
            Allotted(_WIDTH_MS, 1, max_error=_MAX_ERROR, confidence=_CONFIDENCE),
            at_most=0.5,
        ),
        *_sliding(),
        *_of_panes(f"SAMPLE {_SHARE}", Even(_SHARE), at_most=_SHARE),
        *_of_panes(f"SAMPLE {_SHARE}, ON ACCURACY", Allotted(_WIDTH_MS, 1, _SHARE), at_most=_SHARE),
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
        f"confidence {_CONFIDENCE}. Sliding: windows of {_PERIOD_MS // 1000} s, each "
        f"{_EVERY_MS // 1000} s, of 75 sensors at 10 and 25 at 1000, a point a second in the mean, "
        "at random times; all but one in thirteen are parts of two sampling periods. "
        f"ADAM: {len(series)} series of a host, {seconds / 60:.0f} "
        f"minutes, a value a second, periods up to {_LONGEST_S} s; a value holds until the next is "
        "taken; errors relative to the series' mean. Levels: CPU, load, memory; rates: disks and "
        "networks, which come in bursts.",
        figures,
    )


@dataclass
class _Outcome:
    kept: int = 0
    seen: int = 0
    right: int = 0
    errors: list[float] = field(default_factory=list)

    def add(self, routed: pa.Table, sampling: ByLot, values: Floats) -> None:
        """Compare what is said of a window's rows (``ROUTED``) to all of its values."""
        said = finish_sample("AVG", _window(routed), sampling)
        average, low, high = said.value[0].as_py(), said.low[0].as_py(), said.high[0].as_py()
        true = float(values.mean())
        self.right += low is not None and low <= true <= high
        self.errors.append(abs(average - true) / true)
        self.kept += len(routed) - routed["value"].null_count
        self.seen += len(values)


def _of_panes(what: str, sampling: ByLot, at_most: float) -> list[Figure]:
    found = [
        _outcome(sampling, each, skewed) for each, skewed in ((10, False), (10, True), (50, True))
    ]
    kept = [one.kept / one.seen for one in found]
    errors = [float(np.quantile(one.errors, 0.95)) for one in found]
    return [
        # The goal is for the normal values; how much skewed ones need, they decide.
        Figure(f"{what}: points read", "share", kept[:1], at_most=at_most),
        Figure(f"{what}: points read, all kinds", "share", kept),
        Figure(f"{what}: relative error, p95", "share", errors),
        _hold(what, found),
    ]


def _hold(what: str, found: Sequence[_Outcome]) -> Figure:
    shares = [one.right / _PANES for one in found]
    return Figure(f"{what}: the bounds hold", "share", shares, at_least=_ENOUGH)


def _sliding() -> list[Figure]:
    what = f"MAX_ERROR {_MAX_ERROR}, sliding"
    sampling = Allotted(_PERIOD_MS, 1, max_error=_MAX_ERROR, confidence=_CONFIDENCE)
    found = _of_two_levels(sampling)
    met = sum(error <= _MAX_ERROR for error in found.errors) / _PANES
    return [
        Figure(f"{what}: points read", "share", [found.kept / found.seen], at_most=0.5),
        Figure(f"{what}: no further off than said", "share", [met], at_least=_ENOUGH),
        _hold(what, [found]),
    ]


def _of_two_levels(sampling: Allotted) -> _Outcome:
    """Sample windows that do not overlap, for each to be another case."""
    random, found = np.random.default_rng(7), _Outcome()
    whole = Pane(id="whole", source=Source("x"), by=(), width_ms=_WIDTH_MS, contents=("sample",))
    pane = msgspec.structs.replace(whole, source=Source("x", sampling=sampling))
    # Two periods more, of which nothing is known yet.
    number = (_PANES * _EVERY_MS + 2 * _PERIOD_MS) // 1000 * _SENSORS
    ts = np.sort(random.integers(1, number * 1000 // _SENSORS + 1, number))
    places = random.integers(0, _SENSORS, number)
    values = np.where(places < 75, 10.0, 1000.0) * random.normal(1, 0.05, number)
    bounds = np.searchsorted(ts, np.arange(0, ts[-1] + _PERIOD_MS, _PERIOD_MS), side="right")
    known: list[Chances] = [{}, {}]
    parts = []
    for period, (first, last) in enumerate(itertools.pairwise(bounds.tolist())):
        batch = _batch(ts[first:last], places[first:last], values[first:last])
        known.append(chances_of(route(batch, [whole]), pane, (period + 3) * _PERIOD_MS))
        parts.append(route(batch, [pane], partial(_told, known[period])))
    routed = pa.concat_tables(parts).sort_by("ts")
    read = routed["ts"].to_numpy()
    for window in range(1, _PANES + 1):
        end = 2 * _PERIOD_MS + window * _EVERY_MS
        first, last = np.searchsorted(read, [end - _PERIOD_MS, end], side="right")
        drawn = routed.slice(first, last - first)
        first, last = np.searchsorted(ts, [end - _PERIOD_MS, end], side="right")
        found.add(drawn, sampling, values[first:last])
    return found


def _outcome(sampling: ByLot, each: int, skewed: bool) -> _Outcome:
    random, found = np.random.default_rng(7), _Outcome()
    places = np.repeat(np.arange(_SENSORS), each)
    levels = np.linspace(5, 60, _SENSORS)[places]
    steps = np.tile(np.arange(1, each + 1) * (_WIDTH_MS // each), _SENSORS)
    whole = Pane(id="whole", source=Source("x"), by=(), width_ms=_WIDTH_MS, contents=("sample",))
    pane = msgspec.structs.replace(whole, source=Source("x", sampling=sampling))
    known: Chances = {}
    for number in range(_PANES + 1):
        values = random.gamma(1.0, levels) if skewed else random.normal(levels, 0.3 * levels)
        batch, earlier = _batch(number * _WIDTH_MS + steps, places, values), known
        if isinstance(sampling, Allotted):
            known = chances_of(route(batch, [whole]), pane, (number + 2) * _WIDTH_MS)
        if not number:
            continue  # nothing is known of it, so it would be read whole
        found.add(route(batch, [pane], partial(_told, earlier)), sampling, values)
    return found


def _told(known: Chances, _pane: Pane, _period: int) -> Chances:
    return known


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
    return pa.record_batch(columns, schema=POINTS.append(HORIZON))


def _window(routed: pa.Table) -> pa.Table:
    rows = routed.combine_chunks()
    draw = rows["draw"].combine_chunks()
    columns = [rows["ts"].combine_chunks(), rows["value"].combine_chunks(), *draw.flatten()]
    drawn = pa.StructArray.from_arrays(columns, fields=list(DRAWN))
    return pa.table({"sample": pa.ListArray.from_arrays([0, len(drawn)], drawn)})


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
