"""From the text of a query to its tree, by the library promql-parser, and to what must be read."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import promql_parser as syntax

from storage_agent.promql.functions import EACH, WITH_SCALARS
from storage_agent.promql.grouping import AGGREGATIONS, WITH_PARAM
from storage_agent.promql.labels import NAME
from storage_agent.promql.matching import Matcher, Op, Selector
from storage_agent.promql.problems import bad_data, unsupported
from storage_agent.promql.ranges import RANGE_FUNCTIONS
from storage_agent.promql.samples import LOOKBACK_MS

_DEFAULT_STEP_MS = 60_000
"""Of a subquery that names none."""

_OTHERS = (
    *("time", "vector", "scalar", "timestamp", "sort", "sort_desc", "absent", "absent_over_time"),
    *("label_replace", "label_join", "histogram_quantile"),
)
_FUNCTIONS = {*_OTHERS, *EACH, *WITH_SCALARS, *RANGE_FUNCTIONS}
_AGGREGATIONS = WITH_PARAM | set(AGGREGATIONS)
_OPS = {"Equal": "=", "NotEqual": "!=", "Re": "=~", "NotRe": "!~"}
_LONGEST = 64 * 2**10
_MOST_SIGNS = 500
_FURTHEST_MS = 10_000 * 365 * 86_400_000

# The parser takes time by the square of these, and holds up all else meanwhile.
_TEXTS = re.compile(
    r"""("(?:\\.|[^"\\])*+(?:"|\\?\Z)|'(?:\\.|[^'\\])*+(?:'|\\?\Z)|`[^`]*+(?:`|\Z)|\#[^\n]*)""",
    re.DOTALL,
)
_SIGN = re.compile(r"[-+*/%^<>=!@({[,]|\b(?:and|or|unless|atan2)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Span:
    """The first and the last of the times at which something is evaluated (ms)."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Need:
    """Samples that a query reads, both times inclusive (ms)."""

    selector: Selector
    start: int
    end: int


def parse(text: str) -> syntax.Expr:
    """Return the tree of a query; raises where it is none."""
    bare = _TEXTS.sub(" ", text)
    if len(text) > _LONGEST or len(_SIGN.findall(bare)) > _MOST_SIGNS:
        raise bad_data(
            f"the query is too long: at most {_LONGEST} characters, and {_MOST_SIGNS} operators, "
            "brackets and commas outside of texts"
        )
    tree: syntax.Expr = _asked(lambda: syntax.parse(text), 'invalid parameter "query"')
    return tree


def parse_duration_ms(text: str) -> int:
    """Return a duration as Prometheus writes them, in milliseconds."""
    return _ms(_asked(lambda: syntax.parse_duration(text), "invalid duration"))


def selector_of(node: syntax.VectorSelector) -> Selector:
    """Return the matchers of a selector."""
    if node.matchers.or_matchers:
        raise unsupported("`or` between matchers")
    given = [Matcher(NAME, "=", node.name)] if node.name else []
    for matcher in node.matchers.matchers:
        op: Op = _OPS[str(matcher.op).rpartition(".")[2]]  # type: ignore[assignment]
        given.append(Matcher(matcher.name, op, matcher.value))
    return Selector(tuple(given))


def duration_ms(value: timedelta | None) -> int:
    """Return a duration of the tree in milliseconds."""
    return 0 if value is None else _ms(value)


def step_of(node: syntax.SubqueryExpr) -> int:
    """Return the time between two evaluations of a subquery (ms)."""
    return duration_ms(node.step) or _DEFAULT_STEP_MS


def subquery_span(node: syntax.SubqueryExpr, span: Span, query: Span) -> Span:
    """Return when a subquery evaluates its expression, at multiples of its step; perhaps never."""
    step, looked = step_of(node), shifted(node, span, query)
    least = looked.first - duration_ms(node.range)
    return Span(-(-least // step) * step, looked.last // step * step)


def needs(node: syntax.Expr, span: Span, query: Span) -> Iterator[Need]:
    """Yield what evaluating an expression at some times reads; raises for what is not supported."""
    match node:
        case syntax.VectorSelector():
            yield need(node, span, query, LOOKBACK_MS)
        case syntax.MatrixSelector():
            yield need(node.vector_selector, span, query, duration_ms(node.range))
        case syntax.SubqueryExpr():
            inner = subquery_span(node, span, query)
            found = list(needs(node.expr, inner, query))
            yield from found if inner.first <= inner.last else ()
        case _:
            _check(node)
            for child in _children(node):
                yield from needs(child, span, query)


def need(node: syntax.VectorSelector, span: Span, query: Span, before_ms: int) -> Need:
    """Return what a selector reads."""
    shift = shifted(node, span, query)
    return Need(selector_of(node), shift.first - before_ms, shift.last)


def shifted(node: syntax.VectorSelector | syntax.SubqueryExpr, span: Span, query: Span) -> Span:
    """Return the times that a node looks at: pinned by @, moved by offset."""
    offset = duration_ms(node.offset)
    if node.at is not None:
        pinned = _pinned(node.at, query) - offset
        return Span(pinned, pinned)
    return Span(span.first - offset, span.last - offset)


def _pinned(at: syntax.AtModifier, query: Span) -> int:
    kind = str(at.type).rpartition(".")[2]
    if kind != "At":
        return query.first if kind == "Start" else query.last
    when: datetime = _asked(lambda: at.at, "invalid time after @: it is before 1970")
    return round(when.timestamp() * 1000)


def _check(node: syntax.Expr) -> None:
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
    if abs(milliseconds) > _FURTHEST_MS:
        raise bad_data("a duration is longer than 10,000 years")
    return milliseconds


def _asked(ask: Callable[[], Any], wrong: str) -> Any:
    """Ask the library; whatever it raises is the query's fault, panics of its Rust included."""
    try:
        return ask()
    except (ValueError, OverflowError) as error:
        raise bad_data(f"{wrong}: {error}") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise bad_data(wrong) from error
