"""The values that points have instead of the values in a condition, in words."""

from collections.abc import Collection, Iterable
from typing import Literal

from analytics.plan.expressions import Scalar
from mistbow.first_names import first_names

Kind = Literal["texts", "numbers", "booleans"]

_MAX_SHOWN = 5


def kind_of(value: Scalar) -> Kind:
    """Return the type of a value; values of different types are never equal."""
    match value:
        case str():
            return "texts"
        case bool():
            return "booleans"
        case _:
            return "numbers"


def values_seen(values: Iterable[Scalar], compared: Collection[Kind] = ()) -> str:
    """Return the first values in order, and the number of the others.

    The type of the values follows if they have one type, and it is not among ``compared``, the
    types of the values in the condition.

    >>> values_seen(["flu", "cold"], {"texts"}), values_seen([8080.0], {"texts"})
    ('values seen: cold, flu', 'values seen: 8080 (numbers)')
    """
    known = list(values)
    kinds = {kind_of(each) for each in known}
    listed = first_names([*dict.fromkeys(map(text_of, sorted(known, key=_order)))], _MAX_SHOWN)
    note = f" ({min(kinds)})" if len(kinds) == 1 and compared and not kinds & set(compared) else ""
    return f"values seen: {listed}{note}"


def text_of(value: Scalar) -> str:
    """Return a value as the language writes it, a text without quotes."""
    match value:
        case str():
            return value
        case bool():
            return str(value).lower()
        case float() if not value.is_integer():
            return repr(value)
        case _:
            return str(int(value))


def _order(value: Scalar) -> tuple[Kind, float, str]:
    return ("texts", 0.0, value) if isinstance(value, str) else (kind_of(value), float(value), "")
