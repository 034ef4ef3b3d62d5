"""From what stands and what is right to the rows that make up the difference."""

import math

import pyarrow as pa

from analytics_worker.spark.lowering import as_results
from mistbow.streams.schemas import RESULT_ROWS

_IDENTITY = ("insight", "key", "ts")
_SAME = 1e-12


def differences(computed: pa.Table, stored: pa.Table, revision: int) -> pa.Table:
    """Return the rows that make ``stored`` say what ``computed`` says; shape ``RESULT_ROWS``.

    A row that should not be there is withdrawn by one without a value; one that did without
    other sites than now is told again.
    """
    right = {_identity(row): (row["value"], row["missing"]) for row in computed.to_pylist()}
    held = {_identity(row): (row["value"], row["missing"]) for row in stored.to_pylist()}
    changed: dict[tuple[object, ...], tuple[float | None, str | None]] = {
        identity: now
        for identity, now in right.items()
        if identity not in held or not _same(held[identity], now)
    }
    changed |= {identity: (None, None) for identity in held if identity not in right}
    composed = pa.table(
        {
            **{
                name: pa.array(
                    [identity[place] for identity in changed], RESULT_ROWS.field(name).type
                )
                for place, name in enumerate(_IDENTITY)
            },
            "value": pa.array([value for value, _ in changed.values()], pa.float64()),
        }
    )
    rows = as_results(composed, revision)
    missing = pa.array([missing for _, missing in changed.values()], pa.string())
    return rows.set_column(rows.column_names.index("missing"), "missing", missing)


def _same(held: tuple[float, str | None], now: tuple[float, str | None]) -> bool:
    return held[1] == now[1] and math.isclose(held[0], now[0], rel_tol=_SAME)


def _identity(row: dict[str, object]) -> tuple[object, ...]:
    return tuple(row[name] for name in _IDENTITY)
