"""The unit of timestamps in requests: other units than milliseconds are refused, or converted.

A number is a time in the unit in which it is between the years 2010 and 2060. Read as milliseconds,
such a time in seconds would be between 15 January and 2 February 1970, and such a time in
microseconds or nanoseconds beyond the year 9999. All other numbers are milliseconds.
"""

from dataclasses import dataclass
from typing import Any, Literal

from mistbow.client.fields import MAX_TIMESTAMP_MS
from mistbow.errors import InvalidRequestError

TimestampUnit = Literal["ms", "auto", "unchecked"]
"""``ms``: other units are refused. ``auto``: other units are converted. ``unchecked``: every number
is milliseconds.
"""

MILLISECOND_NS = 10**6
_FIRST_S = 1_262_304_000
_END_S = 2_840_140_800
_UNITS = (("seconds", 10**9), ("milliseconds", 10**6), ("microseconds", 10**3), ("nanoseconds", 1))

SAFE_FROM_MS = _END_S
"""The least timestamp (ms) from which on, up to ``MAX_TIMESTAMP_MS``, no other unit is likely."""


@dataclass(frozen=True, slots=True)
class LikelyUnit:
    """The unit in which a number is a time of the present; ``ns``: the unit's length (ns)."""

    name: str
    ns: int

    def to_ms(self, value: float) -> int:
        """Return a time of this unit in milliseconds."""
        return value * self.ns // 10**6 if isinstance(value, int) else round(value * self.ns / 1e6)


def likely_unit(value: float) -> LikelyUnit | None:
    """Return the unit in which a number lies between the years 2010 and 2060; None: no unit.

    >>> [likely_unit(1_795_262_400 * factor).name for factor in (1, 10**3, 10**6, 10**9)]
    ['seconds', 'milliseconds', 'microseconds', 'nanoseconds']
    >>> likely_unit(86_400_000)
    """
    for name, ns in _UNITS:
        per_s = 10**9 // ns
        if _FIRST_S * per_s <= value < _END_S * per_s:
            return LikelyUnit(name, ns)
    return None


@dataclass(frozen=True, slots=True)
class Timestamps:
    """Reads the timestamps of requests; ``unit``: the setting ``timestamp_unit``."""

    unit: TimestampUnit = "ms"

    def read(self, value: float, path: str, unit_ns: int = MILLISECOND_NS) -> float:
        """Return a timestamp in milliseconds.

        ``path``: the field, for the error. ``unit_ns``: the length (ns) of the unit of the request.
        Raises ``InvalidRequestError``, which names the likely unit, for a timestamp of another
        unit, unless the setting is ``auto`` or ``unchecked``.

        >>> Timestamps("auto").read(1_795_262_400, "to")
        1795262400000
        """
        found = None if self.unit == "unchecked" else likely_unit(value)
        if found is None or found.ns == unit_ns:
            is_ms = unit_ns == MILLISECOND_NS
            return value if is_ms else LikelyUnit("", unit_ns).to_ms(value)
        if self.unit == "auto":
            return found.to_ms(value)
        expected = next((name for name, ns in _UNITS if ns == unit_ns), "minutes or hours")
        raise InvalidRequestError(
            f"{path}: {value} looks like {found.name}, and the unit is {expected}",
            hint=f"Send {found.to_ms(value)} in milliseconds, or set MISTBOW_TIMESTAMP_UNIT=auto "
            "at this service, which then converts such timestamps",
            details={"unit": found.name, "milliseconds": found.to_ms(value)},
        )

    def accepts(self, first: float, last: float) -> bool:
        """Return whether all timestamps from ``first`` to ``last`` (ms) are accepted unchanged."""
        safe = first >= SAFE_FROM_MS or last < _FIRST_S
        return self.unit == "unchecked" or (safe and last <= MAX_TIMESTAMP_MS)

    def read_fields(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a JSON body with all timestamps in milliseconds.

        The timestamps are ``from``, ``to``, and ``timestamp`` of the objects in lists. Values that
        are no numbers stay as they are. Raises ``InvalidRequestError`` as ``read`` does.

        >>> Timestamps("auto").read_fields({"to": 1_795_262_400, "key": ["a"]})
        {'to': 1795262400000, 'key': ['a']}
        """
        read = dict(fields)
        for name, value in fields.items():
            if name in ("from", "to"):
                read[name] = self._read_any(value, name)
            elif isinstance(value, list):
                read[name] = [self._read_item(item, name, n) for n, item in enumerate(value)]
        return read

    def _read_item(self, item: Any, name: str, number: int) -> Any:
        if not isinstance(item, dict) or "timestamp" not in item:
            return item
        time = self._read_any(item["timestamp"], f"{name}[{number}].timestamp")
        return {**item, "timestamp": time}

    def _read_any(self, value: Any, path: str) -> Any:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return self.read(value, path) if is_number else value
