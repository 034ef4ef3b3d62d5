"""Builds the SQL query of an insight, with a table expression for each part of the insight."""

# ruff: noqa: S608 - the texts are drawn in tests
from dataclasses import dataclass, field

from tests.oracle.columns import arithmetic, key_column, key_columns, met
from tests.oracle.functions import Formula

NO_LISTS = "null::double[] as vals, null::double as low, null::double as high"


@dataclass(frozen=True, slots=True)
class Rows:
    """A table expression with a row for each value.

    The columns are ``t`` (the tick), the attributes ``by`` of the key, ``v`` (the value), ``m``
    (the bound of the intermediate values), ``vals`` (a list of values), ``low`` and ``high``.
    ``name``: the name of the table expression. ``texts``: whether the values are texts instead of
    numbers.
    """

    name: str
    by: tuple[str, ...]
    texts: bool = False


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant, as an SQL expression."""

    sql: str


@dataclass(frozen=True, slots=True)
class Tables:
    """The table expressions of an insight; each expression uses only earlier expressions."""

    parts: list[str] = field(default_factory=list)

    def made(self, sql: str, by: tuple[str, ...], *, texts: bool = False) -> Rows:
        """Add and return a table expression with the rows of the query ``sql``.

        Rows without a value are omitted. ``by``, ``texts``: as in ``Rows``.
        """
        name, has_value = f"r{len(self.parts)}", "v is not null" if texts else "isfinite(v)"
        self.parts.append(f"{name} as (select * from ({sql}) where {has_value})")
        return Rows(name, by, texts)

    def finished(self, grouped: str, formula: Formula, by: tuple[str, ...]) -> Rows:
        """Add and return a table expression with the value of a formula for each tick and key.

        ``grouped``: the query with a row for each tick and key. ``by``: the attributes of the key.
        """
        return self.made(
            f"select t{key_columns(by)}, ({formula.value})::double as v, {formula.size} as m, "
            f"{formula.values} as vals, {formula.low} as low, {formula.high} as high "
            f"from ({grouped})",
            by,
        )

    def mapped(self, operand: Rows | Constant, value: str, size: str) -> Rows | Constant:
        """Apply a function of one value to an operand; return the results.

        ``value``, ``size``: the SQL of the function, and of the bound of its intermediate values.
        """
        if isinstance(operand, Constant):
            return Constant(f"(select {value} from (select {operand.sql} as v))")
        return self.made(
            f"select t{key_columns(operand.by)}, {value} as v, {size} as m, {NO_LISTS} "
            f"from {operand.name}",
            operand.by,
        )

    def calculated(
        self, operator: str, left: Rows | Constant, right: Rows | Constant
    ) -> Rows | Constant:
        """Apply an operator to two operands; return the results at their common ticks and keys."""
        match left, right:
            case Constant(), Constant():
                return Constant(arithmetic(operator, left.sql, right.sql))
            case Rows(), Constant():
                tables, by = f"{left.name} a", left.by
                sides = ("a.v", right.sql), ("a.m", f"abs({right.sql})")
            case Constant(), Rows():
                tables, by = f"{right.name} a", right.by
                sides = (left.sql, "a.v"), (f"abs({left.sql})", "a.m")
            case Rows(), Rows():
                wide, narrow = (left, right) if set(right.by) <= set(left.by) else (right, left)
                on = met(narrow.by, "a", "b")
                tables, by = f"{wide.name} a join {narrow.name} b on {on}", wide.by
                one, other = ("a", "b") if wide is left else ("b", "a")
                sides = (f"{one}.v", f"{other}.v"), (f"{one}.m", f"{other}.m")
            case _:
                raise AssertionError(left, right)
        (lv, rv), (lm, rm) = sides
        size = {
            "*": f"({lm}) * ({rm})",
            "/": f"({lm}) / abs({rv}) * (1 + ({rm}) / abs({rv}))",
        }.get(operator, f"({lm}) + ({rm})")
        keys = "".join(f", a.{key_column(name)}" for name in by)
        return self.made(
            f"select a.t{keys}, {arithmetic(operator, lv, rv)} as v, {size} as m, {NO_LISTS} "
            f"from {tables}",
            by,
            texts=operator.startswith("GEOHASH"),
        )
