"""Conditions on fields of records, and indexes of records by the value of a field."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import msgspec

from mistbow.errors import InvalidRequestError
from storage_agent.records.sorted_entries import SortedEntries

Term = tuple[int, Any]
"""A value of a field as a pair of a rank, which represents the type of the value, and the value.

All terms can be compared: first by rank, and with equal ranks by value.
"""

Entry = tuple[Term, str]
"""The term of the field of a record, and the key of the record."""

_NULL, _BOOLEAN, _NUMBER, _TEXT = range(4)
_BOUNDS = ("gte", "lte")


def to_term(value: Any) -> Term | None:
    """Return the term of a value; None: the value is a list or an object, which have no order.

    >>> to_term(True) == to_term(1), to_term(1) == to_term(1.0)
    (False, True)
    """
    if value is None:
        return _NULL, 0
    if isinstance(value, bool):
        return _BOOLEAN, value
    if isinstance(value, int | float):
        return _NUMBER, value
    return (_TEXT, value) if isinstance(value, str) else None


def extract_term(val: bytes, name: str) -> Term | None:
    """Return the term of the field ``name`` of a record; None: the field is missing or has no term.

    ``val``: the value of the record as JSON.
    """
    try:
        value = msgspec.json.decode(val)
    except (msgspec.DecodeError, RecursionError):
        return None
    return to_term(value[name]) if isinstance(value, dict) and name in value else None


@dataclass(frozen=True, slots=True)
class FieldCondition:
    """The condition that the term of a field has the rank ``rank`` and is within bounds.

    ``lower``, ``upper``: inclusive bounds of the term; None if unbounded.
    """

    field: str
    rank: int
    lower: Term | None
    upper: Term | None

    def matches(self, term: Term | None) -> bool:
        """Return whether a term satisfies the condition."""
        return (
            term is not None
            and term[0] == self.rank
            and (self.lower is None or self.lower <= term)
            and (self.upper is None or term <= self.upper)
        )


def parse_condition(field: str, expected: Any) -> FieldCondition:
    """Return the condition that a query sets on a field.

    ``expected``: a value, or a range as a dict with the bounds ``gte`` and ``lte``. Raises
    ``InvalidRequestError`` for other values and for invalid bounds.
    """
    term = to_term(expected)
    if term is not None:
        return FieldCondition(field, term[0], term, term)
    hint = 'Send a value, or a range: {"gte": 1, "lte": 5}.'
    if not isinstance(expected, dict) or not expected or not expected.keys() <= set(_BOUNDS):
        raise InvalidRequestError(
            f"where.{field}: the condition is neither a value nor a range", hint=hint
        )
    lower, upper = (to_term(expected[name]) if name in expected else None for name in _BOUNDS)
    ranks = {
        None if name not in expected else (to_term(expected[name]) or (None,))[0]
        for name in expected
    }
    if len(ranks) != 1 or not ranks <= {_NUMBER, _TEXT}:
        raise InvalidRequestError(
            f"where.{field}: the bounds of a range must be all numbers or all texts", hint=hint
        )
    return FieldCondition(field, (lower or upper or (_NULL, 0))[0], lower, upper)


class FieldIndex:
    """An index that sorts the keys of records by the term of one field.

    ``terms``: pairs of a key and the term of the record's field; None: the record is not indexed.
    """

    def __init__(self, terms: Iterable[tuple[str, Term | None]] = ()) -> None:
        self._sorted = SortedEntries(sort_terms(terms), itemgetter(1))

    def set(self, key: str, term: Term | None) -> None:
        """Set the term of the record with the key ``key``; None: the record is not indexed."""
        self._sorted.set(key, None if term is None else (term, key))

    def fill(self, entries: list[Entry]) -> None:
        """Add the records that have not been set; ``entries``: the result of ``sort_terms``."""
        self._sorted.entries = entries

    async def merge(self) -> None:
        """Merge the changes in a thread if there are many."""
        await self._sorted.merge()

    def count(self, condition: FieldCondition) -> int:
        """Return about how many records satisfy a condition."""
        return len(self._span(condition)) + len(self._sorted.changes)

    def find(self, condition: FieldCondition) -> list[Entry]:
        """Return the entries of the records that satisfy a condition, in any order."""
        span = self._span(condition)
        found = list(self._sorted.unchanged(self._sorted.entries[span.start : span.stop]))
        changed = filter(None, self._sorted.changes.values())
        return [*found, *(each for each in changed if condition.matches(each[0]))]

    def _span(self, condition: FieldCondition) -> range:
        """Return the numbers of the sorted entries that satisfied a condition at the last merge."""
        entries, by_term = self._sorted.entries, itemgetter(0)
        lower = condition.lower or (condition.rank,)
        begin = bisect_left(entries, lower, key=by_term)
        if condition.upper is None:
            end = bisect_left(entries, (condition.rank + 1,), key=by_term)
        else:
            end = bisect_right(entries, condition.upper, key=by_term)
        return range(begin, end)


def sort_terms(terms: Iterable[tuple[str, Term | None]]) -> list[Entry]:
    """Return the sorted entries of an index; ``terms``: see ``FieldIndex``."""
    return sorted((term, key) for key, term in terms if term is not None)
