"""From what stands and what is right to the rows that make up the difference."""

import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from analytics_worker.results import as_results
from mistbow.streams.schemas import RESULT_ROWS

_IDENTITY = ("insight", "key", "ts")
_SAID = ("value", "values", "low", "high", "confidence", "text", "missing")
_WITHDRAWN: dict[str, Any] = dict.fromkeys(_SAID)
_SAME = 1e-12


def differences(computed: pa.Table, stored: pa.Table, revision: int) -> pa.Table:
    """Return the rows that make ``stored`` say what ``computed`` says; shape ``RESULT_ROWS``.

    A row that should not be there is withdrawn by one without a value; one that did without
    other sites than now is told again.
    """
    right = {_identity(row): _said(row) for row in computed.to_pylist()}
    held = {_identity(row): _said(row) for row in stored.to_pylist()}
    changed = {
        identity: now
        for identity, now in right.items()
        if identity not in held or not _same(held[identity], now)
    }
    changed |= {identity: _WITHDRAWN for identity in held if identity not in right}
    columns = {
        **{name: [identity[at] for identity in changed] for at, name in enumerate(_IDENTITY)},
        **{name: [now[name] for now in changed.values()] for name in _SAID},
    }
    kinds = {name: RESULT_ROWS.field(name).type for name in columns}
    told = {name: pa.array(column, kinds[name]) for name, column in columns.items()}
    missing = told.pop("missing")
    rows = as_results(pa.table(told), revision)
    return rows.set_column(rows.column_names.index("missing"), "missing", missing)


def _said(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in _SAID}


def _same(held: dict[str, Any], now: dict[str, Any]) -> bool:
    if (held["missing"], held["text"]) != (now["missing"], now["text"]):
        return False
    return all(map(_alike, _numbers(held), _numbers(now)))


def _alike(old: list[float], new: list[float]) -> bool:
    return len(old) == len(new) and all(
        math.isclose(one, other, rel_tol=_SAME) for one, other in zip(old, new, strict=True)
    )


def _numbers(said: dict[str, Any]) -> Iterator[list[float]]:
    yield said["values"] or []
    for name in ("value", "low", "high"):
        yield [] if said[name] is None else [said[name]]


def _identity(row: dict[str, object]) -> tuple[object, ...]:
    return tuple(row[name] for name in _IDENTITY)
