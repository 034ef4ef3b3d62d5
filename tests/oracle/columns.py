"""SQL of columns: attributes of keys, attributes of points, and operations on two values."""

from analytics.plan.attributes import canonical
from grammar import ast
from tests.oracle.conditions import Operand, attribute


def key_column(name: str) -> str:
    """Return the name of the column that contains an attribute of the keys."""
    return f'"k:{name}"'


def key_columns(by: tuple[str, ...]) -> str:
    """Return the key columns as SQL text, with a comma before each column."""
    return "".join(f", {key_column(name)}" for name in by)


def met(by: tuple[str, ...], one: str, other: str) -> str:
    """Return the SQL condition that rows of two tables have the same tick and key."""
    return " and ".join([f"{one}.t = {other}.t", *same_keys(by, one, other)])


def same_keys(by: tuple[str, ...], one: str, other: str) -> list[str]:
    """Return SQL conditions that rows of two tables have equal keys: one for each attribute."""
    columns = map(key_column, by)
    return [f"{one}.{column} is not distinct from {other}.{column}" for column in columns]


def attribute_column(name: str) -> str:
    """Return the SQL that reads an attribute of a point as JSON text."""
    return f"json_extract(attributes::json, '$.\"{name}\"')::varchar"


def attribute_text(name: str) -> str:
    """Return the SQL that reads an attribute of a point as text; whole numbers have no ``.0``."""
    found = f"({attribute_column(name)})"
    whole = f"regexp_replace({found}, '[.]0$', '')"
    return f"case when {found}[1] = '\"' then {found}::json ->> '$' else {whole} end"


def of_point(node: ast.Expression) -> Operand:
    """Return the SQL of a name, or of the elided side, in a condition on a point.

    A name is an attribute of the point; the elided side is the value of the point.
    """
    match node:
        case ast.Elided():
            return Operand(number="value")
        case ast.Name(name):
            return attribute(f"({attribute_column(canonical(name))})")
        case _:
            raise AssertionError(node)


def by_metric(node: ast.Expression, metric: str) -> Operand:
    """Return the same as ``of_point``, except that the metric's name means the point's value."""
    return of_point(ast.Elided() if node == ast.Name(metric) else node)


def arithmetic(operator: str, left: str, right: str) -> str:
    """Return the SQL of an operator on two values, which is null where the result is undefined."""
    if operator.startswith("GEOHASH"):
        return f"geohash({left}, {right}, {operator[len('GEOHASH[') : -1]})"
    return f"(({left}) {operator} " + (f"nullif({right}, 0))" if operator == "/" else f"({right}))")
