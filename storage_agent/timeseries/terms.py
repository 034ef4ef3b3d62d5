"""The parts of the index of series: numbered terms, growable columns, and postings."""

from array import array
from collections.abc import Hashable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T", bound=Hashable)

_MIN_SIZE = 1024


class Column:
    """A growable array of numbers that are 0 at first.

    ``array``: for operations on many items. ``view``: reads and writes a single item five times as
    fast as ``array``. ``grow`` replaces both, and leaves earlier references to them unchanged.
    """

    def __init__(self, kind: type[np.generic]) -> None:
        self.array: npt.NDArray[Any] = np.zeros(_MIN_SIZE, kind)
        self.view: Any = self.array.data

    def grow(self, size: int) -> None:
        """Extend the column to at least ``size`` items."""
        if size > len(self.array):
            # Zeros take no memory before they are written.
            grown = np.zeros(max(size, 2 * len(self.array)), self.array.dtype)
            grown[: len(self.array)] = self.array
            self.array, self.view = grown, grown.data


class Terms(Generic[T]):
    """Distinct values, each with a number from 1 on, and with the number of its uses.

    A value without uses is removed, and its number is given to a later value. ``values``: the value
    of each number; None: the number is free. ``numbers``: value -> number.
    """

    def __init__(self) -> None:
        self.values: list[T | None] = [None]
        self.uses = array("q", [0])
        self.numbers: dict[T, int] = {}
        self._free = array("q")

    def __len__(self) -> int:
        return len(self.numbers)

    def number(self, value: T) -> int:
        """Return the number of a value; 0: the value has no uses."""
        return self.numbers.get(value, 0)

    def acquire(self, value: T) -> int:
        """Add one use of a value; return the number of the value."""
        number = self.numbers.get(value, 0)
        if not number:
            if self._free:
                number = self._free.pop()
                self.values[number] = value
            else:
                number = len(self.values)
                self.values.append(value)
                self.uses.append(0)
            self.numbers[value] = number
        self.uses[number] += 1
        return number

    def release(self, number: int) -> None:
        """Remove one use of the value with a number."""
        self.uses[number] -= 1
        if not self.uses[number]:
            value = self.values[number]
            if value is not None:
                del self.numbers[value]
            self.values[number] = None
            self._free.append(number)


class Postings:
    """The numbers of the series that have a term: a doubly linked list for each term.

    The links are two columns of integers, so that each series takes eight bytes, and adding and
    removing a series takes a constant time. 0 ends a list.
    """

    def __init__(self) -> None:
        self._first = array("i", [0])
        self._next = Column(np.int32)
        self._before = Column(np.int32)

    def grow(self, size: int) -> None:
        """Reserve space for series with numbers below ``size``."""
        self._next.grow(size)
        self._before.grow(size)

    def add(self, term: int, number: int) -> None:
        """Add a series to the list of a term."""
        while term >= len(self._first):
            self._first.append(0)
        first = self._first[term]
        self._next.view[number], self._before.view[number] = first, 0
        if first:
            self._before.view[first] = number
        self._first[term] = number

    def remove(self, term: int, number: int) -> None:
        """Remove a series from the list of a term."""
        after, before = self._next.view[number], self._before.view[number]
        if after:
            self._before.view[after] = before
        if before:
            self._next.view[before] = after
        else:
            self._first[term] = after

    def of_term(self, term: int) -> Iterator[int]:
        """Yield the numbers of the series that have a term."""
        number = self._first[term]
        while number:
            yield number
            number = self._next.view[number]
