"""What the rows of a results stream say once replays and corrections are settled."""

import pyarrow as pa
import pyarrow.compute as pc

_IDENTITY = ["insight", "key", "ts"]


def settle(rows: pa.Table) -> pa.Table:
    """Keep, of each (insight, key, ts), the row that counts, withdrawn ones included.

    The highest revision counts, and of equal ones the first; rows are returned by time, insight
    and key. ``rows`` must be in the order of their numbers.
    """
    numbered = rows.append_column("number", pa.array(range(rows.num_rows), pa.int64()))
    best = numbered.select([*_IDENTITY, "revision", "number"]).sort_by(
        [("revision", "descending"), ("number", "ascending")]
    )
    first = best.group_by(_IDENTITY, use_threads=False).aggregate([("number", "first")])
    kept = rows.take(first["number_first"])
    return kept.sort_by([("ts", "ascending"), ("insight", "ascending"), ("key", "ascending")])


def standing(rows: pa.Table) -> pa.Table:
    """Do as ``settle`` and leave out what is withdrawn: the results that users see."""
    settled = settle(rows)
    return settled.filter(pc.or_(pc.is_valid(settled["value"]), pc.is_valid(settled["text"])))
