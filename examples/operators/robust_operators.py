"""Operators that are robust against outliers: an example of a package of operators."""

import numpy as np


class OldTrimmedMean:
    """The trimmed mean: the mean without the lowest and the highest values.

    ``share``: the share of the values that is left out at each end. Insights that were deployed
    with this version of the operator continue to use this version.
    """

    name = "trimmed_mean"
    version = "1.0"

    def compute(self, values, *, share=0.1):
        cut = int(share * len(values))
        kept = np.sort(values)[cut : len(values) - cut]
        return kept.mean() if len(kept) else None


class TrimmedMean:
    """The trimmed mean, which leaves out at least one value at each end of three or more values."""

    name = "trimmed_mean"
    version = "2.0"

    def compute(self, values, *, share=0.1):
        cut = max(int(share * len(values)), 1 if len(values) > 2 else 0)
        kept = np.sort(values)[cut : len(values) - cut]
        return kept.mean() if len(kept) else None


class Gap:
    """The absolute difference between the medians of two metrics."""

    name = "gap"
    version = "1.0"

    def compute(self, one, other):
        return abs(np.median(one) - np.median(other))
