"""The traffic that is saved when fragments run at the sites that store the points.

The savings depend on the placement of the fragments, so the steps of the optimizer do not include
the savings.
"""

from collections.abc import Iterable, Sequence

from analytics.insight_models import ExplainedEdge, ExplainedSaving
from analytics.plan.fragments import Merge, Partial
from analytics.plan.sampling import ProbabilitySampling
from analytics_enabler.explain.traffic import TrafficEstimates
from analytics_enabler.fragments import MERGE, Tasks
from analytics_enabler.optimizer.content_names import counted


def savings_of(
    tasks: Tasks, edges: Sequence[ExplainedEdge], traffic: TrafficEstimates
) -> list[ExplainedSaving]:
    """Return the traffic saved by pre-aggregation and by sampling where the points are stored.

    ``tasks``: the tasks of one group. ``edges``: the data flows of these tasks.
    """
    sampling = _sampling(tasks, traffic)
    return [*([_pre_aggregation(edges)] if MERGE in tasks else []), *sampling]


def _pre_aggregation(edges: Sequence[ExplainedEdge]) -> ExplainedSaving:
    panes = [edge for edge in edges if edge.carries == "panes"]
    away = {edge.source for edge in panes if not edge.is_local}
    crossing = [edge.bytes_per_s for edge in panes if edge.source in away]
    points = [edge.bytes_per_s for edge in edges if edge.target in away]
    return ExplainedSaving(
        step="pre_aggregate",
        did=(
            f"points of {counted(len(panes), 'site')} aggregated to panes,"
            f" {len(away)} not at the merge"
        ),
        unit="bytes from site to site",
        per_s=_sum(crossing),
        instead_of=_sum(points),
    )


def _sampling(tasks: Tasks, traffic: TrafficEstimates) -> list[ExplainedSaving]:
    readers = [each for each in tasks.values() if not isinstance(each, Merge)]
    read = [
        (each.source, pane)
        for each in readers
        for pane in (each.panes if isinstance(each, Partial) else each.plan.panes)
    ]
    drawn = [
        (location, pane)
        for location, pane in read
        if isinstance(pane.source.sampling, ProbabilitySampling)
    ]
    if not drawn:
        return []
    sampled, panes = ({pane.id for _, pane in each} for each in (drawn, read))
    return [
        ExplainedSaving(
            step="push_sampling",
            did=f"{counted(len(sampled), 'pane')} of {len(panes)} sampled where points are read",
            unit="sampled points",
            per_s=_sum(traffic.points_sampled(location, pane) for location, pane in drawn),
            instead_of=_sum(traffic.points_read(location, [pane]) for location, pane in drawn),
        )
    ]


def _sum(rates: Iterable[float | None]) -> float | None:
    """Return the sum of rates; None if any rate is unknown."""
    total = 0.0
    for rate in rates:
        if rate is None:
            return None
        total += rate
    return total
