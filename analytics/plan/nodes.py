"""The nodes of a plan: panes, which aggregate points; windows, which merge panes; and insights."""

import hashlib
import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from analytics.plan.expressions import Aggregate, Expression, Measure, Source, rewrite, walk
from analytics.plan.functions import ACCUMULATED, Content, spec_of
from analytics.plan.ticks import At, Ticks


class Pane(msgspec.Struct, frozen=True, kw_only=True):
    """The panes of a source: aggregates of its points for each key and each interval.

    The intervals are ``(e - width_ms, e]`` for the multiples e of ``width_ms``. ``by``: the
    attributes of the keys. ``contents``: the sorted contents of a pane in addition to count, sum,
    minimum and maximum.
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
    """The merged panes in ``(t - size_ms, t]`` at each tick t.

    Ticks are the multiples of ``every_ms``, or the times of day ``at``.

    ``offset_ms`` shifts the window into the past. ``contents``: the sorted contents that the window
    reads from its panes, in addition to count, sum, minimum and maximum. ``each_point``: the window
    covers all shorter windows that end at the points in ``(t - every_ms, t]``. ``start``: the time
    (ms since the epoch) since which functions accumulate; if set, the window contains only the
    points since the previous tick. ``hold_ms``: if set, the window ends at the last multiple of
    this interval instead of its tick. ``points``: if set, functions have a value at every n-th
    point of a key since ``start``, over the points since the previous value.
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
    hold_ms: int | msgspec.UnsetType = msgspec.UNSET
    points: int | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        if self.size_ms <= 0 or self.every_ms <= 0:
            raise ValueError(f"window {self.id}: size and interval must be positive")
        if self.offset_ms < 0:
            raise ValueError(f"window {self.id}: the offset must not be negative")
        if self.each_point and "points" not in self.contents:
            raise ValueError(
                f"window {self.id}: windows that end at points need the content `points`"
            )
        if self.start is not None and (self.size_ms, self.offset_ms) != (self.every_ms, 0):
            raise ValueError(
                f"window {self.id}: an accumulator needs a tumbling window without offset"
            )
        if self.points is not msgspec.UNSET and (self.start is None or not self.each_point):
            raise ValueError(f"window {self.id}: `points` requires `start` and `each_point`")
        if self.each_point and self.at is not msgspec.UNSET:
            raise ValueError(f"window {self.id}: `at` cannot be combined with `each_point`")

    @property
    def ticks(self) -> Ticks:
        """The ticks at which the window ends."""
        return Ticks(self.every_ms, self.at)

    @property
    def span_ms(self) -> int:
        """The duration (ms) that the panes of the window cover."""
        return self.size_ms + (self.every_ms if self.each_point and self.start is None else 0)

    @property
    def lookback_ms(self) -> int:
        """The maximum duration (ms) from the beginning of the window to its tick."""
        return self.span_ms + self.held_ms + self.offset_ms

    @property
    def held_ms(self) -> int:
        """The interval (ms) for which a value is held; 0: the window ends at each tick."""
        return 0 if self.hold_ms is msgspec.UNSET else self.hold_ms


class Counted(msgspec.Struct, frozen=True):
    """A condition: the number of a key's points since a start passes a multiple of ``every``.

    Points with equal times are counted together. The insight has values only at the times at which
    the condition is true. ``counts``: expressions that count disjoint sets of the points; the
    number is the sum of these counts.
    """

    every: int
    counts: tuple[Expression, ...]

    def rewritten(self, change: Callable[[Expression], Expression]) -> "Counted":
        """Return the condition after ``change`` was applied to every node of its counts."""
        counts = tuple(rewrite(count, change) for count in self.counts)
        return msgspec.structs.replace(self, counts=counts)


