"""The evaluation of constants, and of expressions that depend only on the key of a row."""

from typing import Any

import pyarrow as pa

from analytics.plan.expressions import (
    Attribute,
    Derived,
    Expression,
    Measure,
    Scalar,
    is_condition,
    is_text,
    walk,
)
from analytics_worker.evaluate.keyed_values import NUMBER, TEXT, attributes_of
from analytics_worker.panes.predicates import (
    derived_list,
    holds_for,
    is_number,
    number_for,
    text_for,
)

_VALUE_FOR_ALL = {NUMBER: number_for, TEXT: text_for}


def reads_windows(expression: Expression) -> bool:
    """Return whether an expression reads windows, and so depends on more than the key of a row."""
    return any(isinstance(node, Measure) for node in walk(expression))


def is_constant(expression: Expression) -> bool:
    """Return whether an expression is a constant: it reads neither windows nor attributes."""
    return not any(isinstance(node, Measure | Attribute) for node in walk(expression))


def constant(expression: Expression, kind: pa.DataType) -> pa.Scalar:
    """Return the value of a constant expression; null if the type of the value is not ``kind``."""
    return pa.scalar(_VALUE_FOR_ALL[kind](expression, {}), kind)


def values_of_keys(expression: Expression, rows: pa.Table, kind: pa.DataType = NUMBER) -> Any:
    """Return a column with the value of an expression for each row of ``rows``.

    The expression depends only on the key of a row, so one evaluation for each distinct key is
    enough. The values of a condition are booleans; other values are null if their type is not
    ``kind``.
    """
    keys = rows["key"].combine_chunks().dictionary_encode()
    attributes = _present_attributes(keys)
    if is_condition(expression):
        values = pa.array([holds_for(expression, each) for each in attributes], pa.bool_())
    else:
        values = pa.array([_VALUE_FOR_ALL[kind](expression, each) for each in attributes], kind)
    return values.take(keys.indices)


def lists_of_keys(expression: Derived, rows: pa.Table) -> list[tuple[Scalar, ...] | None]:
    """Return the list that an operator derives from the key of each row; None without a list."""
    keys = rows["key"].combine_chunks().dictionary_encode()
    lists = [derived_list(expression, each) for each in _present_attributes(keys)]
    return [lists[index] for index in keys.indices.to_pylist()]


def _present_attributes(keys: pa.DictionaryArray) -> list[dict[str, Scalar]]:
    return [
        {name: value for name, value in each.items() if value is not None}
        for each in attributes_of(keys)
    ]


def kind_of(*compared: Expression) -> pa.DataType:
    """Return the type in which expressions are compared: text if any expression is a text."""
    return TEXT if any(map(is_text, compared)) else NUMBER


def is_of_kind(option: Scalar, kind: pa.DataType) -> bool:
    """Return whether the type of a constant is ``kind``."""
    return isinstance(option, str) if kind == TEXT else is_number(option)
