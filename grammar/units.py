"""The units of intervals: spellings and lengths."""

import difflib

MILLIS = {"MILLIS": 1, "SECONDS": 1_000, "MINUTES": 60_000, "HOURS": 3_600_000, "DAYS": 86_400_000}
"""The length of each unit in milliseconds, shortest first."""

MAX_MILLIS = 36_500 * MILLIS["DAYS"]
"""The longest interval: 36,500 days."""

MAX_POINTS = 1_000_000_000
"""The greatest number of data points that EVERY accepts."""

_WORDS = {
    "MS": "MILLIS",
    "MILLIS": "MILLIS",
    "MILLISECOND": "MILLIS",
    "MILLISECONDS": "MILLIS",
    "SEC": "SECONDS",
    "SECOND": "SECONDS",
    "SECONDS": "SECONDS",
    "MIN": "MINUTES",
    "MINUTE": "MINUTES",
    "MINUTES": "MINUTES",
    "HOUR": "HOURS",
    "HOURS": "HOURS",
    "DAY": "DAYS",
    "DAYS": "DAYS",
}
# One-letter units are case-sensitive: m is a minute, M a million points.
_LETTERS = {"s": "SECONDS", "m": "MINUTES", "h": "HOURS", "d": "DAYS"}
_POINTS = {"K": 1_000, "M": 1_000_000}


def millis_per(unit: str) -> int | None:
    """Return a unit's length in milliseconds; None: the word is not a unit of time."""
    name = _LETTERS.get(unit) or _WORDS.get(unit.upper())
    return None if name is None else MILLIS[name]


def points_per(unit: str) -> int | None:
    """Return the number of data points in a unit; None: the word is not a unit of data points."""
    return 1 if unit.upper() in ("POINT", "POINTS") else _POINTS.get(unit)


def is_unit(word: str) -> bool:
    """Return whether a word after a number is a unit of time or of data points."""
    return millis_per(word) is not None or points_per(word) is not None


def nearest_unit(word: str) -> str | None:
    """Return the unit most similar to a misspelt word; None: no unit is similar."""
    for letter in (word.lower(), word.upper()):
        if letter in _LETTERS or letter in _POINTS:
            return letter
    near = difflib.get_close_matches(word.upper(), [*_WORDS, "POINTS"], n=1, cutoff=0.7)
    return _WORDS.get(near[0], near[0]) if near else None


def in_words(millis: int) -> str:
    """Return an interval as text in the largest unit that divides it: ``1 MINUTE`` for 60000."""
    unit = max((unit for unit in MILLIS if millis % MILLIS[unit] == 0), key=MILLIS.__getitem__)
    count = millis // MILLIS[unit]
    return f"{count} {unit.removesuffix('S') if count == 1 and unit != 'MILLIS' else unit}"
