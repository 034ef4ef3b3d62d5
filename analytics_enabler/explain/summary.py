"""The summary of an explanation: the computations, shared parts and workers of a text."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from analytics.insight_models import ExplainedEdge, ExplainedGroup, Shared
from analytics.plan.expressions import Measure
from analytics.plan.nodes import Pane, Plan, Window, expressions_of
from analytics.plan.text import function_text, source_text
from grammar.units import in_words
from mistbow.first_names import first_names

_MAX_NAMES = 5


def plan_summary(plan: Plan, shared: Sequence[Shared]) -> list[str]:
    """Return lines about the optimized plan of a text; ``shared``: what its insights share."""
    if not plan.insights:
        return []
    computed = _computed_windows(plan)
    metrics = sorted({pane.source.metric for pane in plan.panes})
    counts = (
        _count(len(plan.insights), "insight"),
        _count(sum(len(each.functions) for each in computed), "aggregate"),
        _count(len(plan.windows), "window"),
        _count(len(plan.panes), "pane"),
    )
    lines = [f"{', '.join(counts)}; metrics read: {first_names(metrics, _MAX_NAMES)}"]
    lines += map(_line, computed[:_MAX_NAMES])
    more = sum(len(each.windows) for each in computed[_MAX_NAMES:])
    if more:
        lines.append(f"and {_count(more, 'more window', 'more windows')}")
    sharing = sorted({each.insight for each in shared})
    if sharing:
        parts = _count(len({each.id for each in shared}), "window or pane", "windows or panes")
        lines.append(
            f"shared: {parts}, used by {first_names(sharing, _MAX_NAMES)} and by other insights"
        )
    return lines


def placement_summary(groups: Iterable[ExplainedGroup]) -> list[str]:
    """Return lines about the traffic and the workers of the groups that a text would join."""
    return [line for group in groups for line in _group(group)]


@dataclass(frozen=True, slots=True)
class _ComputedWindows:
    """Windows of one pane that differ only in their offsets.

    ``functions``: the functions that are computed over them, as text.
    """

    pane: Pane
    windows: tuple[Window, ...]
    functions: tuple[str, ...]


def _computed_windows(plan: Plan) -> list[_ComputedWindows]:
    """Return the windows of a plan; windows that differ only in their offsets form one item."""
    functions: dict[str, set[str]] = defaultdict(set)
    for insight in plan.insights:
        for node in expressions_of(insight):
            if isinstance(node, Measure):
                name = function_text(node)
                for window_id in node.windows:
                    functions[window_id].add("latest value" if name == "LATEST" else name)
    panes = {pane.id: pane for pane in plan.panes}
    alike: dict[Window, list[Window]] = defaultdict(list)
    for window in plan.windows:
        alike[msgspec.structs.replace(window, id="", offset_ms=0)].append(window)
    return [
        _ComputedWindows(
            panes[windows[0].pane],
            tuple(windows),
            tuple(sorted(set().union(*(functions[each.id] for each in windows)))),
        )
        for windows in alike.values()
    ]


def _line(computed: _ComputedWindows) -> str:
    pane, window = computed.pane, computed.windows[0]
    functions = ", ".join(computed.functions) or "points"
    key = f" for each {', '.join(pane.by)}" if pane.by else ""
    when = f"every {_words(window.every_ms)}"
    if window.at is not msgspec.UNSET:
        when += f" at {window.at}"
    elif window.points is not msgspec.UNSET:
        when = f"every {window.points:,} points"
    elif window.each_point:
        when = f"at each point, in steps of {_words(window.every_ms)}"
    return (
        f"{functions} of {source_text(pane.source)}: {_length(computed.windows)}{key}, {when}, "
        f"from panes of {_words(pane.width_ms)}"
    )


def _length(windows: Sequence[Window]) -> str:
    """Return the length and the offsets of windows that differ only in their offsets, as text."""
    window, offsets = windows[0], sorted(each.offset_ms for each in windows)
    if window.points is not msgspec.UNSET:
        return f"the last {window.points:,} points"
    if window.start is not None:
        return "all points since the deployment"
    length = _words(window.size_ms)
    if len(offsets) > 1:
        first = f"{_words(offsets[0])} ago" if offsets[0] else "now"
        return f"{len(offsets)} windows of {length} from {first} to {_words(offsets[-1])} ago"
    return f"{length}, {_words(offsets[0])} ago" if offsets[0] else length


def _words(millis: int) -> str:
    return in_words(millis).lower().replace("millis", "milliseconds")


def _group(group: ExplainedGroup) -> Iterator[str]:
    read = [edge for edge in group.edges if edge.carries == "points"]
    written = [edge for edge in group.edges if edge.carries == "results"]
    if read:
        sources = first_names(sorted({edge.source for edge in read}), _MAX_NAMES)
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
