"""Conversion of plans to text, for ``explain`` and for golden tests."""

import json
from collections.abc import Mapping

from msgspec import UNSET

from analytics.plan.expressions import (
    Aggregate,
    And,
    Arithmetic,
    Attribute,
    Comparison,
    Derived,
    Expression,
    Filtered,
    Geohash,
    Label,
    Literal,
    Mapped,
    Measure,
    Membership,
    Negation,
    Not,
    Or,
    PositionGeohash,
    Reduction,
    Scalar,
    Source,
    TickSeries,
    Value,
    Within,
)
from analytics.plan.feeds import Feed
from analytics.plan.functions import ACCUMULATED
from analytics.plan.nodes import Insight, Pane, Plan, Window
from analytics.plan.sampling import Adaptive, Bernoulli, FixedSize, NeymanAllocation, Sampling
from grammar.units import in_words

_PRECEDENCE = {"+": 5, "-": 5, "*": 6, "/": 6}
_MAX_PRECEDENCE = 8


def plan_text(plan: Plan, feeds: Mapping[str, Feed] | None = None) -> str:
    """Return a plan as text: one node per line, insights first.

    ``feeds``: insight uid -> the feed that the insight reads.
    """
    feeds = feeds or {}
    lines = [insight_text(insight, feeds.get(insight.uid)) for insight in plan.insights]
    lines += [window_text(window) for window in plan.windows]
    lines += [pane_text(pane) for pane in plan.panes]
    return "\n".join(lines)


def insight_text(insight: Insight, feed: Feed | None = None) -> str:
    """Return an insight as one line of text, with the stream of its feed, if any."""
    by = insight.by
    text = f"insight {insight.uid} = {expression_text(insight.expression, by)}{_by(by)}"
    if insight.filter is not None:
        text += f" WHEN {expression_text(insight.filter, by)}"
    text = f"{text} {_interval_text(insight)}"
    if feed is None:
        return text
    return f"{text} FROM stream {feed.stream}{f' of {feed.site}' if feed.site else ''}"


def window_text(window: Window) -> str:
    """Return a window as one line of text."""
    size = in_words(window.size_ms)
    ago = f" {in_words(window.offset_ms)} ago" if window.offset_ms else ""
    ago += f" up to the last multiple of {in_words(window.held_ms)}" if window.held_ms else ""
    if window.points is not UNSET:
        size = f"spans of {window.points:,} points since {window.start}"
    elif window.start is not None:
        size = f"all since {window.start}"
    return f"window {window.id} = {size}{ago} {_interval_text(window)} of {window.pane}"


def _interval_text(node: Insight | Window) -> str:
    every = in_words(node.every_ms)
    if isinstance(node, Insight) and node.counted is not None:
        counts = " + ".join(expression_text(count, node.by) for count in node.counted.counts)
        return f"EVERY {node.counted.every} POINTS of {counts}, computed every {every}"
    if node.each_point:
        return f"at each point, computed every {every}"
    return f"EVERY {every}" if node.at is UNSET else f"EVERY {every} AT {node.at}"


def pane_text(pane: Pane) -> str:
    """Return a pane as one line of text."""
    text = f"pane {pane.id} = {in_words(pane.width_ms)} of {source_text(pane.source)}{_by(pane.by)}"
    return f"{text} with {', '.join(pane.contents)}" if pane.contents else text


def expression_text(node: Expression, by: tuple[str, ...] = ()) -> str:
    """Return an expression as text, in the notation of the language where possible.

    ``by``: the key attributes of the surrounding expression. A sub-expression with other key
    attributes is written with its own BY.
    """
    return _text(node, by)[0]


def _text(node: Expression, by: tuple[str, ...]) -> tuple[str, int]:
    """Return (text, precedence) of a node."""
    match node:
        case Arithmetic(operator, left, right):
            precedence = _PRECEDENCE[operator]
            return (
                f"{_inside(left, precedence, by)} {operator} {_inside(right, precedence + 1, by)}",
                precedence,
            )
        case Comparison(comparator, left, right):
            return f"{_inside(left, 5, by)} {comparator} {_inside(right, 5, by)}", 4
        case Membership(operand, options):
            return f"{_inside(operand, 5, by)} IN ({', '.join(map(_scalar, options))})", 4
        case Within(operand, options, negated):
            word = "NOT IN" if negated else "IN"
            return f"{_inside(operand, 5, by)} {word} {expression_text(options, by)}", 4
        case Not(operand):
            return f"NOT {_inside(operand, 3, by)}", 3
        case And(left, right):
            return f"{_inside(left, 2, by)} AND {_inside(right, 2, by)}", 2
        case Or(left, right):
            one, other = _text(left, by), _text(right, by)
            # An attribute at a latest point is compared once for each type that it can have.
            return one if one == other else (f"{one[0]} OR {other[0]}", 1)
        case Negation(operand):
            return f"-{_inside(operand, _MAX_PRECEDENCE, by)}", 7
        case _:
            return _leaf(node, by), _MAX_PRECEDENCE


