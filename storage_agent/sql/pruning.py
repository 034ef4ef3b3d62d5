"""What a pushed-down filter leaves to be read, found by Arrow itself rather than by parsing it.

Arrow drops a file of a dataset where what is guaranteed of its rows contradicts the filter. So it
is asked about files that do not exist, each with a guarantee; it errs on the side of keeping them.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs

_LEAST, _MOST = -(2**63), 2**63 - 1
_FORMAT = pads.IpcFileFormat()
_NOWHERE = pyarrow.fs.LocalFileSystem()
_MOST_WORDS = 64
"""Where a filter leaves more values of a column than this, all are read."""


def times(rows_filter: pads.Expression, schema: pa.Schema) -> tuple[int | None, int | None]:
    """Return the least and the greatest ``ts`` that may pass; None: no bound."""
    ts = pads.field("ts")

    def any_up_to(time: int) -> bool:
        return bool(_kept(rows_filter, schema, [ts <= time]))

    def any_from(time: int) -> bool:
        return bool(_kept(rows_filter, schema, [ts >= time]))

    least, end = _LEAST, _MOST
    while least < end:
        middle = (least + end) // 2
        least, end = (least, middle) if any_up_to(middle) else (middle + 1, end)
    start, most = _LEAST, _MOST
    while start < most:
        middle = (start + most + 1) // 2
        start, most = (middle, most) if any_from(middle) else (start, middle - 1)
    return None if least == _LEAST else least, None if most == _MOST else most


def words(
    rows_filter: pads.Expression, schema: pa.Schema, column: str, known: Sequence[str]
) -> list[str] | None:
    """Return which of the ``known`` values (sorted) of a column may pass; None: all, or many."""
    field = pads.field(column)
    spans = [(0, len(known))] if known else []
    while any(stop - start > 1 for start, stop in spans):
        if len(spans) > _MOST_WORDS:
            return None
        halves = [half for span in spans for half in _halves(*span)]
        guarantees = [
            (field >= known[start]) & (field <= known[stop - 1])
            if stop - start > 1
            else field == known[start]
            for start, stop in halves
        ]
        spans = [halves[number] for number in _kept(rows_filter, schema, guarantees)]
    return None if len(spans) == len(known) else [known[start] for start, _ in spans]


def _halves(start: int, stop: int) -> list[tuple[int, int]]:
    if stop - start == 1:
        return [(start, stop)]
    middle = (start + stop) // 2
    return [(start, middle), (middle, stop)]


def _kept(
    rows_filter: pads.Expression, schema: pa.Schema, guarantees: Sequence[pads.Expression]
) -> list[int]:
    files = [
        _FORMAT.make_fragment(str(number), _NOWHERE, partition_expression=guarantee)
        for number, guarantee in enumerate(guarantees)
    ]
    dataset = pads.FileSystemDataset(files, _plain(schema), _FORMAT)
    return [int(kept.path) for kept in dataset.get_fragments(filter=rows_filter)]


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return a schema without dictionaries: Arrow compares no guarantee with those."""
    return pa.schema(
        [
            field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
            for field in schema
        ]
    )
