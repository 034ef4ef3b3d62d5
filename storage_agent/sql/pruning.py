"""The pruning of scans: Arrow determines the times and values that a pushed-down filter can match.

Arrow skips a file of a dataset if the partition expression of the file contradicts the filter. This
module makes a dataset of imaginary files whose partition expressions are ranges of times or values,
and lets Arrow select the files. Arrow may select a file that has no matching rows, but never skips
a file that has matching rows.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs

_MIN_TS, _MAX_TS = -(2**63), 2**63 - 1
_FORMAT = pads.IpcFileFormat()
_FILESYSTEM = pyarrow.fs.LocalFileSystem()
_MAX_VALUES = 64
"""The maximum number of selected values of a column; if more are selected, all values are read."""


def time_bounds(rows_filter: pads.Expression, schema: pa.Schema) -> tuple[int | None, int | None]:
    """Return the least and the greatest ``ts`` that a filter may match; None if unbounded."""
    ts = pads.field("ts")

    def any_up_to(time: int) -> bool:
        return bool(_retained(rows_filter, schema, [ts <= time]))

    def any_from(time: int) -> bool:
        return bool(_retained(rows_filter, schema, [ts >= time]))

    first, end = _MIN_TS, _MAX_TS
    while first < end:
        middle = (first + end) // 2
        first, end = (first, middle) if any_up_to(middle) else (middle + 1, end)
    start, last = _MIN_TS, _MAX_TS
    while start < last:
        middle = (start + last + 1) // 2
        start, last = (middle, last) if any_from(middle) else (start, middle - 1)
    return None if first == _MIN_TS else first, None if last == _MAX_TS else last


def matching_values(
    rows_filter: pads.Expression, schema: pa.Schema, column: str, values: Sequence[str]
) -> list[str] | None:
    """Return the values of a column that a filter may match.

    ``values``: all values of the column, sorted. None: the filter may match all values, or more
    values than a scan may list.
    """
    field = pads.field(column)
    spans = [(0, len(values))] if values else []
    while any(stop - start > 1 for start, stop in spans):
        if len(spans) > _MAX_VALUES:
            return None
        halves = [half for span in spans for half in _halves(*span)]
        guarantees = [
            (field >= values[start]) & (field <= values[stop - 1])
            if stop - start > 1
            else field == values[start]
            for start, stop in halves
        ]
        spans = [halves[number] for number in _retained(rows_filter, schema, guarantees)]
    return None if len(spans) == len(values) else [values[start] for start, _ in spans]


def _halves(start: int, stop: int) -> list[tuple[int, int]]:
    if stop - start == 1:
        return [(start, stop)]
    middle = (start + stop) // 2
    return [(start, middle), (middle, stop)]


def _retained(
    rows_filter: pads.Expression, schema: pa.Schema, guarantees: Sequence[pads.Expression]
) -> list[int]:
    files = [
        _FORMAT.make_fragment(str(number), _FILESYSTEM, partition_expression=guarantee)
        for number, guarantee in enumerate(guarantees)
    ]
    dataset = pads.FileSystemDataset(files, _without_dictionaries(schema), _FORMAT)
    return [int(file.path) for file in dataset.get_fragments(filter=rows_filter)]


def _without_dictionaries(schema: pa.Schema) -> pa.Schema:
    """Replace the dictionary columns of a schema by plain columns.

    Arrow cannot prune by conditions on dictionary columns.
    """
    return pa.schema(
        [
            field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
            for field in schema
        ]
    )
