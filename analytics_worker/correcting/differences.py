"""From what stands and what is right to the rows that make up the difference."""

import math

import pyarrow as pa

from analytics_worker.spark.lowering import as_results
from mistbow.streams.schemas import RESULT_ROWS

_IDENTITY = ("insight", "key", "ts")
_SAME = 1e-12


def differences(computed: pa.Table, stored: pa.Table, revision: int) -> pa.Table:
    """Return the rows that make ``stored`` say what ``computed`` says; shape ``RESULT_ROWS``.

    A row that should not be there is withdrawn by one without a value; one that did without a
    site is told again, for now it does not.
    """
    right = {_identity(row): row["value"] for row in computed.to_pylist()}
    rows = stored.to_pylist()
    held = {_identity(row): row["value"] for row in rows}
    partial = {_identity(row) for row in rows if row["missing"] is not None}
    changed = {
        identity: value
        for identity, value in right.items()
        if identity not in held
        or identity in partial
        or not math.isclose(held[identity], value, rel_tol=_SAME)
    }
    changed |= {identity: None for identity in held if identity not in right}
    composed = pa.table(
        {
            **{
                name: pa.array(
                    [identity[place] for identity in changed], RESULT_ROWS.field(name).type
                )
                for place, name in enumerate(_IDENTITY)
            },
            "value": pa.array(list(changed.values()), pa.float64()),
        }
    )
    return as_results(composed, revision)


def _identity(row: dict[str, object]) -> tuple[object, ...]:
    return tuple(row[name] for name in _IDENTITY)
