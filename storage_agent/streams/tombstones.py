"""Applies tombstones to rows; an index by time and key makes many tombstones cheap to apply."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage_agent.streams.index import EARLIEST, LATEST, time_range
from storage_agent.streams.manifest import ManifestCell, Tombstone
from storage_agent.streams.runs import Int64s

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _KeyedRows:
    """The rows of a batch that have a key of a tombstone, and these tombstones.

    The keys and the tombstones are numbered from 0; a tombstone's number is its index in
    ``Tombstones.all``. ``rows``: the numbers of the rows in the batch. ``key``: for each of these
    rows, the number of its key. ``tombstones``: for each key, the numbers of the tombstones that
    contain the key.
    """

    rows: npt.NDArray[np.intp]
    key: npt.NDArray[np.intp]
    tombstones: list[list[int]]


class Tombstones:
    """The tombstones of a stream, indexed by the keys that they contain."""

    def __init__(self, tombstones: Sequence[Tombstone] = ()) -> None:
        self.all = tuple(tombstones)
        self._ids = _int64s([each.id for each in self.all])
        self._before = _int64s([each.before for each in self.all])
        min_ts = [EARLIEST if each.min_ts is None else each.min_ts for each in self.all]
        max_ts = [LATEST if each.max_ts is None else each.max_ts for each in self.all]
        self._min_ts, self._max_ts = _int64s(min_ts), _int64s(max_ts)
        self._last = max((each.id for each in self.all), default=0)
        self._end = max((each.before for each in self.all), default=0)
        self._keyless = [at for at, each in enumerate(self.all) if not each.keys]
        # Columns -> key -> numbers of tombstones.
        self._keyed: dict[tuple[str, ...], dict[tuple[str, ...], tuple[int, ...]]] = {}
        for at, each in enumerate(self.all):
            if each.keys:
                # There may be many keys: no statement of Python runs for each of them.
                known = self._keyed.setdefault(each.columns, {})
                again = {key: (*known[key], at) for key in known.keys() & each.keys}
                known |= dict.fromkeys(each.keys, (at,))
                known |= again
        self._words = {
            columns: [set(words) for words in zip(*keys, strict=True)]
            for columns, keys in self._keyed.items()
        }

    def __bool__(self) -> bool:
        return bool(self.all)

    def may_delete_from(self, position: int) -> bool:
        """Return whether a tombstone may delete rows at ``position`` or at later positions."""
        return position < self._end

    def overlapping(self, first: int, times: tuple[int, int], applied: int = 0) -> Bools | None:
        """Return a mask of all tombstones, which is True for those that may delete rows of a batch.

        Returns None if no tombstone may delete rows. ``first``: the first position of the segment
        or run that contains the batch. ``times``: the time range of the batch (ms). ``applied``:
        tombstones with ids up to this id are already applied.
        """
        if applied >= self._last or first >= self._end:
            return None
        found: Bools = (self._ids > applied) & (self._before > first)
        found &= (self._min_ts <= times[1]) & (self._max_ts >= times[0])
        return found if found.any() else None

    def ids(self, found: Bools | None) -> set[int]:
        """Return the ids of the tombstones for which a mask of ``overlapping`` is True.

        ``found`` None: return an empty set.
        """
        return set() if found is None else set(self._ids[found].tolist())

    def mask(self, rows: pa.RecordBatch, first: int, applied: int) -> pa.BooleanArray | None:
        """Return a mask that is False for deleted rows; None: no row is deleted.

        ``first``: the first position of the segment or run that contains the rows. ``applied``:
        tombstones with ids up to this id are already applied.
        """
        found = self.overlapping(first, time_range(rows), applied) if self.all else None
        if found is None:
            return None
        hit = np.zeros(rows.num_rows, np.bool_)
        times = _times(rows)
        for at in self._keyless:
            if found[at]:
                hit |= (times >= self._min_ts[at]) & (times <= self._max_ts[at])
        for columns in self._keyed:
            if (keyed := self._find_keys(columns, rows, found)) is not None:
                hit[keyed.rows] |= self._hits(keyed, times[keyed.rows])
        return pa.array(~hit) if hit.any() else None

    def needed_by(self, batches: Sequence[pa.RecordBatch], first: int) -> set[int]:
        """Return the ids of the tombstones that delete rows of ``batches``.

        ``first``: the first position of the segment that contains the batches.
        """
        ids: set[int] = set()
        for rows in batches:
            found = self.overlapping(first, time_range(rows))
            if found is None:
                continue
            some = {at for at in self._keyless if found[at]}
            for columns in self._keyed:
                if (keyed := self._find_keys(columns, rows, found)) is not None:
                    some.update(at for each in keyed.tombstones for at in each)
            # Each tombstone is applied to the rows that the tombstones before it did not delete.
            for at in sorted(some):
                left = Tombstones([self.all[at]]).mask(rows, first, 0)
                if left is not None:
                    ids.add(self.all[at].id)
                    rows = rows.filter(left)
        return ids

    def _hits(self, keyed: _KeyedRows, times: Int64s) -> Bools:
        """Return a mask that is True for each deleted row in ``keyed``.

        ``times``: the times of these rows (ms). The n-th pass of the loop applies the n-th
        tombstone of each key.
        """
        hit = np.zeros(len(times), np.bool_)
        for turn in range(max(map(len, keyed.tombstones))):
            ats = [each[turn] if turn < len(each) else -1 for each in keyed.tombstones]
            min_ts = _int64s([LATEST if at < 0 else int(self._min_ts[at]) for at in ats])
            max_ts = _int64s([EARLIEST if at < 0 else int(self._max_ts[at]) for at in ats])
            hit |= (times >= min_ts[keyed.key]) & (times <= max_ts[keyed.key])
        return hit

    def _find_keys(
        self, columns: tuple[str, ...], rows: pa.RecordBatch, found: Bools
    ) -> _KeyedRows | None:
        """Return the rows that have a key of a tombstone; None: there are no such rows.

        The key of a row is the tuple of its values in ``columns``. Only the tombstones with these
        columns are considered. ``found``: a mask of all tombstones (``self.all``), which is False
        for tombstones to ignore.
        """
        coded = [_encode(rows[name]) for name in columns]
        chosen = [
            np.array([word in words for word in dictionary], np.bool_)[codes]
            for (codes, dictionary), words in zip(coded, self._words[columns], strict=True)
        ]
        hits = np.flatnonzero(reduce(np.logical_and, chosen))
        if not len(hits):
            return None
        code = np.zeros(len(hits), np.int64)
        for codes, dictionary in coded:
            code = code * len(dictionary) + codes[hits]
        _, ones, key = np.unique(code, return_index=True, return_inverse=True)
        words = ([dictionary[n] for n in codes[hits[ones]]] for codes, dictionary in coded)
        tombstones = self._keyed[columns]
        of_key = [
            [at for at in tombstones.get(each, ()) if found[at]]
            for each in zip(*words, strict=True)
        ]
        return _KeyedRows(hits, key, of_key) if any(of_key) else None


class TombstoneTracker:
    """The tombstones in a stream's manifest, and tombstones that the manifest dropped recently.

    A reader that began before a compaction reads the segments and runs that the compaction
    replaced. Therefore the tombstones that the compaction applied are retained until the garbage
    with the replaced data is removed. Retained tombstones are not stored, because a restart ends
    these readers.
    """

    def __init__(self, manifest: ManifestCell) -> None:
        self._manifest = manifest
        self._retained: dict[int, tuple[Tombstone, int]] = {}
        self._seen = manifest.current, self._retained
        self._current = Tombstones()

    @property
    def current(self) -> Tombstones:
        """The tombstones that readers have to apply."""
        if self._seen[0] is not self._manifest.current or self._seen[1] is not self._retained:
            self._seen = self._manifest.current, self._retained
            retained = (tombstone for tombstone, _ in self._retained.values())
            tombstones = (*self._manifest.current.tombstones, *retained)
            if tombstones != self._current.all:
                self._current = Tombstones(tombstones)
        return self._current

    def retain(self, dropped: Iterable[Tombstone]) -> None:
        """Retain tombstones that the manifest drops, until the present garbage is removed."""
        garbage = self._manifest.current.garbage
        oldest = garbage[0].since if garbage else LATEST
        self._retained = {n: each for n, each in self._retained.items() if oldest <= each[1]}
        if garbage:
            newest = max(each.since for each in garbage)
            self._retained |= {each.id: (each, newest) for each in dropped}


def _int64s(values: list[int]) -> Int64s:
    return np.array(values, np.int64)


def _times(rows: pa.RecordBatch) -> Int64s:
    """Return the time of each row; 0 if the rows have no column ``ts``.

    Only tombstones without a time range apply to rows without ``ts``.
    """
    if "ts" not in rows.schema.names:
        return np.zeros(rows.num_rows, np.int64)
    times: Int64s = rows["ts"].to_numpy(zero_copy_only=False)
    return times


def _encode(column: pa.Array) -> tuple[npt.NDArray[np.intp], list[str | None]]:
    """Dictionary-encode a column: return the code of each row, and the dictionary."""
    if isinstance(column, pa.DictionaryArray) and len(column.dictionary) > len(column):
        # The dictionary of a slice, or of an earlier version's block, has words of other rows.
        column = column.dictionary_decode()
    if not isinstance(column, pa.DictionaryArray):
        column = pc.dictionary_encode(column, null_encoding="encode")
    codes: npt.NDArray[np.intp] = column.indices.to_numpy(zero_copy_only=False).astype(np.intp)
    return codes, column.dictionary.to_pylist()
