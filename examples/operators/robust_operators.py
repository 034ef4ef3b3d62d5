"""Operators that take outliers less seriously: an example of a package of one's own."""

import numpy as np


class OldTrimmedMean:
    """The mean without a share of the values at either end, 0.1 if nothing is said.

    What was deployed with it goes on with it.
    """

    name = "trimmed_mean"
    version = "1.0"

    def compute(self, values, *, share=0.1):
        cut = int(share * len(values))
        kept = np.sort(values)[cut : len(values) - cut]
        return kept.mean() if len(kept) else None


class TrimmedMean:
    """The same; since this version at least one value at either end is cut, if three are there."""

    name = "trimmed_mean"
    version = "2.0"

    def compute(self, values, *, share=0.1):
        cut = max(int(share * len(values)), 1 if len(values) > 2 else 0)
        kept = np.sort(values)[cut : len(values) - cut]
        return kept.mean() if len(kept) else None


class Gap:
    """How far apart the medians of two metrics are."""

    name = "gap"
    version = "1.0"

    def compute(self, one, other):
        return abs(np.median(one) - np.median(other))
