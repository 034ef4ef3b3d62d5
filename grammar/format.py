"""From the abstract syntax tree to its canonical text."""

import json
import re
from collections.abc import Iterable
from typing import assert_never

from grammar.ast import (
    Aggregate,
    And,
    Binary,
    Boolean,
    Compare,
    Condition,
    Elided,
    Expression,
    Insight,
    Interval,
    Membership,
    MetricStream,
    Name,
    Negate,
    Not,
    Number,
    Or,
    Script,
    Text,
)
from grammar.failure import KEYWORDS
from grammar.generated.InsightsParser import InsightsParser as Tree
from grammar.units import in_words

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z_0-9]*(\.[A-Za-z_0-9]+)*", re.ASCII)
_LEVELS = {"+": 1, "-": 1, "*": 2, "/": 2}
_TIGHTEST = 3
RESERVED = frozenset(Tree.literalNames[kind].strip("'").upper() for kind in KEYWORDS)


def format_script(script: Script) -> str:
    """Return the text that parses to ``script``, one statement a line, without comments."""
    return "".join(f"{format_insight(insight)};\n" for insight in script.statements)


def format_insight(insight: Insight) -> str:
    """Return one insight on one line, without a semicolon."""
    parts = [f"{insight.name} = COMPUTE {format_node(insight.expression)}"]
    if insight.by:
        parts.append(f"BY {_names(insight.by)}")
    if insight.when is not None:
        parts.append(f"WHEN {format_node(insight.when)}")
    if insight.every is not None:
        parts.append(f"EVERY {in_words(insight.every.millis)}")
    if insight.scheduler is not None:
        parts.append(f"WITH SCHEDULER={_name(insight.scheduler.value)}")
    return " ".join(parts)


def format_node(node: Expression | Condition | MetricStream | Interval) -> str:
    """Return a part of an insight, with no more parentheses than it needs."""
    match node:
        case MetricStream():
            return _stream(node)
        case Interval(millis):
            return in_words(millis)
        case Compare() | Membership() | And() | Or() | Not():
            return _condition(node)
        case _:
            return _expression(node)


def _stream(stream: MetricStream) -> str:
    parts = [_name(stream.metric)]
    if stream.members:
        parts.append(f"FROM ({_names(stream.members)})")
    if stream.when is not None:
        parts.append(f"WHEN {_condition(stream.when)}")
    return " ".join(parts)


def _expression(node: Expression) -> str:
    match node:
        case Number(value):
            return repr(value).removesuffix(".0")
        case Text(value):
            return _quoted(value)
        case Boolean(value):
            return "true" if value else "false"
        case Name(name):
            return name
        case Elided():
            return ""
        case Aggregate(function, stream, window):
            span = f", {in_words(window.millis)}" if window is not None else ""
            return f"{function}({_stream(stream)}{span})"
        case Negate(operand):
            ambiguous = isinstance(operand, Number | Negate | Binary)
            return f"-{_enclosed(_expression(operand), ambiguous)}"
        case Binary(operator, left, right):
            level = _LEVELS[operator]
            return (
                f"{_enclosed(_expression(left), _level(left) < level)} {operator} "
                f"{_enclosed(_expression(right), _level(right) <= level)}"
            )
        case _:
            assert_never(node)


def _condition(node: Condition) -> str:
    match node:
        case Compare(operator, left, right):
            return f"{_expression(left)} {operator} {_expression(right)}".lstrip()
        case Membership(operand, members, negated):
            choice = f"{'NOT ' if negated else ''}IN ({', '.join(map(_expression, members))})"
            return f"{_expression(operand)} {choice}".lstrip()
        case And(terms):
            return " AND ".join(_enclosed(_condition(t), isinstance(t, And | Or)) for t in terms)
        case Or(terms):
            return " OR ".join(_enclosed(_condition(t), isinstance(t, Or)) for t in terms)
        case Not(operand):
            return f"NOT {_enclosed(_condition(operand), _needs_distance(operand))}"
        case _:
            assert_never(node)


def _needs_distance(operand: Condition) -> bool:
    """Say whether a NOT directly before ``operand`` would mean only its first part, or its IN."""
    match operand:
        case And() | Or() | Membership(Elided(), negated=False):
            return True
        case _:
            return False


def _level(node: Expression) -> int:
    return _LEVELS[node.operator] if isinstance(node, Binary) else _TIGHTEST


def _enclosed(text: str, needed: bool) -> str:
    return f"({text})" if needed else text


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(_name, names))


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) and name.upper() not in RESERVED else _quoted(name)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
