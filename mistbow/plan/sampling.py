"""How a source is sampled.

By lot, ``mistbow.panes.thinning`` does it, and what is left out is counted. Which points are kept
depends on the stored points alone, not on panes, which are cut by what else runs: so insights that
come and go change no sample.
"""

import msgspec


class Fixed(msgspec.Struct, frozen=True, tag="fixed"):
    """At most ``size`` points of each entity and key in each ``period_ms``."""

    size: int
    period_ms: int
    confidence: float = 0.95


class Even(msgspec.Struct, frozen=True, tag="even"):
    """Each point with the same chance, the ``share``."""

    share: float
    confidence: float = 0.95


class Allotted(msgspec.Struct, frozen=True, tag="allotted"):
    """More of the points that vary more, as those of an earlier ``period_ms`` did.

    As few as bound the relative error of a window of so many ``periods``, if ``max_error`` is
    given; but, if ``share`` is, so many.
    """

    period_ms: int
    periods: float
    share: float | None = None
    max_error: float | None = None
    confidence: float = 0.95


class Adaptive(msgspec.Struct, frozen=True, tag="adaptive"):
    """By who measures, who skips what it can foretell: see ``mistbow.sampling.adaptive``."""

    confidence: float = 0.95


ByLot = Fixed | Even | Allotted
"""Points are drawn where they are read: what is left out is a matter of chance, so bounds hold."""

Sampling = ByLot | Adaptive
