"""Arrow columns: what is done to them often enough to be done fast."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def as_list(column: pa.Array) -> list[Any]:
    """Return the values of a column without nulls.

    By way of NumPy, and of a dictionary each word once: a fortieth of what ``to_pylist`` takes.
    """
    if isinstance(column, pa.DictionaryArray) and len(column.dictionary) <= len(column):
        words = column.dictionary.to_pylist()
        return [words[code] for code in column.indices.to_numpy().tolist()]
    values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
    return values


def is_in(column: pa.Array, values: pa.Array) -> pa.Array:
    """Tell of each row whether its value is one of ``values``."""
    if not isinstance(column, pa.DictionaryArray):
        return pc.is_in(column, values)
    # Each word is looked at once, however many rows have it.
    return pc.is_in(column.dictionary, values).take(column.indices)


def index_in(column: pa.Array, values: pa.Array) -> pa.Array:
    """Return of each row the place of its value in ``values``, null if it is none of them."""
    if not isinstance(column, pa.DictionaryArray):
        return pc.index_in(column, values)
    return pc.index_in(column.dictionary, values).take(column.indices)


@dataclass(frozen=True, slots=True)
class Columns:
    """Rows that are not in Arrow's form yet, column by column.

    Making Arrow arrays takes much longer than filling them: it is done once for a whole commit.
    """

    schema: pa.Schema
    values: tuple[list[Any], ...]

    @property
    def num_rows(self) -> int:
        """How many rows these are."""
        return len(self.values[0])


def size_of(rows: pa.RecordBatch | Columns) -> int:
    """Return about how many bytes rows take; of a dictionary each word once.

    >>> size_of(Columns(pa.schema([("val", pa.string())]), (["ab", "ab", None],)))
    100
    """
    if not isinstance(rows, Columns):
        return int(rows.get_total_buffer_size())
    size = 32 * rows.num_rows
    for values, kind in zip(rows.values, rows.schema.types, strict=True):
        if pa.types.is_dictionary(kind):
            size += sum(map(_length, filter(None, set(values))))
        elif pa.types.is_string(kind):
            size += sum(map(_length, filter(None, values)))
    return size


def _length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def as_batch(parts: Sequence[pa.RecordBatch | Columns]) -> pa.RecordBatch:
    """Return rows of one schema, in whichever form they are, as one batch."""
    if all(isinstance(part, Columns) for part in parts):
        return _made(parts)
    batches = [_made([part]) if isinstance(part, Columns) else part for part in parts]
    return pa.concat_batches(batches) if len(batches) > 1 else batches[0]


def _made(parts: Sequence[Columns]) -> pa.RecordBatch:
    schema = parts[0].schema
    columns = (
        list(chain.from_iterable(each)) for each in zip(*(p.values for p in parts), strict=True)
    )
    arrays = [pa.array(values, kind) for values, kind in zip(columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class Keys:
    """Some keys, each of one value a column, to be looked for in rows."""

    def __init__(self, keys: Collection[Sequence[str]]) -> None:
        self._words = [
            pa.array(sorted(set(words)), pa.string()) for words in zip(*keys, strict=True)
        ]
        every = 1
        for words in self._words:
            every *= len(words)
        self._codes: pa.Array | None = None
        # Where every pairing of these words is wanted, looking at each word will do.
        if every > len(set(map(tuple, keys))):
            columns = zip(*keys, strict=True)
            self._codes = self._coded([pa.array(column, pa.string()) for column in columns])

    def among(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Return of each row whether its key is one of these."""
        chosen = is_in(columns[0], self._words[0])
        for column, words in zip(columns[1:], self._words[1:], strict=True):
            chosen = pc.and_(chosen, is_in(column, words))
        if self._codes is None or not pc.any(chosen).as_py():
            return chosen
        return pc.is_in(self._coded(columns), self._codes)

    def _coded(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Return a number for each key of wanted words, null for others."""
        code = index_in(columns[0], self._words[0]).cast(pa.int64())
        for column, words in zip(columns[1:], self._words[1:], strict=True):
            place = index_in(column, words).cast(pa.int64())
            code = pc.add(pc.multiply(code, len(words)), place)
        return code
