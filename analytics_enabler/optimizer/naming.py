"""The panes and windows of a plan, named by their content.

So a name stays the same whatever else runs, and what is named alike is computed once.
"""

from mistbow.plan.expressions import Source
from mistbow.plan.nodes import Pane, Window, fingerprint


def pane_of(source: Source, by: tuple[str, ...], width_ms: int) -> Pane:
    """Return the pane of these points and keys, ``width_ms`` wide."""
    name = f"p-{fingerprint((source, by, width_ms))}"
    return Pane(id=name, source=source, by=by, width_ms=width_ms)


def window_of(pane: Pane, size_ms: int, every_ms: int) -> Window:
    """Return the window over a pane; the pane's width is no part of the window's name."""
    name = f"w-{fingerprint((pane.source, pane.by, size_ms, every_ms))}"
    return Window(id=name, pane=pane.id, size_ms=size_ms, every_ms=every_ms)
