"""Series of some machines over four hours: counters that restart, gauges with gaps, and more."""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass

from mistbow.streams.json_numbers import STALE

BEGIN = 1_700_000_000_000
MINUTE = 60_000
END = BEGIN + 240 * MINUTE


@dataclass(frozen=True, slots=True)
class FleetSeries:
    """A series: metric, entity, labels, and samples (time in ms, value)."""

    metric: str
    entity: str
    labels: Mapping[str, str]
    samples: list[tuple[int, float]]


def _times(chance: random.Random, every: int, jitter: int, lost: float) -> list[int]:
    times = range(BEGIN, END, every)
    return sorted({t + chance.randint(0, jitter) for t in times if chance.random() >= lost})


def _counter(chance: random.Random, times: list[int], resets: float) -> list[tuple[int, float]]:
    value, samples = float(chance.randint(0, 50)), []
    for ts in times:
        value = float(chance.randint(0, 5)) if chance.random() < resets else value
        samples.append((ts, value))
        value += chance.choice([0, 1, 2.5, 17])
    return samples


def _gauge(chance: random.Random, times: list[int]) -> list[tuple[int, float]]:
    value, samples = chance.uniform(-20, 20), []
    for ts in times:
        samples.append((ts, round(value, 3)))
        value += chance.choice([0, chance.gauss(0, 3)])
    return samples


def _without(samples: list[tuple[int, float]], first: int, last: int) -> list[tuple[int, float]]:
    gap = range(BEGIN + first * MINUTE, BEGIN + last * MINUTE)
    return [(ts, value) for ts, value in samples if ts not in gap]


def _with_odd_values(
    chance: random.Random, samples: list[tuple[int, float]], odd: tuple[float, ...]
) -> list[tuple[int, float]]:
    """Replace the values in some sequences of one to five samples by a value of ``odd``.

    Returns the new samples.
    """
    found, left, value = [], 0, 0.0
    for ts, usual in samples:
        if not left and chance.random() < 0.04:
            left, value = chance.randint(1, 5), chance.choice(odd)
        found.append((ts, value if left else usual))
        left = max(0, left - 1)
    return found


def _odd(chance: random.Random) -> list[FleetSeries]:
    """Return series with NaN, infinities and staleness markers."""
    series = []
    kinds = {"a": (math.nan,), "b": (math.inf, -math.inf), "c": (STALE,)}
    kinds["d"] = (math.nan, math.inf, -math.inf, STALE)
    for entity, odd in kinds.items():
        labels = {"room": f"r{ord(entity) % 2}"}
        times = _times(chance, 30_000, 0, 0.05)
        gauge = _with_odd_values(chance, _gauge(chance, times), odd)
        series.append(FleetSeries("level", entity, labels, gauge))
        times = _times(chance, 15_000, 2_000, 0.05)
        counter = _with_odd_values(chance, _counter(chance, times, 0.01), odd)
        series.append(FleetSeries("work_total", entity, labels, counter))
    ended = [(BEGIN + n * MINUTE, float(n)) for n in range(100)]
    series.append(FleetSeries("ended", "a", {}, [*ended, (BEGIN + 100 * MINUTE, STALE)]))
    # Its first sample is a marker, and it comes back.
    again = [(BEGIN + n * MINUTE, STALE if n % 50 == 0 else float(n)) for n in range(120)]
    series.append(FleetSeries("ended", "b", {}, again))
    for bound, share in (("0.1", 2), ("0.5", math.nan), ("1", 7), ("+Inf", 9)):
        samples = [(BEGIN + n * MINUTE, n * share) for n in range(240)]
        samples = _with_odd_values(chance, samples, (STALE, math.nan))
        series.append(FleetSeries("odd_bucket", "a", {"le": bound}, samples))
    return series


def fleet() -> list[FleetSeries]:
    """Return all series; each call returns the same series."""
    chance = random.Random(7)  # noqa: S311
    series = []
    for entity in ("a", "b", "c"):
        for code in ("200", "500"):
            times = _times(chance, 15_000, 2_000, 0.05)
            samples = _counter(chance, times, 0.01)
            if entity == "b":
                samples = _without(samples, 70, 100)  # longer than the lookback
            series.append(FleetSeries("requests_total", entity, {"code": code}, samples))
        gauge = _gauge(chance, _times(chance, 30_000, 0, 0.0))
        if entity == "c":
            gauge = _without(gauge, 10, 14)  # shorter than it
        series.append(FleetSeries("temperature", entity, {"room": f"r{ord(entity) % 2}"}, gauge))
    slow = [(BEGIN + n * 4 * MINUTE, float(n % 5)) for n in range(60)]
    series.append(FleetSeries("slow", "a", {}, slow))
    series.append(FleetSeries("flat", "a", {}, [(BEGIN + n * MINUTE, 3.0) for n in range(240)]))
    series.append(FleetSeries("once", "b", {}, [(BEGIN + 30 * MINUTE, 42.0)]))
    series.append(
        FleetSeries(
            "limit",
            "a",
            {"room": "r1", "level": "high"},
            [(BEGIN + n * MINUTE, 10.0) for n in range(240)],
        )
    )
    series.append(
        FleetSeries(
            "limit",
            "b",
            {"room": "r0", "level": "low"},
            [(BEGIN + n * MINUTE, 5.0) for n in range(240)],
        )
    )
    for bound, share in (("0.1", 2), ("0.5", 5), ("1", 7), ("+Inf", 9)):
        samples = [(BEGIN + n * MINUTE, float(n * share)) for n in range(240)]
        series.append(FleetSeries("seconds_bucket", "a", {"le": bound}, samples))
    for bound, share in (("0.1", 2), ("0.10", 1), ("1", 7), ("1.0", 1), ("+Inf", 9)):
        samples = [(BEGIN + n * MINUTE, float(n * share)) for n in range(240)]
        series.append(FleetSeries("same_bucket", "a", {"le": bound}, samples))
    return series + _odd(chance)
