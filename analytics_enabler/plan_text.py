"""Plans in words that people read: for ``explain`` and for golden plans."""

import json
from collections.abc import Mapping

from msgspec import UNSET

from grammar.units import in_words
from mistbow.plan.expressions import (
    ACCUMULATING,
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
    by = insight.by
    text = f"insight {insight.uid} = {expression_text(insight.expression, by)}{_by(by)}"
    if insight.filter is not None:
        text += f" WHEN {expression_text(insight.filter, by)}"
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
        counts = " + ".join(expression_text(count, node.by) for count in node.counted.counts)
        return f"EVERY {node.counted.every} POINTS of {counts}, told every {every}"
    if node.each_point:
        return f"at each point, told every {every}"
    return f"EVERY {every}" if node.at is UNSET else f"EVERY {every} AT {node.at}"


def pane_text(pane: Pane) -> str:
    """Return a pane on one line."""
    text = f"pane {pane.id} = {in_words(pane.width_ms)} of {_source(pane.source)}{_by(pane.by)}"
    return f"{text} with {', '.join(pane.contents)}" if pane.contents else text


def expression_text(node: Expression, by: tuple[str, ...] = ()) -> str:
    """Return an expression in the notation of the language, where it has one.

    ``by`` are the attributes of the keys around it: where some inside differ, these are told.
    """
    return _text(node, by)[0]


def _text(node: Expression, by: tuple[str, ...]) -> tuple[str, int]:
    """Return the text of a node, and how tightly it binds."""
    match node:
        case Arithmetic(operator, left, right):
            binding = _BINDING[operator]
            return (
                f"{_inside(left, binding, by)} {operator} {_inside(right, binding + 1, by)}",
                binding,
            )
        case Comparison(comparator, left, right):
            return f"{_inside(left, 5, by)} {comparator} {_inside(right, 5, by)}", 4
        case Membership(operand, options):
            return f"{_inside(operand, 5, by)} IN ({', '.join(map(_scalar, options))})", 4
        case Not(operand):
            return f"NOT {_inside(operand, 3, by)}", 3
        case And(left, right):
            return f"{_inside(left, 2, by)} AND {_inside(right, 2, by)}", 2
        case Or(left, right):
            return f"{_inside(left, 1, by)} OR {_inside(right, 1, by)}", 1
        case Negation(operand):
            return f"-{_inside(operand, _TIGHTEST, by)}", 7
        case _:
            return _leaf(node, by), _TIGHTEST


def _leaf(node: Expression, by: tuple[str, ...]) -> str:
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
            lengths = [node.size_ms, *([node.offset_ms] * bool(node.offset_ms))]
            if node.function in ACCUMULATING:  # its window is all there was
                lengths = []
            told = f"{_function(node)}({', '.join((*sources, *map(in_words, lengths)))})"
            return _keyed(told, node.by, by)
        case Reduction():
            return _keyed(f"{_function(node)}({expression_text(node.operand, by)})", node.by, by)
        case Mapped():
            return f"{node.function}({expression_text(node.operand, by)})"
        case Geohash(characters, latitude, longitude):
            degrees = f"{expression_text(latitude, by)}, {expression_text(longitude, by)}"
            return f"GEOHASH[{characters}]({degrees})"
        case Label(attribute, latest):
            # The latest point is looked for by that attribute too, which goes without saying.
            inner = latest.by if isinstance(latest, Aggregate) else by
            return _keyed(f"{attribute} of {expression_text(latest, inner)}", node.by, by)
        case Filtered():
            condition = expression_text(node.condition, by)
            return f"({expression_text(node.operand, by)} WHEN {condition})"
    raise AssertionError(f"{node} is no leaf")


def _function(node: Aggregate | Measure | Reduction) -> str:
    if not node.parameters:
        return str(node.function)
    return f"{node.function}[{', '.join(map(_scalar, node.parameters))}]"


def _keyed(text: str, by: tuple[str, ...], around: tuple[str, ...]) -> str:
    """Return the text of a value, with the attributes of its keys if those around it are others."""
    return text if by == around else f"({text}{_by(by) or ' BY nothing'})"


def _inside(node: Expression, least: int, by: tuple[str, ...]) -> str:
    text, binding = _text(node, by)
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
