"""Values for each tick and key, and joins of values whose keys have different attributes."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.plan.expressions import Scalar
from analytics_worker.evaluate.finalize import FunctionValues
from analytics_worker.operators.points import Points
from analytics_worker.panes.routing import key_of

NUMBER, TEXT = pa.float64(), pa.string()

_TICK_AND_KEY = ["tick", "key"]
_IN_ORDER = [*_TICK_AND_KEY, "ts", "value"]
_decoder = msgspec.json.Decoder(dict[str, Scalar | None])


@dataclass(frozen=True, slots=True, eq=False)
class KeyedValues:
    """A value for each row (tick, key) of ``rows``; keys contain the attributes named in ``by``."""

    rows: pa.Table
    result: FunctionValues
    by: frozenset[str]

    @property
    def values(self) -> Any:
        """The value of each row; null: the value is missing."""
        return self.result.value

    def with_values(self, values: Any) -> "KeyedValues":
        """Return the same rows with the given values."""
        return replace(self, result=FunctionValues(values))

    def filter(self, chosen: Any) -> "KeyedValues":
        """Return the rows that the mask ``chosen`` selects, with their values."""
        return KeyedValues(self.rows.filter(chosen), self.result.filter(chosen), self.by)

    def project(self, by: Collection[str]) -> pa.Table:
        """Return the tick and the key of each row, with only the attributes ``by`` in the keys."""
        if self.by == by:
            return self.rows.select(_TICK_AND_KEY)
        keys = self.rows["key"].combine_chunks().dictionary_encode()
        names = sorted(by)
        short = pa.array([key_of(each, names) for each in attributes_of(keys)], pa.string())
        return pa.table({"tick": self.rows["tick"], "key": short.take(keys.indices)})

    def at(self, base: "KeyedValues") -> Any:
        """Return a column with the value, or null, at the tick and key of each row of ``base``.

        The keys of ``base`` contain at least the attributes ``by``; other attributes are ignored.
        """
        if self.rows is base.rows:
            return self.values
        numbered = base.project(self.by).append_column("row", row_numbers(base.rows))
        values = self.rows.select(_TICK_AND_KEY).append_column("value", self.values)
        joined = numbered.join(values, keys=_TICK_AND_KEY, use_threads=False)
        return joined.sort_by("row")["value"]

    def finite(self) -> "KeyedValues":
        """Return the same rows and values, with null (missing) for infinities and NaN."""
        values = self.values
        if values.type == TEXT:
            return self
        numbers = pc.if_else(pc.is_finite(values), values, pa.scalar(None, NUMBER))
        return replace(self, result=replace(self.result, value=numbers))


def join_points(rows: pa.Table, other: pa.Table) -> pa.Table:
    """Join rows of two tables that have the same tick and key.

    The column ``points_of_other`` of the result contains the points of ``other``.
    """
    numbered = rows.select(_TICK_AND_KEY).append_column("row", row_numbers(rows))
    partners = other.select(_TICK_AND_KEY).append_column("partner", row_numbers(other))
    joined = numbered.join(partners, keys=_TICK_AND_KEY, join_type="inner", use_threads=False)
    points = other["points"].take(joined["partner"])
    return rows.take(joined["row"]).append_column("points_of_other", points)


def group_values(keyed: KeyedValues, by: Collection[str]) -> tuple[pa.Table, Any]:
    """Group values by the tick and by the attributes ``by``, without nulls.

    Return (table with the tick and key of each group, column with the list of the group's values).
    """
    rows = keyed.project(by).append_column("value", keyed.values)
    valid = rows.filter(pc.is_valid(keyed.values))
    groups = valid.group_by(_TICK_AND_KEY, use_threads=False).aggregate([("value", "list")])
    return groups.select(_TICK_AND_KEY), groups["value_list"]


def group_series(
    operands: Sequence[KeyedValues], step_ms: int, by: Collection[str]
) -> dict[tuple[int, str], Points]:
    """Return (tick, key) -> the series of the operands' values, sorted by (time, value).

    ``operands``: the values of one expression at several ticks. A value of the n-th operand has the
    time of its tick minus n * ``step_ms``. Keys have the attributes ``by``; missing values are no
    points.
    """
    parts = []
    for number, keyed in enumerate(operands):
        rows = keyed.project(by).append_column("value", keyed.values)
        rows = rows.append_column("ts", pc.subtract(rows["tick"], number * step_ms))
        parts.append(rows.filter(pc.is_valid(keyed.values)))
    found = pa.concat_tables(parts).sort_by([(name, "ascending") for name in _IN_ORDER])
    groups = found.group_by(_TICK_AND_KEY, use_threads=False).aggregate(
        [("ts", "list"), ("value", "list")]
    )
    columns = (groups[name].to_pylist() for name in ("tick", "key", "ts_list", "value_list"))
    return {
        (tick, key): Points(
            np.array(ts, np.int64), np.array(values, np.float64), np.zeros(len(ts), np.int64)
        )
        for tick, key, ts, values in zip(*columns, strict=True)
    }


def attributes_of(keys: pa.DictionaryArray) -> list[dict[str, Scalar | None]]:
    """Return the attributes (name -> value) of each distinct key, in the order of ``keys``."""
    return [_decoder.decode(key) for key in keys.dictionary.to_pylist()]


def row_numbers(rows: pa.Table) -> pa.Array:
    """Return the numbers of the rows of a table, from 0 on."""
    return pa.array(range(rows.num_rows), pa.int64())
