"""Formats syntax trees as their canonical text."""

import json
import re
from collections.abc import Iterable
from typing import assert_never

from grammar.ast import (
    Accuracy,
    AdamOption,
    Allow,
    AndCondition,
    Awareness,
    Binary,
    Boolean,
    Compare,
    Condition,
    CostCapOption,
    Daily,
    Elided,
    Expression,
    FunctionCall,
    FunctionDefinition,
    InsightReference,
    InsightStatement,
    Interval,
    ListMembership,
    MetricStream,
    Name,
    Negate,
    NotCondition,
    Number,
    Option,
    OrCondition,
    Outliers,
    PlacementOn,
    PointCount,
    Position,
    Rhythm,
    Salience,
    SampleOption,
    SchedulerOption,
    Scoped,
    Script,
    Setting,
    Signature,
    Statement,
    StreamDefinition,
    Text,
    Value,
    ValueList,
)
from grammar.generated.InsightsParser import InsightsParser as Tree
from grammar.mismatch import KEYWORDS
from grammar.units import in_words

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z_0-9]*(\.[A-Za-z_0-9]+)*", re.ASCII)
_LEVELS = {"+": 1, "-": 1, "*": 2, "/": 2}
_LOOSEST, _TIGHTEST = 0, 3
RESERVED = frozenset(Tree.literalNames[kind].strip("'").upper() for kind in KEYWORDS)


def format_script(script: Script) -> str:
    """Return a text that parses to ``script``, with one statement per line and no comments."""
    return "".join(f"{format_statement(statement)};\n" for statement in script.statements)


def format_statement(statement: Statement) -> str:
    """Return the text of a statement on one line, without a semicolon."""
    return " ".join(clauses_of(statement))


def clauses_of(statement: Statement) -> list[str]:
    """Return the text of each clause in a statement; a line break may precede any clause."""
    match statement:
        case InsightStatement():
            return _insight(statement)
        case StreamDefinition(name, provider, settings):
            return [f"{name}: STREAM FROM {provider}({', '.join(map(_setting, settings))})"]
        case FunctionDefinition(name, parameters, body):
            return [f"FUNCTION {name}({', '.join(parameters)}) {{ {_body(body)} }}"]
        case _:
            assert_never(statement)


def _body(body: Expression | ValueList) -> str:
    return f"({_values(body.values)})" if isinstance(body, ValueList) else _expression(body)


def format_node(node: Expression | Condition | Interval) -> str:
    """Return the text of a node, with no more parentheses than necessary."""
    match node:
        case Interval(millis):
            return in_words(millis)
        case Compare() | ListMembership() | AndCondition() | OrCondition() | NotCondition():
            return _condition(node)
        case _:
            return _expression(node)


def _insight(insight: InsightStatement) -> list[str]:
    computed = _expression(insight.expression)
    # Text after a bare expression would belong to the insight.
    parts = [f"{insight.name} = COMPUTE {_enclosed(computed, _is_scope(insight.expression))}"]
    if insight.by:
        parts.append(f"BY {_names(insight.by)}")
    if insight.when is not None:
        parts.append(f"WHEN {_condition(insight.when)}")
    if insight.every is not None:
        parts.append(f"EVERY {_rhythm(insight.every)}")
    if insight.options:
        parts.append(f"WITH {' AND '.join(map(_option, insight.options))}")
    return parts


def _rhythm(rhythm: Rhythm) -> str:
    match rhythm:
        case Interval(millis):
            return in_words(millis)
        case PointCount(count):
            return f"{count} {'POINT' if count == 1 else 'POINTS'}"
        case Daily(days, at, zone):
            return f"{days} {'DAY' if days == 1 else 'DAYS'} AT {at:%H:%M} {_name(zone)}"
        case _:
            assert_never(rhythm)


def _values(values: Iterable[Value]) -> str:
    return ", ".join(map(_expression, values))


def _setting(setting: Setting) -> str:
    values = _values(setting.values)
    return f"{_name(setting.key)}={_enclosed(values, len(setting.values) > 1)}"


