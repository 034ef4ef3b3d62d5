"""Plans in words that people read: for ``explain`` and for golden plans."""

import json
from collections.abc import Mapping

from msgspec import UNSET

from grammar.units import in_words
from mistbow.plan.expressions import (
    Aggregate,
    And,
    Arithmetic,
    Attribute,
    Comparison,
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
    Reduction,
    Scalar,
    Source,
    Value,
)
from mistbow.plan.feeds import Feed
from mistbow.plan.nodes import Insight, Pane, Plan, Window
from mistbow.plan.sampling import Adaptive, Allotted, Even, Fixed, Sampling

_BINDING = {"+": 5, "-": 5, "*": 6, "/": 6}
_TIGHTEST = 8


def plan_text(plan: Plan, feeds: Mapping[str, Feed] | None = None) -> str:
    """Return a plan, one node a line, insights first; ``feeds`` are what they read, by uid."""
    of = feeds or {}
    lines = [insight_text(insight, of.get(insight.uid)) for insight in plan.insights]
    lines += [window_text(window) for window in plan.windows]
    lines += [pane_text(pane) for pane in plan.panes]
    return "\n".join(lines)


def insight_text(insight: Insight, feed: Feed | None = None) -> str:
    """Return an insight on one line, and the stream that it reads if that is not of raw points."""
    text = f"insight {insight.uid} = {expression_text(insight.expression)}{_by(insight.by)}"
    if insight.filter is not None:
        text += f" WHEN {expression_text(insight.filter)}"
    text = f"{text} {_rhythm(insight)}"
    if feed is None:
        return text
    return f"{text} FROM stream {feed.stream}{f' of {feed.site}' if feed.site else ''}"


def window_text(window: Window) -> str:
    """Return a window on one line."""
    size = in_words(window.size_ms)
    ago = f" {in_words(window.offset_ms)} ago" if window.offset_ms else ""
    if window.start is not None:
        size = f"all since {window.start}"
    return f"window {window.id} = {size}{ago} {_rhythm(window)} of {window.pane}"


def _rhythm(node: Insight | Window) -> str:
    every = in_words(node.every_ms)
    if isinstance(node, Insight) and node.counted is not None:
        counts = " + ".join(map(expression_text, node.counted.counts))
        return f"EVERY {node.counted.every} POINTS of {counts}, told every {every}"
    if node.each_point:
        return f"at each point, told every {every}"
    return f"EVERY {every}" if node.at is UNSET else f"EVERY {every} AT {node.at}"


def pane_text(pane: Pane) -> str:
    """Return a pane on one line."""
    text = f"pane {pane.id} = {in_words(pane.width_ms)} of {_source(pane.source)}{_by(pane.by)}"
    return f"{text} with {', '.join(pane.contents)}" if pane.contents else text


def expression_text(node: Expression) -> str:
    """Return an expression in the notation of the language, where it has one."""
    return _text(node)[0]


def _text(node: Expression) -> tuple[str, int]:
    """Return the text of a node, and how tightly it binds."""
    match node:
        case Arithmetic(operator, left, right):
            binding = _BINDING[operator]
            return f"{_inside(left, binding)} {operator} {_inside(right, binding + 1)}", binding
        case Comparison(comparator, left, right):
            return f"{_inside(left, 5)} {comparator} {_inside(right, 5)}", 4
        case Membership(operand, options):
            return f"{_inside(operand, 5)} IN ({', '.join(map(_scalar, options))})", 4
        case Not(operand):
            return f"NOT {_inside(operand, 3)}", 3
        case And(left, right):
            return f"{_inside(left, 2)} AND {_inside(right, 2)}", 2
        case Or(left, right):
            return f"{_inside(left, 1)} OR {_inside(right, 1)}", 1
        case Negation(operand):
            return f"-{_inside(operand, _TIGHTEST)}", 7
        case _:
            return _leaf(node), _TIGHTEST


def _leaf(node: Expression) -> str:
    match node:
        case Literal(value):
            return _scalar(value)
        case Value():
            return "value"
        case Attribute(name):
            return name
        case Measure():
            windows = filter(None, (node.window, node.other))
            return f"{_function(node)}({', '.join(windows)})"
        case Aggregate():
            sources = [_source(source) for source in (node.source, node.other) if source]
            lengths = [in_words(node.size_ms), *([in_words(node.offset_ms)] * bool(node.offset_ms))]
            return f"{_function(node)}({', '.join((*sources, *lengths))})"
        case Reduction():
            text = f"{_function(node)}({expression_text(node.operand)})"
            return f"({text}{_by(node.by)})" if node.by else text
        case Mapped():
            return f"{node.function}({expression_text(node.operand)})"
        case Geohash(characters, latitude, longitude):
            degrees = f"{expression_text(latitude)}, {expression_text(longitude)}"
            return f"GEOHASH[{characters}]({degrees})"
        case Label(attribute, latest):
            return f"{attribute} of {expression_text(latest)}"
        case Filtered():
            condition = expression_text(node.condition)
            return f"({expression_text(node.operand)} WHEN {condition})"
    raise AssertionError(f"{node} is no leaf")


def _function(node: Aggregate | Measure | Reduction) -> str:
    if not node.parameters:
        return str(node.function)
    return f"{node.function}[{', '.join(map(_scalar, node.parameters))}]"


def _inside(node: Expression, least: int) -> str:
    text, binding = _text(node)
    return text if binding >= least else f"({text})"


def _scalar(value: Scalar) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return json.dumps(value, ensure_ascii=False)


def _source(source: Source) -> str:
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
        case Fixed():
            return f"{sampling.size} of each entity in {in_words(sampling.period_ms)}"
        case Even():
            return f"a share of {sampling.share:.15g}"
        case Allotted():
            share, error = sampling.share, sampling.max_error
            parts = [] if share is None else [f"a share of {share:.15g} where it says most"]
            parts += [] if error is None else [f"as few as bound the error by {error:.15g}"]
            return ", or ".join(parts)
        case Adaptive():
            return f"what AdaM takes, being {sampling.confidence:.15g} sure"


def _by(attributes: tuple[str, ...]) -> str:
    return f" BY {', '.join(attributes)}" if attributes else ""
