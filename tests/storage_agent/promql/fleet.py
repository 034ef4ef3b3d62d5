"""Series of some machines over four hours: counters that restart, gauges with gaps, and more."""

import random
from collections.abc import Mapping
from dataclasses import dataclass

BEGIN = 1_700_000_000_000
MINUTE = 60_000
END = BEGIN + 240 * MINUTE


@dataclass(frozen=True, slots=True)
class Fleet:
    """A metric's samples for one entity: milliseconds and values."""

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


def fleet() -> list[Fleet]:
    """Return all series, always the same."""
    chance = random.Random(7)  # noqa: S311
    series = []
    for entity in ("a", "b", "c"):
        for code in ("200", "500"):
            times = _times(chance, 15_000, 2_000, 0.05)
            samples = _counter(chance, times, 0.01)
            if entity == "b":
                samples = _without(samples, 70, 100)  # longer than the lookback
            series.append(Fleet("requests_total", entity, {"code": code}, samples))
        gauge = _gauge(chance, _times(chance, 30_000, 0, 0.0))
        if entity == "c":
            gauge = _without(gauge, 10, 14)  # shorter than it
        series.append(Fleet("temperature", entity, {"room": f"r{ord(entity) % 2}"}, gauge))
    slow = [(BEGIN + n * 4 * MINUTE, float(n % 5)) for n in range(60)]
    series.append(Fleet("slow", "a", {}, slow))
    series.append(Fleet("flat", "a", {}, [(BEGIN + n * MINUTE, 3.0) for n in range(240)]))
    series.append(Fleet("once", "b", {}, [(BEGIN + 30 * MINUTE, 42.0)]))
    series.append(
        Fleet(
            "limit",
            "a",
            {"room": "r1", "level": "high"},
            [(BEGIN + n * MINUTE, 10.0) for n in range(240)],
        )
    )
    series.append(
        Fleet(
            "limit",
            "b",
            {"room": "r0", "level": "low"},
            [(BEGIN + n * MINUTE, 5.0) for n in range(240)],
        )
    )
    for bound, share in (("0.1", 2), ("0.5", 5), ("1", 7), ("+Inf", 9)):
        samples = [(BEGIN + n * MINUTE, float(n * share)) for n in range(240)]
        series.append(Fleet("seconds_bucket", "a", {"le": bound}, samples))
    return series