def _leaf(node: Expression, by: tuple[str, ...]) -> str:
    match node:
        case Literal(value):
            return _scalar(value)
        case Value():
            return "value"
        case Attribute(name):
            return name
        case Measure():
            return f"{function_text(node)}({', '.join(node.windows)})"
        case Aggregate():
            sources = map(source_text, node.sources)
            lengths = [node.size_ms, *([node.offset_ms] * bool(node.offset_ms))]
            if node.function in ACCUMULATED or node.points is not UNSET:  # no window of time
                lengths = []
            call = f"{function_text(node)}({', '.join((*sources, *map(in_words, lengths)))})"
            return _keyed(call, node.by, by)
        case Reduction():
            return _keyed(
                f"{function_text(node)}({expression_text(node.operand, by)})", node.by, by
            )
        case TickSeries():
            given = [node.operands, *([node.others] if node.others else [])]
            first = ", ".join(expression_text(each[0], by) for each in given)
            count = f"{len(node.operands)} ticks" if len(node.operands) > 1 else "1 tick"
            text = f"{function_text(node)}({first}, {count} of {in_words(node.step_ms)})"
            return _keyed(text, node.by, by)
        case Mapped():
            return f"{node.function}({expression_text(node.operand, by)})"
        case Geohash(characters, latitude, longitude):
            degrees = f"{expression_text(latitude, by)}, {expression_text(longitude, by)}"
            return f"GEOHASH[{characters}]({degrees})"
        case Derived(function, operands):
            return f"{function.name}({', '.join(expression_text(each, by) for each in operands)})"
        case PositionGeohash(characters, position):
            return f"GEOHASH[{characters}]({expression_text(position, by)})"
        case Label(attribute, latest, longitude=longitude):
            # The latest point has that attribute as a key too, which the text leaves out.
            inner = latest.by if isinstance(latest, Aggregate) else by
            if longitude is not UNSET:
                attribute = f"({attribute}, {longitude})"
            return _keyed(f"{attribute} of {expression_text(latest, inner)}", node.by, by)
        case Filtered():
            condition = expression_text(node.condition, by)
            return f"({expression_text(node.operand, by)} WHEN {condition})"
    raise AssertionError(f"plan_text cannot write an expression of the type {type(node).__name__}")


def function_text(node: Aggregate | Measure | Reduction | TickSeries) -> str:
    """Return the name of a function with its parameters, such as ``PERCENTILE[95]``."""
    if not node.parameters:
        return str(node.function)
    return f"{node.function}[{', '.join(map(_scalar, node.parameters))}]"


def _keyed(text: str, by: tuple[str, ...], around: tuple[str, ...]) -> str:
    """Return the text of a value, with a BY if the keys ``by`` differ from the keys ``around``."""
    return text if by == around else f"({text}{_by(by) or ' BY nothing'})"


def _inside(node: Expression, min_precedence: int, by: tuple[str, ...]) -> str:
    text, precedence = _text(node, by)
    return text if precedence >= min_precedence else f"({text})"


def _scalar(value: Scalar) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return json.dumps(value, ensure_ascii=False)


def source_text(source: Source) -> str:
    """Return the points of a source as text: the metric, FROM, WHEN, and the sample."""
    text = source.metric
    if source.entities:
        text += f" FROM ({', '.join(source.entities)})"
    if source.predicate is not None:
        text += f" WHEN {expression_text(source.predicate)}"
    if source.sampling is not UNSET:
        text += f" ({_sampling(source.sampling)})"
    return text


def _sampling(sampling: Sampling) -> str:
    match sampling:
        case FixedSize():
            return f"{sampling.size} of each entity in {in_words(sampling.period_ms)}"
        case Bernoulli():
            return f"a share of {sampling.share:.15g}"
        case NeymanAllocation():
            share, error = sampling.share, sampling.max_error
            parts = [] if share is None else [f"a share of {share:.15g} (Neyman allocation)"]
            parts += [] if error is None else [f"the fewest for an error of at most {error:.15g}"]
            return ", or ".join(parts)
        case Adaptive():
            return f"the samples of AdaM at confidence {sampling.confidence:.15g}"


def _by(attributes: tuple[str, ...]) -> str:
    return f" BY {', '.join(attributes)}" if attributes else ""
