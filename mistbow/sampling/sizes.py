"""How many points of each stratum to keep: a share, or as many as an error bound needs.

Sizes depend on how many points the strata have, and on what earlier panes showed, never on the
values of the pane itself, so that each sample stays uniform. What is remembered from pane to pane
(``Ledger``, ``Memory``) is data: with it, a replay draws the same samples again.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import NormalDist

import msgspec
import numpy as np

from mistbow.sampling.reservoir import Floats, Ints, Sample, seed_of
from mistbow.sampling.weighted import Moments, spreads, total

_LEAST = 2
"""Fewer points of a stratum say nothing of its variance."""
_STRATUM = 8
"""With fewer points, a stratum of its own would be kept nearly whole."""
_FADING = 0.8
"""What is left of a pane's say in a variance after a further pane."""
_FORGOTTEN = 0.1
_RAISED, _LOWERED, _MOST_MARGIN = 1.2, 0.99, 4.0
_HALVINGS = 20


class Ledger(msgspec.Struct, frozen=True):
    """How many points there were so far, and how many were kept."""

    seen: int = 0
    kept: int = 0


class Spread(msgspec.Struct, frozen=True):
    """What earlier panes showed of a stratum; ``freedom``: on how much its variance is founded."""

    mean: float
    variance: float
    freedom: float


class Memory(msgspec.Struct, frozen=True):
    """What earlier panes showed, and by how much to shoot beyond the bound to meet it."""

    strata: Mapping[str, Spread] = {}
    margin: float = 1.0


class Target(msgspec.Struct, frozen=True):
    """A bound on the relative error of a window's sum or average, and how often it must hold.

    ``panes``: how many panes the window has, between which errors even out.
    """

    max_error: float
    confidence: float
    panes: int = 1

    def __post_init__(self) -> None:
        if not (0 < self.max_error < 1 and 0 < self.confidence < 1 and self.panes >= 1):
            raise ValueError(f"max_error and confidence must be between 0 and 1: {self}")


def of_share(sample: Sample, share: float, ledger: Ledger, seed: int) -> tuple[Sample, Ledger]:
    """Return the share, in (0, 1], of a whole pane, and the ledger after it.

    Each point has the same chance; how many are kept is rounded up or down by chance, but never to
    more than the share of all that the ledger has seen. ``seed``: that of the pane and its end.
    """
    number, after = _granted(sample, share, ledger, seed)
    rate = min(share, number / max(sample.seen, 1))
    pooled = sample.pooled(_LEAST / rate if rate else math.inf)
    chosen = pooled.cut(_split(number, pooled.counts, seed_of(seed)))
    return replace(chosen, even=True), after


def of_bound(sample: Sample, target: Target, memory: Memory) -> Sample:
    """Return as few points of a whole pane as promise to meet the target (computations spared).

    What the strata need is Neyman's allocation ("On the two different aspects of the representative
    method", 1934; Cochran, "Sampling Techniques", 1977, section 5.9), for the variances of earlier
    panes; a stratum that has none yet is kept whole.
    """
    pooled = sample.pooled(_STRATUM)
    means, deviations = _expected(pooled, memory)
    off = target.max_error * abs(float((pooled.counts * means).sum())) / memory.margin
    quantile = NormalDist().inv_cdf((1 + target.confidence) / 2)
    allowed = target.panes * (off / quantile) ** 2
    known = np.isfinite(deviations)

    def holds(scale: float) -> bool:
        sizes = _allocated(scale, pooled.counts, deviations)
        left_out = pooled.counts * (pooled.counts - sizes) / np.maximum(sizes, 1)
        return float((left_out[known] * deviations[known] ** 2).sum()) <= allowed

    scale = _least_scale(holds, pooled.counts, deviations)
    return pooled.cut(_allocated(scale, pooled.counts, deviations))


def of_budget(
    sample: Sample, share: float, memory: Memory, ledger: Ledger, seed: int
) -> tuple[Sample, Ledger]:
    """Return the share of a whole pane whose error is least (accuracy spared), and the ledger.

    The share goes to the strata by Neyman's allocation; while nothing is remembered, or the share
    is too small for two points of each, as by ``of_share``.
    """
    number, after = _granted(sample, share, ledger, seed)
    pooled = sample.pooled(max(_STRATUM, _LEAST / share))
    _, deviations = _expected(pooled, memory)
    known = np.isfinite(deviations)
    if not known.any() or np.minimum(pooled.counts, _LEAST).sum() > number:
        return of_share(sample, share, ledger, seed)
    deviations[~known] = deviations[known].max()

    def enough(scale: float) -> bool:
        return int(_allocated(scale, pooled.counts, deviations).sum()) >= number

    sizes = _allocated(_least_scale(enough, pooled.counts, deviations), pooled.counts, deviations)
    # Strata that grow at the same scale grow together: the greatest give back what is too much.
    over = max(0, int(sizes.sum()) - number)
    sizes[np.argsort(-sizes, kind="stable")[:over]] -= 1
    return pooled.cut(sizes), Ledger(after.seen, ledger.kept + int(sizes.sum()))


