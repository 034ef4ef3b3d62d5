"""The sampling designs of sources; ``analytics_worker.sampling.point_sampling`` draws the samples.

Points that are not selected are counted. A sample depends on the stored points alone, not on panes,
whose widths change when insights are added or removed.
"""

import msgspec


class FixedSize(msgspec.Struct, frozen=True, tag="fixed"):
    """Select at most ``size`` points of each entity and key in each period of ``period_ms``."""

    size: int
    period_ms: int
    confidence: float = 0.95


class Bernoulli(msgspec.Struct, frozen=True, tag="even"):
    """Select each point with the same probability ``share`` (Bernoulli sampling)."""

    share: float
    confidence: float = 0.95


class NeymanAllocation(msgspec.Struct, frozen=True, tag="allotted"):
    """Select points by Neyman allocation: more points of strata whose values vary more.

    The variance of a stratum is computed from the points of an earlier period of ``period_ms``.
    ``share``: the share of the points to select. ``max_error``: the bound of the relative error
    over a window of ``periods`` periods; the fewest points that satisfy the bound are selected.
    """

    period_ms: int
    periods: float
    share: float | None = None
    max_error: float | None = None
    confidence: float = 0.95


class Adaptive(msgspec.Struct, frozen=True, tag="adaptive"):
    """Let monitoring agents skip predictable values: see ``mistbow.sampling.adaptive``."""

    confidence: float = 0.95


ProbabilitySampling = FixedSize | Bernoulli | NeymanAllocation
"""The designs that select points at random when the points are read; only these designs allow error
bounds.
"""

Sampling = ProbabilitySampling | Adaptive
