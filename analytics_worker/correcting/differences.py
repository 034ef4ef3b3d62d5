"""From what stands and what is right to the rows that make up the difference."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics_worker.results import as_results

_IDENTITY = ["insight", "key", "ts"]
_TOLD = ["value", "values", "low", "high", "confidence", "text"]
_SAME = 1e-12


def differences(computed: pa.Table, stored: pa.Table, revision: int) -> pa.Table:
    """Return the rows that make ``stored`` say what ``computed`` says; both are ``RESULT_ROWS``.

    A row that should not be there is withdrawn by one without a value; one that did without
    other sites than now is told again.
    """
    met = _numbered(computed, "right").join(
        _numbered(stored, "held"), keys=_IDENTITY, join_type="full outer", use_threads=False
    )
    met = met.sort_by("ts")
    # Where there is no row on one side, all of it is null.
    now, held = computed.take(met["right"]), stored.take(met["held"])
    changed = pc.or_(
        pc.or_(pc.is_null(met["right"]), pc.is_null(met["held"])), pc.invert(_same(held, now))
    )
    told = {name: met[name] for name in _IDENTITY} | {name: now[name] for name in _TOLD}
    rows = as_results(pa.table(told).filter(changed), revision)
    missing = now["missing"].filter(changed)
    return rows.set_column(rows.column_names.index("missing"), "missing", missing)


def _numbered(rows: pa.Table, name: str) -> pa.Table:
    return rows.select(_IDENTITY).append_column(name, pa.array(np.arange(rows.num_rows)))


def _same(held: pa.Table, now: pa.Table) -> Any:
    """Return for each row whether both say the same, no nulls."""
    same = _same_lists(held["values"].combine_chunks(), now["values"].combine_chunks())
    for name in ("missing", "text"):
        same = pc.and_(same, _both(pc.equal, held[name], now[name]))
    for name in ("value", "low", "high"):
        same = pc.and_(same, _both(_alike, held[name], now[name]))
    return same


def _same_lists(held: pa.ListArray, now: pa.ListArray) -> Any:
    """Do as ``_same`` of lists of numbers; none at all is the same as an empty one."""
    lengths = (pc.fill_null(pc.list_value_length(each), 0) for each in (held, now))
    same = np.array(pc.equal(*lengths), bool)
    rows = np.flatnonzero(same)
    one, other = held.take(pa.array(rows)), now.take(pa.array(rows))
    unlike = pc.invert(_both(_alike, pc.list_flatten(one), pc.list_flatten(other)))
    same[rows[pc.list_parent_indices(one).filter(unlike).to_numpy()]] = False
    return pa.array(same)


def _alike(old: Any, new: Any) -> Any:
    most = pc.multiply(pc.max_element_wise(pc.abs(old), pc.abs(new)), _SAME)
    return pc.or_(pc.equal(old, new), pc.less_equal(pc.abs(pc.subtract(old, new)), most))


def _both(compare: Any, old: Any, new: Any) -> Any:
    """Return where two columns compare, or are both null; no nulls."""
    neither = pc.and_(pc.is_null(old), pc.is_null(new))
    return pc.or_(neither, pc.fill_null(compare(old, new), False))