def learned(memory: Memory, sample: Sample) -> Memory:
    """Return the memory after a pane: variances of the kept points, older ones counting less."""
    found = spreads(sample)
    strata: dict[str, Spread] = {}
    for name, spread in memory.strata.items():
        if spread.freedom * _FADING > _FORGOTTEN:
            strata[name] = Spread(spread.mean, spread.variance, spread.freedom * _FADING)
    for place, name in enumerate(sample.strata):
        kept = int(found.kept[place])
        if kept and math.isfinite(found.variances[place]):
            shown = Spread(float(found.means[place]), float(found.variances[place]), kept - 1)
            old = strata.get(name)
            strata[name] = _joined(old, shown) if old else shown
    return Memory(strata, memory.margin)


def adjusted(memory: Memory, target: Target, window: Moments) -> Memory:
    """Return the memory after a window's answer: a greater margin if its bound was missed."""
    found = total(window, target.confidence)
    if found is None or found.high is None:
        return memory
    missed = found.high - found.value > target.max_error * abs(found.value)
    margin = memory.margin * (_RAISED if missed else _LOWERED)
    return Memory(memory.strata, min(max(margin, 1.0), _MOST_MARGIN))


def _joined(old: Spread, new: Spread) -> Spread:
    freedom = old.freedom + new.freedom
    if not freedom:
        return new
    variance = (old.freedom * old.variance + new.freedom * new.variance) / freedom
    mean = (old.freedom * old.mean + (new.freedom + 1) * new.mean) / (freedom + 1)
    return Spread(mean, variance, freedom)


def _granted(sample: Sample, share: float, ledger: Ledger, seed: int) -> tuple[int, Ledger]:
    """Return how many points of the pane to keep, and the ledger if so many are kept."""
    if not 0 < share <= 1:
        raise ValueError(f"a share must be above 0 and at most 1, not {share}")
    seen = ledger.seen + sample.seen
    wanted = math.floor(share * sample.seen + seed / 2**64)
    number = max(0, min(wanted, math.floor(share * seen) - ledger.kept))
    return number, Ledger(seen, ledger.kept + number)


def _split(number: int, counts: Ints, seed: int) -> Ints:
    """Return ``number`` in whole parts, on average in proportion to the counts.

    Each part is rounded up or down so that the sum is right: systematic sampling with a random
    start (Cochran, "Sampling Techniques", 1977, section 8.1).
    """
    seen = max(1, int(counts.sum()))
    ends = (np.cumsum(counts) * number + seed % seen) // seen
    return np.diff(ends, prepend=0)


def _expected(sample: Sample, memory: Memory) -> tuple[Floats, Floats]:
    """Return the strata's means and standard deviations; 0 and infinite where nothing is known."""
    known = [memory.strata.get(name) for name in sample.strata]
    means = [spread.mean if spread else 0.0 for spread in known]
    deviations = [
        math.sqrt(spread.variance) if spread and spread.freedom else math.inf for spread in known
    ]
    return np.array(means), np.array(deviations)


def _allocated(scale: float, counts: Ints, deviations: Floats) -> Ints:
    """Return sizes in proportion to count × deviation, within what a stratum needs and has."""
    known = np.where(np.isfinite(deviations), deviations, 0.0)
    sizes = np.where(np.isfinite(deviations), np.ceil(scale * (counts * known)), counts)
    return np.clip(sizes, np.minimum(counts, _LEAST), counts).astype(np.int64)


def _least_scale(enough: Callable[[float], bool], counts: Ints, deviations: Floats) -> float:
    """Return the least scale of ``_allocated`` that is enough; if none is, one that keeps all."""
    spread = deviations[np.isfinite(deviations) & (deviations > np.finfo(float).tiny)]
    if enough(0.0) or not spread.size:
        return 0.0
    most = 1 / float(spread.min())
    # At this scale there is about one point in all; deviations may lie many magnitudes apart.
    high = 1 / (float(counts.max()) * float(spread.max()) * len(counts))
    while high < most and not enough(high):
        high *= 2
    low = high / 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
