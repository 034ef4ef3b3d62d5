"""Positions on Earth, parsed from texts."""

import math
import re

_NUMBER = r"([+-]?\d+(?:\.\d*)?)"
_POSITION = re.compile(rf"\s*[\[(]?\s*{_NUMBER}\s*[,;\s]\s*{_NUMBER}\s*[\])]?\s*")


def position_of(text: str | None) -> tuple[float, float]:
    """Return the (latitude, longitude) of a text such as ``35.1,33.4`` or ``[35.1, 33.4]``.

    Return NaN for a text of another form, and for None.

    >>> position_of("35.1,33.4"), position_of("[35.1, 33.4]"), position_of("here")
    ((35.1, 33.4), (35.1, 33.4), (nan, nan))
    """
    found = None if text is None else _POSITION.fullmatch(text)
    return (math.nan, math.nan) if found is None else (float(found[1]), float(found[2]))
