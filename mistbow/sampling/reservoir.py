"""Reservoirs: the same uniform sample of each stratum of a pane, however its points arrive.

Each point draws a lot, a hash of what it is, and a reservoir of size k keeps the k lowest lots of
its stratum. So a sample depends on the pane's points alone, not on their order, on the bounds of
micro-batches or on a crash between them, and samples of parts merge into the sample of the whole:
bottom-k sampling (Cohen and Kaplan, "Summarizing data using bottom-k sketches", PODC 2007,
section 2).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Lots = npt.NDArray[np.uint64]

POOL = ""
"""The stratum of all strata that have too few points to be one."""

_STEP = np.uint64(0x9E3779B97F4A7C15)


def seed_of(*content: str | int) -> int:
    """Return 64 bits that depend on the content alone: a pane, its end, a stratum.

    >>> seed_of("cpu", 5000, "bus1") == seed_of("cpu", 5000, "bus1") != seed_of("cpu", 5000, "bus2")
    True
    """
    return int.from_bytes(hashlib.blake2b(msgspec.json.encode(content), digest_size=8).digest())


def lots(seeds: Lots, ts: Ints, identities: Lots) -> Lots:
    """Return each point's lot, as good as uniform over 64 bits.

    ``seeds`` are those of the points' strata. ``identities`` tell the points of one stratum and
    time apart, and must be the same in a replay: the number of a row, or a hash of all else that
    the point carries. Points that nothing tells apart are kept or left out together.
    The mixing is SplitMix64's (Steele, Lea and Flood, OOPSLA 2014, figure 16).
    """
    with np.errstate(over="ignore"):
        mixed = _mix(seeds + ts.view(np.uint64) * _STEP)
        return _mix(mixed + identities * _STEP)


def _mix(bits: Lots) -> Lots:
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@dataclass(frozen=True, eq=False)
class Sample:
    """What is kept of a pane: of each stratum the points with the lowest lots.

    ``strata`` are sorted, and ``counts`` says how many points each had. The kept points are in the
    order of their stratum (``places`` in ``strata``), then of their lots. ``even`` says that of the
    pool the same share is kept as of the pools of other panes, on average.
    """

    strata: tuple[str, ...]
    counts: Ints
    places: Ints
    lots: Lots
    values: Floats
    even: bool = False

    @classmethod
    def of(
        cls, pane: str, end: int, strata: pa.Array, ts: Ints, identities: Lots, values: Floats
    ) -> "Sample":
        """Return all points of a pane (or of a part of it) that ends at ``end``, none left out.

        ``strata`` are words, or a dictionary of them; for ``identities`` see ``lots``.
        """
        words = strata if pa.types.is_dictionary(strata.type) else strata.dictionary_encode()
        places = words.indices.to_numpy(zero_copy_only=False)
        # A dictionary may be that of a whole stream.
        used, found = np.unique(places, return_inverse=True)
        names = words.dictionary.take(pa.array(used)).to_pylist()
        seeds = np.array([seed_of(pane, end, name) for name in names], np.uint64)
        drawn = lots(seeds[found], ts, identities)
        return _sorted(names, np.bincount(found, minlength=len(names)), found, drawn, values)

    @property
    def kept(self) -> Ints:
        """How many points of each stratum are kept."""
        return np.bincount(self.places, minlength=len(self.strata))

    @property
    def weights(self) -> Floats:
        """How many points of its stratum each kept point stands for."""
        return self.counts[self.places] / self.kept[self.places]

    @property
    def seen(self) -> int:
        """How many points there were."""
        return int(self.counts.sum())

    def cut(self, sizes: int | Ints) -> "Sample":
        """Return what reservoirs of these sizes keep; one size for all, or one for each stratum."""
        starts = np.cumsum(self.kept) - self.kept
        ranks = np.arange(len(self.places)) - starts[self.places]
        chosen = ranks < np.broadcast_to(sizes, self.counts.shape)[self.places]
        return replace(
            self,
            places=self.places[chosen],
            lots=self.lots[chosen],
            values=self.values[chosen],
        )

    def pooled(self, least: float) -> "Sample":
        """Return the sample with all strata of fewer than ``least`` points as one, the ``POOL``.

        A stratum that was cut already cannot be pooled: its points' lots are too low.
        """
        few = self.counts < least
        if np.any(few & (self.kept < self.counts)):
            raise ValueError("strata are pooled before they are cut")
        names = [POOL if alone else name for name, alone in zip(self.strata, few, strict=True)]
        return _sorted(names, self.counts, self.places, self.lots, self.values)


def merged(samples: Sequence[Sample]) -> Sample:
    """Return one sample of the points of all, which must be different points of one pane.

    Of a stratum that a part has cut, no more are kept than that part kept: among all points, only
    so many of the lowest lots are known.
    """
    names = [name for sample in samples for name in sample.strata]
    starts = np.cumsum([0, *(len(sample.strata) for sample in samples)])[:-1]
    together = _sorted(
        names,
        np.concatenate([sample.counts for sample in samples]),
        np.concatenate([s.places + start for s, start in zip(samples, starts, strict=True)]),
        np.concatenate([sample.lots for sample in samples]),
        np.concatenate([sample.values for sample in samples]),
    )
    sizes = dict(zip(together.strata, together.counts.tolist(), strict=True))
    for sample in samples:
        for name, count, kept in zip(sample.strata, sample.counts, sample.kept, strict=True):
            if kept < count:
                sizes[name] = min(sizes[name], int(kept))
    return together.cut(np.array([sizes[name] for name in together.strata], np.int64))


def _sorted(
    names: Sequence[str], counts: Ints, places: Ints, drawn: Lots, values: Floats
) -> Sample:
    """Return a sample in its order, with strata of the same name joined."""
    strata = tuple(sorted(set(names)))
    place_of = {name: place for place, name in enumerate(strata)}
    moved = np.array([place_of[name] for name in names], np.int64)
    totals = np.zeros(len(strata), np.int64)
    np.add.at(totals, moved, counts)
    at = moved[places]
    # Values too: where lots are the same, the points may differ.
    order = np.lexsort((values, drawn, at))
    return Sample(strata, totals, at[order], drawn[order], values[order])