class Insight(msgspec.Struct, frozen=True, kw_only=True):
    """One insight of a plan: an expression that has values at the ticks after ``since``.

    Ticks are the multiples of ``every_ms``, or the times of day ``at``. If ``each_point`` is set,
    the values are at the points instead (``counted``: at the points at which this condition is
    true), and are computed every ``every_ms``. ``filter``: the condition under which a value is a
    result; None: always. ``uid`` identifies the rows of the insight in the stream of results. Times
    are in ms since the epoch.
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
            raise ValueError(f"{self.uid}: `counted` requires `each_point`")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Insights, with the windows and panes that they share.

    Raises ``ValueError`` if a node refers to an unknown or unsuitable node, for example if the
    length of a window is not a multiple of the width of its panes.
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
                for length in (
                    window.size_ms,
                    window.ticks.step_ms,
                    window.offset_ms,
                    window.held_ms,
                )
            ):
                raise ValueError(
                    f"window {window.id} is not a multiple of the width of pane {pane.id}"
                )
            if not set(window.contents) <= set(pane.contents):
                raise ValueError(f"pane {pane.id} lacks contents that window {window.id} needs")
        for insight in self.insights:
            for node in expressions_of(insight):
                if isinstance(node, Measure):
                    _check_measure(node, insight, windows)

    @property
    def grain_ms(self) -> int:
        """The interval (ms) at whose multiples all windows close."""
        return math.gcd(*(window.ticks.step_ms for window in self.windows))

    @property
    def lookback_ms(self) -> int:
        """The greatest lookback (ms) of all windows."""
        return max(window.lookback_ms for window in self.windows)

    @property
    def lowered(self) -> bool:
        """Whether every ``Aggregate`` was lowered to a ``Measure`` of a shared window."""
        return not any(
            isinstance(node, Aggregate)
            for insight in self.insights
            for node in expressions_of(insight)
        )


def _check_measure(measure: Measure, insight: Insight, windows: Mapping[str, Window]) -> None:
    for id in measure.windows:
        window = windows.get(id)
        if window is None:
            raise ValueError(f"{insight.uid} names an unknown window {id}")
        if window.each_point != insight.each_point:
            raise ValueError(
                f"{insight.uid}: `each_point` of window {window.id} is not that of the insight"
            )
        spans_points = window.points is not msgspec.UNSET
        if window.start is None and measure.function in ACCUMULATED:
            raise ValueError(
                f"{insight.uid}: window {window.id} lacks the start that {measure.function} needs"
            )
        if spans_points and measure.function in ACCUMULATED:
            raise ValueError(
                f"{insight.uid}: {measure.function} accumulates, but window {window.id} has "
                "`points`"
            )
        if window.start is not None and not spans_points and measure.function not in ACCUMULATED:
            raise ValueError(
                f"{insight.uid}: window {window.id} has a start, but {measure.function} is not an "
                "accumulator"
            )
        needed = None if window.each_point else spec_of(measure.function).content
        if needed not in (None, *window.contents):
            raise ValueError(
                f"{insight.uid}: window {window.id} lacks a content that {measure.function} needs"
            )


class Computed(Protocol):
    """An insight of a plan, or its definition: expressions compute its value."""

    @property
    def expression(self) -> Expression:
        """The expression of the value."""
        ...

    @property
    def filter(self) -> Expression | None:
        """The condition under which a value is a result; None: always."""
        ...

    @property
    def counted(self) -> Counted | None:
        """The condition on the number of points; None: no condition."""
        ...


def expressions_of(insight: Computed) -> list[Expression]:
    """Return all nodes in the expression, ``filter`` and ``counted.counts`` of an insight."""
    counts = () if insight.counted is None else insight.counted.counts
    filters = () if insight.filter is None else (insight.filter,)
    return [node for root in (insight.expression, *filters, *counts) for node in walk(root)]


def rewrite_insight(insight: Insight, change: Callable[[Expression], Expression]) -> Insight:
    """Return the insight after ``change`` was applied to every node, operands before parents."""
    return msgspec.structs.replace(
        insight,
        expression=rewrite(insight.expression, change),
        filter=None if insight.filter is None else rewrite(insight.filter, change),
        counted=None if insight.counted is None else insight.counted.rewritten(change),
    )


def fingerprint(value: Any) -> str:
    """Return a short hash of the content of a fragment or of a part of a plan, in hexadecimal."""
    content = msgspec.json.encode(value, order="deterministic")
    return hashlib.blake2s(content, digest_size=6).hexdigest()
