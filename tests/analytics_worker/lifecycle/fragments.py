"""Fragments for tests that run no query."""

from analytics.plan.expressions import Measure, Source
from analytics.plan.fragments import Merge, Partial, StreamLocation, Whole
from analytics.plan.nodes import Insight, Pane, Plan, Window
from mistbow.streams.schemas import panes_stream


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


def merge_of(*partials: str) -> Merge:
    """Return a merge at the site ``n1`` of partial fragments (their ids) of the sites so named."""
    window = Window(id="w", pane="p", size_ms=1000, every_ms=1000)
    insight = Insight(uid="i", expression=Measure("SUM", "w"), by=(), every_ms=1000, since=0)
    return Merge(
        id="m",
        sources=tuple(StreamLocation(each, panes_stream(each)) for each in partials),
        target=StreamLocation("n1", "results/m"),
        decisions=StreamLocation("n1", "decisions/m"),
        plan=Plan(
            insights=(insight,),
            windows=(window,),
            panes=(Pane(id="p", source=Source("x"), by=(), width_ms=1000),),
        ),
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
