"""Converts numbers that JSON lacks to texts and back, in the spelling of Prometheus."""

import math
import struct
from collections.abc import Mapping

_STALE_BITS = bytes.fromhex("7ff0000000000002")
STALE: float = struct.unpack(">d", _STALE_BITS)[0]
"""The staleness marker: the NaN by which Prometheus marks the end of a series."""

_VALUES: Mapping[str, float] = {
    "NaN": math.nan,
    "Inf": math.inf,
    "+Inf": math.inf,
    "-Inf": -math.inf,
    "Infinity": math.inf,
    "+Infinity": math.inf,
    "-Infinity": -math.inf,
    "stale": STALE,
}


def is_stale(value: float) -> bool:
    """Return whether a value is the staleness marker.

    The staleness marker is a NaN; its bits differ from the bits of other NaN values.
    """
    return value != value and struct.pack(">d", value) == _STALE_BITS


def to_json(value: float) -> float | str:
    """Return a value in a form that JSON can represent: a finite number, or a text.

    >>> [to_json(each) for each in (1.5, math.nan, math.inf, -math.inf, STALE)]
    [1.5, 'NaN', '+Inf', '-Inf', 'stale']
    """
    if math.isfinite(value):
        return value
    if value != value:
        return "stale" if is_stale(value) else "NaN"
    return "+Inf" if value > 0 else "-Inf"


def from_json(value: float | str) -> float:
    """Return the value that a number or a text stands for; raises ``KeyError`` for other texts.

    >>> from_json("-Inf"), from_json(2), is_stale(from_json("stale"))
    (-inf, 2, True)
    """
    return _VALUES[value] if isinstance(value, str) else value
