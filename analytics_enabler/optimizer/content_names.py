"""Names of panes and windows, derived from their content.

A name does not depend on other running insights. Panes or windows with the same name are computed
only once.
"""

from collections.abc import Collection

import msgspec

from analytics.plan.expressions import Source
from analytics.plan.functions import Content
from analytics.plan.nodes import Pane, Window, fingerprint
from analytics.plan.ticks import At


def pane_of(
    source: Source, by: tuple[str, ...], width_ms: int, contents: Collection[Content]
) -> Pane:
    """Return the pane over a source with the keys ``by`` and the width ``width_ms``."""
    ordered = tuple(sorted(contents))
    name = f"p-{fingerprint((source, by, width_ms, *ordered))}"
    return Pane(id=name, source=source, by=by, width_ms=width_ms, contents=ordered)


def window_of(
    pane: Pane,
    size_ms: int,
    every_ms: int,
    offset_ms: int,
    contents: Collection[Content],
    *,
    each_point: bool = False,
    start: int | None = None,
    at: At = msgspec.UNSET,
    hold_ms: int | msgspec.UnsetType = msgspec.UNSET,
    points: int | msgspec.UnsetType = msgspec.UNSET,
) -> Window:
    """Return the window over a pane.

    The name of the window includes neither the width nor the contents of the pane, because the
    width and the contents depend on other running insights. ``start``: the time (ms) since which
    functions accumulate; None for other functions. ``points``: see ``Window``.
    """
    shape = (size_ms, every_ms, offset_ms, each_point, *([] if start is None else [start]))
    phase = () if at is msgspec.UNSET else (at,)
    hold = () if hold_ms is msgspec.UNSET else ("hold", hold_ms)
    span = () if points is msgspec.UNSET else ("points", points)
    return Window(
        id=f"w-{fingerprint((pane.source, pane.by, *shape, *phase, *hold, *span))}",
        pane=pane.id,
        size_ms=size_ms,
        every_ms=every_ms,
        offset_ms=offset_ms,
        contents=tuple(sorted(contents)),
        each_point=each_point,
        start=start,
        at=at,
        hold_ms=hold_ms,
        points=points,
    )


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the singular or the plural.

    >>> counted(1, "pane"), counted(2, "pane")
    ('1 pane', '2 panes')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
