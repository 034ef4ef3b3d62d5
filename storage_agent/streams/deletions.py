"""What deletions leave of rows: found by time and key, so that many of them cost others little."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage_agent.streams.index import EARLIEST, LATEST, time_range
from storage_agent.streams.manifest import Deletion
from storage_agent.streams.runs import Int64s

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Named:
    """Rows whose keys deletions name: their places, and of each the place of its key in ``by``.

    ``by``: the positions of the deletions of each key.
    """

    places: npt.NDArray[np.intp]
    key: npt.NDArray[np.intp]
    by: list[list[int]]


class Deletions:
    """Some deletions of a stream, by the keys that they name."""

    def __init__(self, deletions: Sequence[Deletion] = ()) -> None:
        self.all = tuple(deletions)
        self._ids = _numbers([each.id for each in self.all])
        self._before = _numbers([each.before for each in self.all])
        least = [EARLIEST if each.min_ts is None else each.min_ts for each in self.all]
        most = [LATEST if each.max_ts is None else each.max_ts for each in self.all]
        self._least, self._most = _numbers(least), _numbers(most)
        self._last = max((each.id for each in self.all), default=0)
        self._end = max((each.before for each in self.all), default=0)
        self._keyless = [at for at, each in enumerate(self.all) if not each.keys]
        # By columns, and by key then.
        self._named: dict[tuple[str, ...], dict[tuple[str, ...], list[int]]] = {}
        for at, each in enumerate(self.all):
            for key in each.keys:
                self._named.setdefault(each.columns, {}).setdefault(key, []).append(at)
        self._words = {
            columns: [set(words) for words in zip(*keys, strict=True)]
            for columns, keys in self._named.items()
        }

    def __bool__(self) -> bool:
        return bool(self.all)

    def touching(self, first: int, times: tuple[int, int], purged: int = 0) -> Bools | None:
        """Tell which, of those after ``purged``, may hit rows from a number on; None: none of them.

        ``times``: the rows' least and greatest, milliseconds.
        """
        if purged >= self._last or first >= self._end:
            return None
        found: Bools = (self._ids > purged) & (self._before > first)
        found &= (self._least <= times[1]) & (self._most >= times[0])
        return found if found.any() else None

    def ids(self, found: Bools | None) -> set[int]:
        """Return the ids of those of ``touching``."""
        return set() if found is None else set(self._ids[found].tolist())

    def remaining(self, rows: pa.RecordBatch, first: int, purged: int) -> pa.BooleanArray | None:
        """Return which rows are not deleted, where all are numbered from ``first``; None: all."""
        found = self.touching(first, time_range(rows), purged) if self.all else None
        if found is None:
            return None
        hit = np.zeros(rows.num_rows, np.bool_)
        times = _times(rows)
        for at in self._keyless:
            if found[at]:
                hit |= (times >= self._least[at]) & (times <= self._most[at])
        for columns in self._named:
            if (named := self._of(columns, rows, found)) is not None:
                hit[named.places] |= self._hits(named, times[named.places])
        return pa.array(~hit) if hit.any() else None

    def hitting(self, parts: Sequence[pa.RecordBatch], first: int) -> set[int]:
        """Return the ids of those without which more of a commit's rows would be there."""
        ids: set[int] = set()
        for rows in parts:
            found = self.touching(first, time_range(rows))
            if found is None:
                continue
            some = {at for at in self._keyless if found[at]}
            for columns in self._named:
                if (named := self._of(columns, rows, found)) is not None:
                    some.update(at for each in named.by for at in each)
            # Each looks at what those before it leave.
            for at in sorted(some):
                kept = Deletions([self.all[at]]).remaining(rows, first, 0)
                if kept is not None:
                    ids.add(self.all[at].id)
                    rows = rows.filter(kept)
        return ids

    def _hits(self, named: _Named, times: Int64s) -> Bools:
        """Tell which of the rows are deleted: at first by the first of each key, and so on."""
        hit = np.zeros(len(times), np.bool_)
        for turn in range(max(map(len, named.by))):
            ats = [each[turn] if turn < len(each) else -1 for each in named.by]
            least = _numbers([LATEST if at < 0 else int(self._least[at]) for at in ats])
            most = _numbers([EARLIEST if at < 0 else int(self._most[at]) for at in ats])
            hit |= (times >= least[named.key]) & (times <= most[named.key])
        return hit

    def _of(self, columns: tuple[str, ...], rows: pa.RecordBatch, found: Bools) -> _Named | None:
        """Return the rows with keys that deletions of ``found`` name; None: there are none."""
        coded = [_coded(rows[name]) for name in columns]
        chosen = [
            np.array([word in words for word in dictionary], np.bool_)[codes]
            for (codes, dictionary), words in zip(coded, self._words[columns], strict=True)
        ]
        places = np.flatnonzero(reduce(np.logical_and, chosen))
        if not len(places):
            return None
        code = np.zeros(len(places), np.int64)
        for codes, dictionary in coded:
            code = code * len(dictionary) + codes[places]
        _, ones, key = np.unique(code, return_index=True, return_inverse=True)
        words = ([dictionary[n] for n in codes[places[ones]]] for codes, dictionary in coded)
        known = self._named[columns]
        by = [[at for at in known.get(each, ()) if found[at]] for each in zip(*words, strict=True)]
        return _Named(places, key, by) if any(by) else None


def _numbers(values: list[int]) -> Int64s:
    return np.array(values, np.int64)


def _times(rows: pa.RecordBatch) -> Int64s:
    """Return the rows' times; without any, only deletions of all times are of them."""
    if "ts" not in rows.schema.names:
        return np.zeros(rows.num_rows, np.int64)
    times: Int64s = rows["ts"].to_numpy(zero_copy_only=False)
    return times


def _coded(column: pa.Array) -> tuple[npt.NDArray[np.intp], list[str | None]]:
    """Return of each value its place in a list of words."""
    if not isinstance(column, pa.DictionaryArray):
        column = pc.dictionary_encode(column, null_encoding="encode")
    codes: npt.NDArray[np.intp] = column.indices.to_numpy(zero_copy_only=False).astype(np.intp)
    return codes, column.dictionary.to_pylist()
