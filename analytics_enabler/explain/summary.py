"""The summary of an explanation: the computations, shared parts and workers of a text."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from analytics.insight_models import ExplainedEdge, ExplainedGroup, Shared
from analytics.plan.expressions import Measure
from analytics.plan.nodes import Pane, Plan, Window, expressions_of
from grammar.units import in_words

_MAX_NAMES = 5


def plan_summary(plan: Plan, shared: Sequence[Shared]) -> list[str]:
    """Return lines about the optimized plan of a text; ``shared``: what its insights share."""
    if not plan.insights:
        return []
    aggregates = {
        node
        for insight in plan.insights
        for node in expressions_of(insight)
        if isinstance(node, Measure)
    }
    metrics = sorted({pane.source.metric for pane in plan.panes})
    counts = (
        _count(len(plan.insights), "insight"),
        _count(len(aggregates), "aggregate"),
        _count(len(plan.windows), "window"),
        _count(len(plan.panes), "pane"),
    )
    lines = [f"{', '.join(counts)}; metrics read: {_names(metrics)}"]
    panes = {pane.id: pane for pane in plan.panes}
    lines += [_window(window, panes[window.pane]) for window in plan.windows[:_MAX_NAMES]]
    if len(plan.windows) > _MAX_NAMES:
        lines.append(f"and {len(plan.windows) - _MAX_NAMES} more windows")
    sharing = sorted({each.insight for each in shared})
    if sharing:
        parts = _count(len({each.id for each in shared}), "window or pane", "windows or panes")
        lines.append(f"shared: {parts}, used by {_names(sharing)} and by other insights")
    return lines


def placement_summary(groups: Iterable[ExplainedGroup]) -> list[str]:
    """Return lines about the traffic and the workers of the groups that a text would join."""
    return [line for group in groups for line in _group(group)]


def _window(window: Window, pane: Pane) -> str:
    length = "all points" if window.start is not None else in_words(window.size_ms).lower()
    if window.points is not msgspec.UNSET:
        length = f"spans of {window.points:,} points"
    ago = f", {in_words(window.offset_ms).lower()} ago" if window.offset_ms else ""
    key = f" for each {', '.join(pane.by)}" if pane.by else ""
    when = "at each point" if window.each_point else f"every {in_words(window.every_ms).lower()}"
    width = in_words(pane.width_ms).lower()
    return f"window of {pane.source.metric}: {length}{ago}{key}, {when}, from panes of {width}"


def _group(group: ExplainedGroup) -> Iterator[str]:
    read = [edge for edge in group.edges if edge.carries == "points"]
    written = [edge for edge in group.edges if edge.carries == "results"]
    if read:
        sources = _names(sorted({edge.source for edge in read}))
        yield f"reads {_rate(read, 'points')} of {sources}; writes {_rate(written, 'results')}"
    away = [edge for edge in group.edges if not edge.is_local]
    if away:
        yield f"sends {_bytes(away)} from site to site"
    for fragment in group.fragments:
        place = "no worker can run it"
        if fragment.worker is not None:
            state = "runs" if fragment.running else "would run"
            place = f"{state} on the worker {fragment.worker} at {fragment.site}"
        yield f"{_KINDS[fragment.kind]}: {place}"


_KINDS = {
    "whole": "computation",
    "partial": "panes of a site",
    "merge": "merge of the sites",
}


def _rate(edges: Sequence[ExplainedEdge], what: str) -> str:
    """Return the sum of the traffic of edges per second, as words."""
    counts = [edge.per_s for edge in edges]
    number = "an unknown number of"
    if counts and None not in counts:
        number = f"at most {sum(each for each in counts if each is not None):.3g}"
    return f"{number} {what}/s ({_bytes(edges)})"


def _bytes(edges: Sequence[ExplainedEdge]) -> str:
    sizes = [edge.bytes_per_s for edge in edges]
    if not sizes or None in sizes:
        return "unknown bytes/s"
    size = sum(each for each in sizes if each is not None)
    return f"{size:.0f} B/s" if size < 1000 else f"{size / 1000:.1f} kB/s"


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def _names(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
