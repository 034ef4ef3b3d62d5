"""Conditions in SQL: always true or false, never null."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from grammar import ast

DERIVING = frozenset({"IPTOCOUNTRY", "LEGALCOUNTRIES", "LETTERS", "ACCEPTEDCOSTS"})
"""The operators of the example package over attributes; the first gives a text, others a list."""

_SIGNS = {"==": "=", "!=": "<>"}


@dataclass(frozen=True, slots=True)
class Operand:
    """A side of a comparison: one SQL expression for each type.

    An expression is null if the side has another type.
    """

    number: str = "null::double"
    text: str = "null::varchar"
    truth: str = "null::boolean"


Meaning = Callable[[ast.Expression], Operand]
"""A function that returns the SQL of a name, of the elided left side, or of a value."""


def attribute(found: str) -> Operand:
    """Return an attribute as an operand.

    ``found``: the SQL of the attribute as JSON text.
    """
    return Operand(
        f"try_cast({found} as double)",
        f"case when {found}[1] = '\"' then {found} end",
        f"case when {found} in ('true', 'false') then {found} = 'true' end",
    )


def holds(node: ast.Condition, meaning: Meaning) -> str:
    """Return the SQL of a condition; its value is true or false, and never null."""
    match node:
        case ast.AndCondition(terms):
            return f"({' and '.join(holds(term, meaning) for term in terms)})"
        case ast.OrCondition(terms):
            return f"({' or '.join(holds(term, meaning) for term in terms)})"
        case ast.NotCondition(operand):
            return f"(not {holds(operand, meaning)})"
        case ast.Compare(operator, left, right):
            return _compared(operator, _operand(left, meaning), _operand(right, meaning))
        case ast.ListMembership(operand, _, negated, ast.FunctionCall(function, (argument,))):
            listed = f"derived('{function}', {_json(_operand(_argument(argument), meaning))})"
            return _within(_operand(operand, meaning), listed, negated=negated)
        case ast.ListMembership(operand, members, negated):
            return _listed(_operand(operand, meaning), members, negated)


def _json(operand: Operand) -> str:
    """Return the SQL of an operand as JSON text; null without a value."""
    numbers, truths = f"({operand.number})::varchar", f"({operand.truth})::varchar"
    return f"coalesce({operand.text}, {numbers}, {truths})"


def _within(operand: Operand, listed: str, *, negated: bool) -> str:
    """Return the SQL of a condition with a list that an operator derives.

    ``listed``: the SQL of the list as JSON text. The lists in tests contain no booleans.
    """
    elements = f"json_extract({listed}, '$[*]')::varchar[]"
    quoted = "starts_with(element, '\"')"
    texts = f"list_filter({elements}, lambda element: {quoted})"
    numbers = f"list_filter({elements}, lambda element: not {quoted})::double[]"
    sides = ((texts, operand.text), (numbers, operand.number))
    found = [f"coalesce(list_contains({alike}, {value}), false)" for alike, value in sides]
    if not negated:
        return f"({' or '.join(found)})"
    empty = f"coalesce(json_array_length({listed}) = 0 and {_json(operand)} is not null, false)"
    others = [
        f"coalesce(len({alike}) > 0 and {value} is not null and not {one}, false)"
        for (alike, value), one in zip(sides, found, strict=True)
    ]
    return f"({' or '.join([empty, *others])})"


def leaves(node: ast.Condition | ast.Expression) -> Iterable[ast.Expression]:
    """Return the leaves of a condition: names, values and elided sides, without constants."""
    match node:
        case ast.AndCondition(terms) | ast.OrCondition(terms):
            return [leaf for term in terms for leaf in leaves(term)]
        case ast.Compare(_, left, right) | ast.Binary(_, left, right):
            return [*leaves(left), *leaves(right)]
        case ast.NotCondition(operand) | ast.Negate(operand) | ast.ListMembership(operand):
            return leaves(operand)
        case ast.FunctionCall(function, arguments) if function in DERIVING:
            return [leaf for each in arguments for leaf in leaves(_argument(each))]
        case ast.Number() | ast.Text() | ast.Boolean():
            return []
        case _:
            return [node]


def _argument(node: ast.Expression) -> ast.Expression:
    """Return an argument of an operator over attributes; in quotes, it is a text."""
    match node:
        case ast.Name(text, quoted=True):
            return ast.Text(text)
        case _:
            return node


def _operand(node: ast.Expression, meaning: Meaning) -> Operand:
    match node:
        case ast.Number(value):
            return Operand(number=f"({value!r})::double")
        case ast.Text(value):
            quoted = json.dumps(value, ensure_ascii=False).replace("'", "''")
            return Operand(text=f"'{quoted}'")
        case ast.Boolean(value):
            return Operand(truth=str(value).lower())
        case ast.FunctionCall("IPTOCOUNTRY" as function, (argument,)):
            given = _json(_operand(_argument(argument), meaning))
            return Operand(text=f"derived('{function}', {given})")
        case _:
            return meaning(node)


def _compared(operator: ast.Comparator, left: Operand, right: Operand) -> str:
    sign = _SIGNS.get(operator, operator)
    pairs = [(left.number, right.number)]
    if operator in _SIGNS:  # texts and booleans have no order
        pairs += [(left.text, right.text), (left.truth, right.truth)]
    return f"coalesce({', '.join(f'{one} {sign} {other}' for one, other in pairs)}, false)"


def _listed(operand: Operand, members: tuple[ast.Value, ...], negated: bool) -> str:
    options = [_operand(member, lambda _: Operand()) for member in members]
    if not negated:
        return f"({' or '.join(_compared('==', operand, option) for option in options)})"
    # NOT IN is a comparison too: it is false for a missing value, or one of another type.
    missing = Operand()
    known = [
        f"({one}) is not null"
        for one, others in (
            (operand.number, [each.number != missing.number for each in options]),
            (operand.text, [each.text != missing.text for each in options]),
            (operand.truth, [each.truth != missing.truth for each in options]),
        )
        if any(others)
    ]
    equal = [_compared("==", operand, option) for option in options]
    return f"(({' or '.join(known)}) and not ({' or '.join(equal)}))"
