"""What adaptive sampling is asked to do, and how its points say how long their values stand.

Who samples adaptively gives each point two labels, ``holds_ms`` and ``every_ms``: no other value is
taken for so long, where else there is one so often. Where all values are sent all the same, those
that were not needed hold for 0 ms. So what was left out is decided once, where it is measured, and
every reader and every replay finds the same.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from mistbow.plan.sampling import Adaptive

STREAM = "sampling"
"""The stream of each site whose notes say, by the site of an enabler, what this one asks for."""

HOLDS = "holds_ms"
EVERY = "every_ms"

MOST = 100
"""A value stands for so many at most."""

_SHARE = 6
"""A value stands for no more than such a part of a window, which so holds some of each series."""


class Asked(msgspec.Struct, frozen=True):
    """How a metric is to be sampled: how surely, and how long (ms) a value may stand at most.

    ``whole``: all values are needed too, so what may be left out is marked only.
    """

    confidence: float
    longest_ms: int
    whole: bool = False

    @classmethod
    def over(cls, sampling: Adaptive, window_ms: int) -> "Asked":
        """Return what a window over such a source asks for."""
        return cls(sampling.confidence, window_ms // _SHARE)

    def __and__(self, other: "Asked") -> "Asked":
        """Return what satisfies both.

        >>> Asked(0.9, 1000) & Asked(0.8, 500, whole=True)
        Asked(confidence=0.9, longest_ms=500, whole=True)
        """
        return Asked(
            max(self.confidence, other.confidence),
            min(self.longest_ms, other.longest_ms),
            self.whole or other.whole,
        )


def confidences(text: str) -> dict[str, float]:
    """Return the confidence of each pattern of metrics; raises ``ValueError`` for another form.

    >>> confidences("cpu.*=0.9, memory.util=0.95")
    {'cpu.*': 0.9, 'memory.util': 0.95}
    """
    found = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        pattern, _, confidence = part.rpartition("=")
        try:
            found[pattern.strip()] = float(confidence)
        except ValueError:
            pattern = ""
        if not pattern.strip() or not 0 < found[pattern.strip()] < 1:
            raise ValueError(f"{part} is not of the form METRIC=CONFIDENCE, as cpu.*=0.9")
    return found


def both(one: Mapping[str, Asked], other: Mapping[str, Asked]) -> dict[str, Asked]:
    """Return, by metric, what satisfies two that ask."""
    joined = dict(one)
    for metric, asked in other.items():
        joined[metric] = joined[metric] & asked if metric in joined else asked
    return joined


def asked_in(notes: Mapping[str, Any]) -> dict[str, Asked]:
    """Return what all enablers together ask for in the notes of a site's stream ``sampling``.

    A note that is none of theirs asks for nothing.
    """
    found: dict[str, Asked] = {}
    for note in notes.values():
        try:
            asked = msgspec.convert(note, dict[str, Asked])
        except msgspec.ValidationError:
            continue
        found = both(found, {m: a for m, a in asked.items() if 0 < a.confidence < 1})
    return found


def stands_for(attributes: Mapping[str, Any]) -> int:
    """Return for how many values a point with these attributes stands: 1 if it does not say.

    >>> [stands_for({"holds_ms": holds, "every_ms": 1000}) for holds in (3000, 1000, 0, "long")]
    [3, 1, 0, 1]
    """
    holds, every = attributes.get(HOLDS), attributes.get(EVERY)
    if not isinstance(holds, int | float) or not isinstance(every, int | float):
        return 1
    if holds < 0 or every <= 0:
        return 1
    return 0 if holds == 0 else min(max(1, round(holds / every)), MOST)
