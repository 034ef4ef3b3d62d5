"""The panes and windows of a plan, named by their content.

So a name stays the same whatever else runs, and what is named alike is computed once.
"""

from collections.abc import Collection

import msgspec

from mistbow.plan.contents import Content
from mistbow.plan.expressions import Source
from mistbow.plan.nodes import Pane, Window, fingerprint
from mistbow.plan.ticks import At


def pane_of(
    source: Source, by: tuple[str, ...], width_ms: int, contents: Collection[Content]
) -> Pane:
    """Return the pane of these points and keys, ``width_ms`` wide."""
    carried = tuple(sorted(contents))
    name = f"p-{fingerprint((source, by, width_ms, *carried))}"
    return Pane(id=name, source=source, by=by, width_ms=width_ms, contents=carried)


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
) -> Window:
    """Return the window over a pane.

    Neither the pane's width nor what it carries is part of the window's name: these depend on
    what else runs.
    """
    shape = (size_ms, every_ms, offset_ms, each_point, *([] if start is None else [start]))
    told = () if at is msgspec.UNSET else (at,)
    return Window(
        id=f"w-{fingerprint((pane.source, pane.by, *shape, *told))}",
        pane=pane.id,
        size_ms=size_ms,
        every_ms=every_ms,
        offset_ms=offset_ms,
        contents=tuple(sorted(contents)),
        each_point=each_point,
        start=start,
        at=at,
    )


def these(count: int, noun: str) -> str:
    """Return so many things in words.

    >>> these(1, "pane"), these(2, "pane")
    ('1 pane', '2 panes')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
