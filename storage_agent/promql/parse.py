"""The parsing of queries by the library promql-parser, and the samples that a query reads."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

import promql_parser as syntax

from storage_agent.promql.aggregation import AGGREGATIONS, WITH_PARAMETER
from storage_agent.promql.errors import PromqlError, bad_data, unsupported
from storage_agent.promql.functions import DATE_PARTS, ELEMENTWISE, WITH_SCALAR_ARGUMENTS
from storage_agent.promql.labels import NAME
from storage_agent.promql.matchers import Matcher, Op, Selector
from storage_agent.promql.range_functions import RANGE_FUNCTIONS
from storage_agent.promql.samples import LOOKBACK_MS

_DEFAULT_STEP_MS = 60_000
"""The step of a subquery without an explicit step."""

_OTHER_FUNCTIONS = (
    *("time", "vector", "scalar", "timestamp", "sort", "sort_desc", "absent", "absent_over_time"),
    *("label_replace", "label_join", "histogram_quantile", "pi"),
)
_FUNCTIONS = {
    *(*_OTHER_FUNCTIONS, *ELEMENTWISE, *WITH_SCALAR_ARGUMENTS, *RANGE_FUNCTIONS, *DATE_PARTS),
}
_AGGREGATIONS = WITH_PARAMETER | set(AGGREGATIONS)
_OPS = {"Equal": "=", "NotEqual": "!=", "Re": "=~", "NotRe": "!~"}
_MAX_LENGTH = 64 * 2**10
_MAX_OPERATORS = 500
_MAX_DURATION_MS = 10_000 * 365 * 86_400_000
_MAX_DIGITS = 15
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000} | {
    unit: days * 86_400_000 for unit, days in (("d", 1), ("w", 7), ("y", 365))
}
_TOO_LONG = "a duration is longer than 10,000 years"

# The parser takes quadratic time in the number of operators, and blocks the event loop.
_STRINGS_AND_COMMENTS = re.compile(
    r"""("(?:\\.|[^"\\])*+(?:"|\\?\Z)|'(?:\\.|[^'\\])*+(?:'|\\?\Z)|`[^`]*+(?:`|\Z)|\#[^\n]*)""",
    re.DOTALL,
)
_HOLT_WINTERS = re.compile(r"(?<![\w:])holt_winters(?=\s*\()")
_NEGATIVE_TIME = re.compile(r"@\s*-")
_NAME_OR_DURATION = re.compile(r"[a-zA-Z_][\w:]*+|((?:[0-9]++(?:ms|[smhdwy]))++)")
_DURATION_PART = re.compile(r"([0-9]+)(ms|[smhdwy])")
_OPERATOR = re.compile(r"[-+*/%^<>=!@({[,]|\b(?:and|or|unless|atan2)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The first and the last timestamp (ms) at which an expression is evaluated."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class SampleRange:
    """The samples that a selector matches, from ``start`` to ``end`` (ms, inclusive)."""

    selector: Selector
    start: int
    end: int


def parse(text: str, parameter: str = "query") -> syntax.Expr:
    """Return the syntax tree of a query; raises ``PromqlError`` if ``text`` is no valid query.

    ``parameter``: the parameter of the request that contains the query, for the error.
    """
    # Check the length first, since the regular expressions below read the whole text.
    bare = _STRINGS_AND_COMMENTS.sub(" ", text) if len(text) <= _MAX_LENGTH else None
    if bare is None or len(_OPERATOR.findall(bare)) > _MAX_OPERATORS:
        raise bad_data(
            f"the query is too long: at most {_MAX_LENGTH} characters, and {_MAX_OPERATORS} "
            "operators, brackets and commas outside of strings"
        )
    # The parser accepts such a time, but panics when the time is read, and prints a stack trace.
    if _NEGATIVE_TIME.search(bare):
        raise bad_data("invalid time after @: the time is before 1970")
    _check_durations(bare)
    renamed = _rename_functions(text)
    problem = f'invalid parameter "{parameter}"'
    tree: syntax.Expr = _call_parser(lambda: syntax.parse(renamed), problem)
    return tree


def _check_durations(text: str) -> None:
    """Raise ``PromqlError`` for a number of a duration that the parser takes for 0."""
    for duration in _NAME_OR_DURATION.findall(text):
        for number, unit in _DURATION_PART.findall(duration):
            if len(number) > _MAX_DIGITS or int(number) * _UNITS_MS[unit] > _MAX_DURATION_MS:
                raise bad_data(_TOO_LONG)


def _rename_functions(text: str) -> str:
    """Replace ``holt_winters``, a function's name in Prometheus 2, by its name in Prometheus 3."""
    # Every second part is a string or a comment.
    parts = _STRINGS_AND_COMMENTS.split(text)
    parts[::2] = [_HOLT_WINTERS.sub("double_exponential_smoothing", part) for part in parts[::2]]
    return "".join(parts)


def parse_duration_ms(text: str) -> int:
    """Convert a duration in Prometheus' syntax to milliseconds; raises ``PromqlError``."""
    return _ms(_call_parser(lambda: syntax.parse_duration(text), "invalid duration"))


def selector_of(node: syntax.VectorSelector) -> Selector:
    """Return the selector in a syntax node; raises ``PromqlError`` for ``or`` between matchers."""
    if node.matchers.or_matchers:
        raise PromqlError(
            "`or` between the matchers of a selector is not supported by Mistbow; "
            "write two selectors joined by `or`"
        )
    matchers = [Matcher(NAME, "=", node.name)] if node.name else []
    for matcher in node.matchers.matchers:
        op: Op = _OPS[str(matcher.op).rpartition(".")[2]]  # type: ignore[assignment]
        matchers.append(Matcher(matcher.name, op, matcher.value))
    return Selector(tuple(matchers))


def duration_ms(value: timedelta | None) -> int:
    """Convert a duration from the syntax tree to milliseconds; a missing duration (None) is 0."""
    return 0 if value is None else _ms(value)


def step_of(node: syntax.SubqueryExpr) -> int:
    """Return the step of a subquery (ms)."""
    return duration_ms(node.step) or _DEFAULT_STEP_MS


def subquery_range(node: syntax.SubqueryExpr, span: TimeRange, query: TimeRange) -> TimeRange:
    """Return the first and last timestamp of a subquery, which are multiples of its step.

    If the last timestamp is before the first timestamp, the subquery is not evaluated at all.
    ``span``: the timestamps at which the result of the subquery is used. ``query``: the timestamps
    of the whole query.
    """
    step, shifted = step_of(node), shift(node, span, query)
    first = shifted.first - duration_ms(node.range)
    return TimeRange(-(-first // step) * step, shifted.last // step * step)


def required_samples(node: syntax.Expr, span: TimeRange, query: TimeRange) -> Iterator[SampleRange]:
    """Yield the sample ranges that an expression reads.

    ``span``: the timestamps at which the expression is evaluated. ``query``: the timestamps of the
    whole query. Raises ``PromqlError`` for unsupported syntax.
    """
    match node:
        case syntax.VectorSelector():
            yield sample_range(node, span, query, LOOKBACK_MS)
        case syntax.MatrixSelector():
            yield sample_range(node.vector_selector, span, query, duration_ms(node.range))
        case syntax.SubqueryExpr():
            inner = subquery_range(node, span, query)
            found = list(required_samples(node.expr, inner, query))
            yield from found if inner.first <= inner.last else ()
        case _:
            _check_supported(node)
            for child in _children(node):
                yield from required_samples(child, span, query)


def sample_range(
    node: syntax.VectorSelector, span: TimeRange, query: TimeRange, lookback_ms: int
) -> SampleRange:
    """Return the sample range that a selector reads when it is evaluated in ``span``.

    The range begins ``lookback_ms`` before the first timestamp at which the selector is read.
    """
    shifted = shift(node, span, query)
    return SampleRange(selector_of(node), shifted.first - lookback_ms, shifted.last)


def shift(
    node: syntax.VectorSelector | syntax.SubqueryExpr, span: TimeRange, query: TimeRange
) -> TimeRange:
    """Return the first and last timestamp at which a node is read, after ``@`` and ``offset``.

    ``span``: the timestamps at which the node is evaluated. ``query``: the timestamps of the whole
    query, to which ``@ start()`` and ``@ end()`` refer.
    """
    offset = duration_ms(node.offset)
    if node.at is not None:
        pinned = _pinned(node.at, query) - offset
        return TimeRange(pinned, pinned)
    return TimeRange(span.first - offset, span.last - offset)


def _pinned(at: syntax.AtModifier, query: TimeRange) -> int:
    kind = str(at.type).rpartition(".")[2]
    if kind != "At":
        return query.first if kind == "Start" else query.last
    try:
        when = cast(datetime, at.at)
    except (ValueError, OverflowError) as error:
        raise bad_data("invalid time after @: the time is after the year 9999") from error
    return round(when.timestamp() * 1000)


def _check_supported(node: syntax.Expr) -> None:
    if isinstance(node, syntax.Call) and node.func.name not in _FUNCTIONS:
        raise unsupported(f"the function {node.func.name}()")
    if isinstance(node, syntax.AggregateExpr) and str(node.op) not in _AGGREGATIONS:
        raise unsupported(f"the aggregation {node.op}()")
    if isinstance(node, syntax.BinaryExpr) and node.modifier is not None:
        fill = node.modifier.fill_values
        if fill is not None and (fill.lhs is not None or fill.rhs is not None):
            raise unsupported("fill()")


def _children(node: syntax.Expr) -> list[syntax.Expr]:
    match node:
        case syntax.ParenExpr() | syntax.UnaryExpr():
            return [node.expr]
        case syntax.BinaryExpr():
            return [node.lhs, node.rhs]
        case syntax.AggregateExpr():
            return [node.expr] if node.param is None else [node.param, node.expr]
        case syntax.Call():
            return list(node.args)
    return []


def _ms(value: timedelta) -> int:
    milliseconds = value // timedelta(milliseconds=1)
    if abs(milliseconds) > _MAX_DURATION_MS:
        raise bad_data(_TOO_LONG)
    return milliseconds


def _call_parser(call: Callable[[], Any], problem: str) -> Any:
    """Return the result of a call of the parser library.

    Raises ``PromqlError`` for errors and Rust panics of the library. ``problem``: the beginning of
    the message.
    """
    try:
        return call()
    except (ValueError, OverflowError) as error:
        raise bad_data(f"{problem}: {error}") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise bad_data(problem) from error
