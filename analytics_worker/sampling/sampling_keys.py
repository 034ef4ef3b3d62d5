"""Sampling keys: a hash of each point decides whether the point is in a sample.

A sample therefore depends on the points alone, not on their order, on the bounds of micro-batches
or on crashes. Samples of subsets can be merged into the sample of the union. The selection of the k
lowest keys is bottom-k sampling (Cohen and Kaplan, "Summarizing data using bottom-k sketches", PODC
2007, section 2).
"""

import hashlib

import msgspec
import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
SamplingKeys = npt.NDArray[np.uint64]

_STEP = np.uint64(0x9E3779B97F4A7C15)


def seed(*content: str | int) -> int:
    """Return a 64-bit hash of the given parts, for example of a metric and an entity.

    >>> seed("cpu", 5000, "bus1") == seed("cpu", 5000, "bus1") != seed("cpu", 5000, "bus2")
    True
    """
    return int.from_bytes(hashlib.blake2b(msgspec.json.encode(content), digest_size=8).digest())


def sampling_keys(seeds: SamplingKeys, ts: Ints, identities: SamplingKeys) -> SamplingKeys:
    """Return the sampling key of each point, practically uniform over 64 bits.

    ``seeds``: the seed of each point's stratum. ``identities`` distinguish points with equal
    stratum and time; a replay must produce the same identities. Identities are row numbers, or
    hashes of the rest of the point. Points with equal keys are all selected or all omitted.

    The mixing function is SplitMix64's (Steele, Lea and Flood, OOPSLA 2014, figure 16).
    """
    with np.errstate(over="ignore"):
        mixed = _mix(seeds + ts.view(np.uint64) * _STEP)
        return _mix(mixed + identities * _STEP)


def _mix(bits: SamplingKeys) -> SamplingKeys:
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
