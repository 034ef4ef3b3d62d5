"""Columns in SQL: those of keys and of attributes, and what two values come to."""

from grammar import ast
from mistbow.plan.attributes import canonical
from tests.oracle.conditions import Operand, attribute


def key_column(name: str) -> str:
    """Return the column that has an attribute of keys."""
    return f'"k:{name}"'


def key_columns(by: tuple[str, ...]) -> str:
    """Return the columns of keys, to follow others."""
    return "".join(f", {key_column(name)}" for name in by)


def met(by: tuple[str, ...], one: str, other: str) -> str:
    """Return whether rows of two tables are of the same tick and key."""
    return " and ".join([f"{one}.t = {other}.t", *same_keys(by, one, other)])


def same_keys(by: tuple[str, ...], one: str, other: str) -> list[str]:
    """Return whether rows of two tables are the same in each of the attributes."""
    columns = map(key_column, by)
    return [f"{one}.{column} is not distinct from {other}.{column}" for column in columns]


def attribute_column(name: str) -> str:
    """Return an attribute of a point, as JSON."""
    return f"json_extract(attributes::json, '$.\"{name}\"')::varchar"


def attribute_text(name: str) -> str:
    """Return an attribute of a point as a text, a whole number without its point."""
    found = f"({attribute_column(name)})"
    whole = f"regexp_replace({found}, '[.]0$', '')"
    return f"case when {found}[1] = '\"' then {found}::json ->> '$' else {whole} end"


def of_point(node: ast.Expression) -> Operand:
    """Return what a name, or the elided side, is of a point."""
    match node:
        case ast.Elided():
            return Operand(number="value")
        case ast.Name(name):
            return attribute(f"({attribute_column(canonical(name))})")
        case _:
            raise AssertionError(node)


def by_metric(node: ast.Expression, metric: str) -> Operand:
    """Do as ``of_point`` for points of a metric, whose name is that of its value."""
    return of_point(ast.Elided() if node == ast.Name(metric) else node)


def arithmetic(operator: str, left: str, right: str) -> str:
    """Return what an operator, or a function of two, makes of values: null where that is nothing.

    ``GEOHASH[n]`` makes a text of them.
    """
    if operator.startswith("GEOHASH"):
        return f"geohash({left}, {right}, {operator[len('GEOHASH[') : -1]})"
    return f"(({left}) {operator} " + (f"nullif({right}, 0))" if operator == "/" else f"({right}))")
