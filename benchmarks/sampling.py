"""What sampling saves, how far off it is, and how often its bounds hold."""

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
from mistbow.plan.sampling import Allotted, Even, Sampling
from mistbow.sampling.adam import Adam, Settings
from mistbow.streams.schemas import DRAWN, HORIZON, POINTS

Floats = npt.NDArray[np.float64]

_PANES = 200
_SENSORS = 100
_CONFIDENCE = 0.95
_ENOUGH = _CONFIDENCE - 3 * math.sqrt(_CONFIDENCE * (1 - _CONFIDENCE) / _PANES)
_SHARE = 0.2
_MAX_ERROR = 0.05
_WIDTH_MS = 5000
_LONGEST_S = 10


def run() -> Report:
    """Sample made-up panes of 100 sensors, and recorded metrics of a host."""
    figures = [
        *_of_panes(
            f"MAX_ERROR {_MAX_ERROR}",
            Allotted(_WIDTH_MS, 1, max_error=_MAX_ERROR, confidence=_CONFIDENCE),
            at_most=0.5,
        ),
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
        f"confidence {_CONFIDENCE}. ADAM: {len(series)} series of a host, {seconds / 60:.0f} "
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


def _of_panes(what: str, sampling: Sampling, at_most: float) -> list[Figure]:
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
        Figure(
            f"{what}: the bounds hold", "share", [one.right / _PANES for one in found],
            at_least=_ENOUGH,
        ),
    ]  # fmt: skip


def _outcome(sampling: Sampling, each: int, skewed: bool) -> _Outcome:
    random, found = np.random.default_rng(7), _Outcome()
    levels = np.repeat(np.linspace(5, 60, _SENSORS), each)
    whole = Pane(id="whole", source=Source("x"), by=(), width_ms=_WIDTH_MS, contents=("sample",))
    pane = msgspec.structs.replace(whole, source=Source("x", sampling=sampling))
    known: Chances = {}
    for number in range(_PANES + 1):
        values = random.gamma(1.0, levels) if skewed else random.normal(levels, 0.3 * levels)
        batch, earlier = _batch(number, values), known
        if isinstance(sampling, Allotted):
            known = chances_of(route(batch, [whole]), pane, (number + 2) * _WIDTH_MS)
        if not number:
            continue  # nothing is known of it, so it would be read whole
        routed = route(batch, [pane], partial(_told, earlier))
        said = finish_sample("AVG", _window(routed), sampling)
        average, low, high = said.value[0].as_py(), said.low[0].as_py(), said.high[0].as_py()
        true = float(values.mean())
        found.right += low is not None and low <= true <= high
        found.errors.append(abs(average - true) / true)
        found.kept += len(routed) - routed["value"].null_count
        found.seen += len(values)
    return found


def _told(known: Chances, _pane: Pane, _period: int) -> Chances:
    return known


def _batch(number: int, values: Floats) -> pa.RecordBatch:
    each = len(values) // _SENSORS
    places = pa.array(np.repeat(np.arange(_SENSORS, dtype=np.int32), each))
    names = [f"sensor{place}" for place in range(_SENSORS)]
    steps = np.tile(np.arange(1, each + 1) * (_WIDTH_MS // each), _SENSORS)
    columns = [
        pa.DictionaryArray.from_arrays(np.zeros(len(values), np.int32), ["x"]),
        pa.DictionaryArray.from_arrays(places, names),
        pa.DictionaryArray.from_arrays(places, [f'{{"entityID":"{name}"}}' for name in names]),
        pa.array(number * _WIDTH_MS + steps),
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
