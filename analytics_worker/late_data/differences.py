"""The differences between stored and recomputed results, as rows to append."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics_worker.evaluate.results import as_results
from mistbow.streams.results import RESULT_IDENTITY

_VALUES = ["value", "values", "low", "high", "confidence", "text"]
_TOLERANCE = 1e-12


def differences(computed: pa.Table, stored: pa.Table, revision: int) -> pa.Table:
    """Return the rows to append so that the results in a stream equal ``computed``.

    ``stored``: the present results in the stream. ``revision``: the revision of the returned rows.
    All tables have the schema ``RESULT_ROWS``. A stored row that was not computed is withdrawn by a
    row without a value. A row whose missing sites have changed is also returned.
    """
    joined = _numbered(computed, "computed").join(
        _numbered(stored, "stored"), keys=RESULT_IDENTITY, join_type="full outer", use_threads=False
    )
    joined = joined.sort_by("ts")
    # A row that is on one side only is all null on the other.
    new, old = computed.take(joined["computed"]), stored.take(joined["stored"])
    changed = pc.or_(
        pc.or_(pc.is_null(joined["computed"]), pc.is_null(joined["stored"])),
        pc.invert(_is_same(old, new)),
    )
    columns = {name: joined[name] for name in RESULT_IDENTITY} | {
        name: new[name] for name in _VALUES
    }
    rows = as_results(pa.table(columns).filter(changed), revision)
    missing = new["missing"].filter(changed)
    return rows.set_column(rows.column_names.index("missing"), "missing", missing)


def _numbered(rows: pa.Table, name: str) -> pa.Table:
    return rows.select(RESULT_IDENTITY).append_column(name, pa.array(np.arange(rows.num_rows)))


def _is_same(old: pa.Table, new: pa.Table) -> Any:
    """Return a mask without nulls: the rows with equal results in both tables.

    Numbers are equal if they differ by rounding only.
    """
    same = _has_same_values(old["values"].combine_chunks(), new["values"].combine_chunks())
    # Workers of earlier versions stored no number of points beside an estimate.
    is_of_earlier_version = pc.and_(pc.is_valid(new["confidence"]), pc.is_null(old["values"]))
    same = pc.or_(same, is_of_earlier_version)
    for name in ("missing", "text"):
        same = pc.and_(same, _both(pc.equal, old[name], new[name]))
    for name in ("value", "low", "high"):
        same = pc.and_(same, _both(_is_close, old[name], new[name]))
    return same


def _has_same_values(old: pa.ListArray, new: pa.ListArray) -> Any:
    """Return a mask of the rows with equal lists of numbers; null equals an empty list."""
    lengths = (pc.fill_null(pc.list_value_length(each), 0) for each in (old, new))
    same = np.array(pc.equal(*lengths), bool)
    rows = np.flatnonzero(same)
    one, other = old.take(pa.array(rows)), new.take(pa.array(rows))
    differs = pc.invert(_both(_is_close, pc.list_flatten(one), pc.list_flatten(other)))
    same[rows[pc.list_parent_indices(one).filter(differs).to_numpy()]] = False
    return pa.array(same)


def _is_close(old: Any, new: Any) -> Any:
    tolerance = pc.multiply(pc.max_element_wise(pc.abs(old), pc.abs(new)), _TOLERANCE)
    return pc.or_(pc.equal(old, new), pc.less_equal(pc.abs(pc.subtract(old, new)), tolerance))


def _both(compare: Any, old: Any, new: Any) -> Any:
    """Return a mask without nulls: the rows where ``compare`` is true or both columns are null."""
    neither = pc.and_(pc.is_null(old), pc.is_null(new))
    return pc.or_(neither, pc.fill_null(compare(old, new), False))
