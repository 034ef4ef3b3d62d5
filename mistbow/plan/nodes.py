"""The nodes of a plan: sources cut into panes, panes joined to windows, windows into insights."""

import hashlib
import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from mistbow.plan.contents import Content, content_of
from mistbow.plan.expressions import (
    ACCUMULATING,
    Aggregate,
    Expression,
    Measure,
    Source,
    rewrite,
    walk,
)
from mistbow.plan.ticks import At, Ticks


class Pane(msgspec.Struct, frozen=True, kw_only=True):
    """Points cut into ``(e - width_ms, e]`` at multiples of the width, aggregated by attributes.

    ``contents``: what it carries beside count, sum, least and greatest, sorted.
    """

    id: str
    source: Source
    by: tuple[str, ...]
    width_ms: int
    contents: tuple[Content, ...] = ()

    def __post_init__(self) -> None:
        if self.width_ms <= 0:
            raise ValueError(f"pane {self.id}: the width must be positive, not {self.width_ms}")


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The panes in ``(t - size_ms, t]`` at each tick t: each multiple of ``every_ms``, or the time
    of day ``at``.

    ``offset_ms`` shifts it into the past. ``contents``: what it takes of its panes beside count,
    sum, least and greatest, sorted. With ``each_point`` it holds what is needed for such windows
    that end at each point in ``(t - every_ms, t]``. ``start``: it is what accumulates since then
    (ms) got since the tick before.
    """

    id: str
    pane: str
    size_ms: int
    every_ms: int
    offset_ms: int = 0
    contents: tuple[Content, ...] = ()
    each_point: bool = False
    start: int | None = None
    at: At = msgspec.UNSET

    def __post_init__(self) -> None:
        if self.size_ms <= 0 or self.every_ms <= 0:
            raise ValueError(f"window {self.id}: size and interval must be positive")
        if self.offset_ms < 0:
            raise ValueError(f"window {self.id}: an offset leads into the past")
        if self.each_point and "points" not in self.contents:
            raise ValueError(f"window {self.id}: what ends at each point needs them all")
        if self.start is not None and (self.size_ms, self.offset_ms) != (self.every_ms, 0):
            raise ValueError(f"window {self.id}: what accumulates takes each point once")
        if self.each_point and self.at is not msgspec.UNSET:
            raise ValueError(f"window {self.id}: at points there is no time of day")

    @property
    def ticks(self) -> Ticks:
        """When it ends."""
        return Ticks(self.every_ms, self.at)

    @property
    def span_ms(self) -> int:
        """How much time its panes cover."""
        return self.size_ms + (self.every_ms if self.each_point and self.start is None else 0)

    @property
    def reach_ms(self) -> int:
        """How far before its tick it begins."""
        return self.span_ms + self.offset_ms


class Counted(msgspec.Struct, frozen=True):
    """A value only where the points of a key, counted since a start, pass a multiple of ``every``.

    ``counts`` are of these points, each of which is in one of them.
    """

    every: int
    counts: tuple[Expression, ...]


class Insight(msgspec.Struct, frozen=True, kw_only=True):
    """One insight: its expression at each tick after ``since``, where ``filter`` holds.

    Ticks are the multiples of ``every_ms``, or the time of day ``at``. With ``each_point`` it has a
    value at each point, or at those ``counted``, told every ``every_ms``.
    ``uid`` names its rows in the results stream; times are in milliseconds (since the epoch).
    """

    uid: str
    expression: Expression
    by: tuple[str, ...]
    every_ms: int
    since: int
    filter: Expression | None = None
    each_point: bool = False
    counted: Counted | None = None
    at: At = msgspec.UNSET

    def __post_init__(self) -> None:
        if self.counted is not None and not self.each_point:
            raise ValueError(f"{self.uid}: what counts points has its values at points")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Insights, with the windows and panes that they share.

    Raises ``ValueError`` where a reference leads nowhere or a pane does not divide its windows.
    """

    insights: tuple[Insight, ...]
    windows: tuple[Window, ...] = ()
    panes: tuple[Pane, ...] = ()

    def __post_init__(self) -> None:
        panes = {pane.id: pane for pane in self.panes}
        windows = {window.id: window for window in self.windows}
        for window in self.windows:
            pane = panes.get(window.pane)
            if pane is None:
                raise ValueError(f"window {window.id} names an unknown pane {window.pane}")
            if any(
                length % pane.width_ms
                for length in (window.size_ms, window.ticks.step_ms, window.offset_ms)
            ):
                raise ValueError(f"window {window.id} is no multiple of its pane {pane.id}")
            if not set(window.contents) <= set(pane.contents):
                raise ValueError(f"pane {pane.id} does not carry all that {window.id} takes")
        for insight in self.insights:
            for node in expressions_of(insight):
                if isinstance(node, Measure):
                    _check_measure(node, insight, windows)

    @property
    def grain_ms(self) -> int:
        """How often windows close: all do so at multiples of this."""
        return math.gcd(*(window.ticks.step_ms for window in self.windows))

    @property
    def reach_ms(self) -> int:
        """How far before its tick the longest window begins."""
        return max(window.reach_ms for window in self.windows)

    @property
    def lowered(self) -> bool:
        """Whether every aggregate has become a measure of a shared window."""
        return not any(
            isinstance(node, Aggregate)
            for insight in self.insights
            for node in expressions_of(insight)
        )


def _check_measure(measure: Measure, insight: Insight, windows: Mapping[str, Window]) -> None:
    for id in filter(None, (measure.window, measure.other)):
        window = windows.get(id)
        if window is None:
            raise ValueError(f"{insight.uid} names an unknown window {id}")
        if window.each_point != insight.each_point:
            raise ValueError(f"{insight.uid}: {window.id} has values at other times")
        if (window.start is not None) != (measure.function in ACCUMULATING):
            raise ValueError(f"{insight.uid}: {measure.function} is not of {window.id}")
        needed = None if window.each_point else content_of(measure.function)
        if needed not in (None, *window.contents):
            raise ValueError(f"{insight.uid}: {window.id} does not do for {measure.function}")


def expressions_of(insight: Insight) -> list[Expression]:
    """Return all nodes of an insight's expression and filter, and of what counts its points."""
    counts = () if insight.counted is None else insight.counted.counts
    filters = () if insight.filter is None else (insight.filter,)
    return [node for root in (insight.expression, *filters, *counts) for node in walk(root)]


def rewritten(insight: Insight, change: Callable[[Expression], Expression]) -> Insight:
    """Return the insight with ``change`` applied to every node of it, operands first."""
    counted = insight.counted
    if counted is not None:
        counts = tuple(rewrite(count, change) for count in counted.counts)
        counted = msgspec.structs.replace(counted, counts=counts)
    return msgspec.structs.replace(
        insight,
        expression=rewrite(insight.expression, change),
        filter=None if insight.filter is None else rewrite(insight.filter, change),
        counted=counted,
    )


def fingerprint(value: Any) -> str:
    """Return a short name made from the content of a plan's node."""
    content = msgspec.json.encode(value, order="deterministic")
    return hashlib.blake2s(content, digest_size=6).hexdigest()
