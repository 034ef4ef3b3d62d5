"""Lots: a hash of what a point is, by which it is decided whether the point is kept.

So a sample depends on the points alone, not on their order, on the bounds of micro-batches or on a
crash between them, and samples of parts merge into the sample of the whole: where so many of the
lowest lots are kept, it is bottom-k sampling (Cohen and Kaplan, "Summarizing data using bottom-k
sketches", PODC 2007, section 2).
"""

import hashlib

import msgspec
import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Lots = npt.NDArray[np.uint64]

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
