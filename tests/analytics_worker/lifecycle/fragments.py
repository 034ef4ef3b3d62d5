"""Fragments for tests that run no query."""

from analytics.plan.expressions import Source
from analytics.plan.fragments import Partial, StreamLocation, Whole
from analytics.plan.nodes import Pane, Plan


def partial(fragment_id: str) -> Partial:
    """Return a partial fragment of the site ``n1``."""
    return Partial(
        id=fragment_id,
        source=StreamLocation("n1", "raw"),
        target=StreamLocation("n1", "panes"),
        panes=(Pane(id="p", source=Source("x"), by=(), width_ms=1000),),
        grain_ms=1000,
        lookback_ms=5000,
        begin=0,
    )


def whole(salience: int = 0) -> Whole:
    """Return a whole fragment of the site ``n1``, without insights."""
    return Whole(
        id="w",
        source=StreamLocation("n1", "raw"),
        target=StreamLocation("n1", "results"),
        plan=Plan(insights=(), windows=(), panes=()),
        salience=salience,
    )