def _option(option: Option) -> str:
    match option:
        case Salience(level):
            return f"SALIENCE {level}"
        case SampleOption(size, share):
            return f"SAMPLE {size if share is None else _number(share)}"
        case Accuracy(max_error, confidence):
            return f"MAX_ERROR {_number(max_error)}{_confidence(confidence)}"
        case Awareness(of):
            return f"AWARENESS ON {of}"
        case AdamOption(confidence):
            return f"ADAM{_confidence(confidence)}"
        case Outliers(algorithm, k, r):
            neighbours = "" if k is None else f" AND K={k}"
            within = "" if r is None else f" AND R={_number(r)}"
            return f"ALGORITHM {_name(algorithm)}{neighbours}{within}"
        case SchedulerOption(name, settings):
            given = f"({', '.join(map(_setting, settings))})" if settings else ""
            return f"SCHEDULER={_name(name)}{given}"
        case CostCapOption(amount, per):
            return f"COST_CAP {_number(amount)} PER {in_words(per.millis)}"
        case PlacementOn(key, value, count, dedicated):
            nodes = ("" if count is None else f" {count}") + (" DEDICATED" if dedicated else "")
            return f"PLACEMENT_ON {_name(key)}={_expression(value)}{nodes}"
        case Allow(when):
            # An AND outside parentheses would belong to the options.
            joined = isinstance(when, AndCondition | OrCondition)
            return f"ALLOW WHEN {_enclosed(_condition(when), joined)}"
        case Signature(name):
            return f"SIGNATURE {_quoted(name)}"
        case _:
            assert_never(option)


def _confidence(confidence: float | None) -> str:
    return "" if confidence is None else f" AND CONFIDENCE {_number(confidence)}"


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
            return _number(value)
        case Text(value):
            return _quoted(value)
        case Boolean(value):
            return "true" if value else "false"
        case Name(name):
            return _quoted(name) if node.quoted else _name(name)
        case Elided():
            return ""
        case MetricStream():
            return _stream(node)
        case Position(metric, latitude, longitude):  # texts contain the name of a STREAM instead
            return f"{metric}({latitude}, {longitude})"
        case InsightReference(name):
            return f"INSIGHT {name}"
        case FunctionCall():
            return _call(node)
        case Negate(operand):
            ambiguous = isinstance(operand, Number | Negate | Binary) or _is_scope(operand)
            return f"-{_enclosed(_expression(operand), ambiguous)}"
        case Binary(operator, left, right):
            level = _LEVELS[operator]
            return f"{_operand(left, level)} {operator} {_operand(right, level + 1)}"
        case Scoped(expression, by, when):
            parts = [_operand(expression, _LEVELS["+"])]
            parts += [f"BY {_names(by)}"] if by else []
            parts += [] if when is None else [f"WHEN {_condition(when)}"]
            return " ".join(parts)
        case _:
            assert_never(node)


def _call(call: FunctionCall) -> str:
    *others, last = call.arguments
    pieces = [_enclosed(_expression(each), _ends_with_by(each)) for each in others]
    pieces.append(_expression(last))
    pieces += [in_words(each.millis) for each in (call.window, call.offset) if each is not None]
    given = f"[{', '.join(map(format_node, call.parameters))}]" if call.parameters else ""
    return f"{call.function}{given}({', '.join(pieces)})"


def _ends_with_by(node: Expression) -> bool:
    """Return whether ``node`` ends with a BY.

    Such a BY would include a following ``, name``.
    """
    return isinstance(node, Scoped) and node.when is None


def _is_scope(node: Expression) -> bool:
    """Return whether ``node`` ends with a BY or a WHEN and needs parentheses in an expression."""
    return isinstance(node, Scoped) or (isinstance(node, MetricStream) and node.when is not None)


def _operand(node: Expression, least: int) -> str:
    """Return the text of an operand, in parentheses if its precedence is below ``least``."""
    return _enclosed(_expression(node), _level(node) < least)


def _number(value: float) -> str:
    return repr(value).removesuffix(".0")


def _condition(node: Condition) -> str:
    match node:
        case Compare(operator, left, right):
            return f"{_compared(left)} {operator} {_compared(right)}".lstrip()
        case ListMembership(operand, members, negated, called):
            listed = f"({_values(members)})" if called is None else _call(called)
            choice = f"{'NOT ' if negated else ''}IN {listed}"
            return f"{_compared(operand)} {choice}".lstrip()
        case AndCondition(terms):
            return " AND ".join(
                _enclosed(_condition(t), isinstance(t, AndCondition | OrCondition)) for t in terms
            )
        case OrCondition(terms):
            return " OR ".join(_enclosed(_condition(t), isinstance(t, OrCondition)) for t in terms)
        case NotCondition(operand):
            return f"NOT {_enclosed(_condition(operand), _needs_distance(operand))}"
        case _:
            assert_never(node)


def _compared(node: Expression) -> str:
    return _operand(node, _LEVELS["+"])


def _needs_distance(operand: Condition) -> bool:
    """Return whether ``operand`` needs parentheses after a NOT."""
    match operand:
        case AndCondition() | OrCondition() | ListMembership(Elided(), negated=False):
            return True
        case _:
            return False


def _level(node: Expression) -> int:
    if isinstance(node, Binary):
        return _LEVELS[node.operator]
    return _LOOSEST if _is_scope(node) else _TIGHTEST


def _enclosed(text: str, needed: bool) -> str:
    return f"({text})" if needed else text


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(_name, names))


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) and name.upper() not in RESERVED else _quoted(name)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
