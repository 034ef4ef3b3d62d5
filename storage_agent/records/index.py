"""Terms: the values of fields that can be compared; conditions on them, and an index of them."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import msgspec

from mistbow.errors import InvalidRequestError

Term = tuple[int, Any]
"""A rank, the same for values that compare with each other, and the value."""

_NULL, _BOOLEAN, _NUMBER, _TEXT = range(4)
_BOUNDS = ("gte", "lte")


def term_of(value: Any) -> Term | None:
    """Return what a value is compared as; None for lists and objects, which are not.

    >>> term_of(True) == term_of(1), term_of(1) == term_of(1.0)
    (False, True)
    """
    if value is None:
        return _NULL, 0
    if isinstance(value, bool):
        return _BOOLEAN, value
    if isinstance(value, int | float):
        return _NUMBER, value
    return (_TEXT, value) if isinstance(value, str) else None


def field_of(val: bytes, name: str) -> Term | None:
    """Return the term of a field of a record; None if it has none that compares."""
    try:
        value = msgspec.json.decode(val)
    except (msgspec.DecodeError, RecursionError):
        return None
    return term_of(value[name]) if isinstance(value, dict) and name in value else None


@dataclass(frozen=True, slots=True)
class Condition:
    """That a field's term is of a rank and, where these are given, within bounds, inclusive."""

    field: str
    rank: int
    least: Term | None
    greatest: Term | None

    def holds(self, term: Term | None) -> bool:
        """Tell whether a term is as it should be."""
        return (
            term is not None
            and term[0] == self.rank
            and (self.least is None or self.least <= term)
            and (self.greatest is None or term <= self.greatest)
        )


def condition(field: str, wanted: Any) -> Condition:
    """Return the condition that a ``where`` says of a field; raises ``InvalidRequestError``."""
    term = term_of(wanted)
    if term is not None:
        return Condition(field, term[0], term, term)
    hint = 'A field is to be a value, or in a range: {"gte": 1, "lte": 5}.'
    if not isinstance(wanted, dict) or not wanted or not wanted.keys() <= set(_BOUNDS):
        raise InvalidRequestError(f"where.{field}: it is neither a value nor a range", hint=hint)
    least, greatest = (term_of(wanted[name]) if name in wanted else None for name in _BOUNDS)
    ranks = {
        None if name not in wanted else (term_of(wanted[name]) or (None,))[0] for name in wanted
    }
    if len(ranks) != 1 or not ranks <= {_NUMBER, _TEXT}:
        raise InvalidRequestError(
            f"where.{field}: the ends of a range are two numbers or two texts", hint=hint
        )
    return Condition(field, (least or greatest or (_NULL, 0))[0], least, greatest)


class FieldIndex:
    """The keys of records in the order of one field's terms."""

    def __init__(self, terms: Iterable[tuple[str, Term | None]]) -> None:
        self._terms = {key: term for key, term in terms if term is not None}
        self._entries = sorted((term, key) for key, term in self._terms.items())

    def add(self, key: str, term: Term | None) -> None:
        """Take a record in."""
        if term is not None:
            self._terms[key] = term
            insort(self._entries, (term, key))

    def remove(self, key: str) -> None:
        """Forget a record."""
        term = self._terms.pop(key, None)
        if term is not None:
            del self._entries[bisect_left(self._entries, (term, key))]

    def find(self, wanted: Condition) -> list[str]:
        """Return the keys of the records for which a condition holds."""
        entries, by_term = self._entries, itemgetter(0)
        least = wanted.least or (wanted.rank,)
        begin = bisect_left(entries, least, key=by_term)
        if wanted.greatest is None:
            end = bisect_left(entries, (wanted.rank + 1,), key=by_term)
        else:
            end = bisect_right(entries, wanted.greatest, key=by_term)
        return [key for _, key in entries[begin:end]]
