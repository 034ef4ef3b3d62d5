"""What fragments save by being where the points are, which no rule over a plan decides."""

from collections.abc import Iterable, Sequence

from analytics_enabler.explain.edges import Flows
from analytics_enabler.fragments import MERGE, Tasks
from analytics_enabler.optimizer.naming import these
from mistbow.insights import ExplainedEdge, ExplainedSaving
from mistbow.plan.fragments import Merge, Partial
from mistbow.plan.sampling import ByLot


def savings_of(tasks: Tasks, edges: Sequence[ExplainedEdge], flows: Flows) -> list[ExplainedSaving]:
    """Return what is saved by making panes, and by drawing samples, where the points are.

    ``edges`` are those of the tasks.
    """
    drawn = _sampling(tasks, flows)
    return [*([_pre_aggregation(edges)] if MERGE in tasks else []), *drawn]


def _pre_aggregation(edges: Sequence[ExplainedEdge]) -> ExplainedSaving:
    panes = [edge for edge in edges if edge.carries == "panes"]
    away = {edge.source for edge in panes if not edge.is_local}
    crossing = [edge.bytes_per_s for edge in panes if edge.source in away]
    points = [edge.bytes_per_s for edge in edges if edge.target in away]
    return ExplainedSaving(
        step="pre_aggregate",
        did=f"{these(len(panes), 'site')} made into panes, {len(away)} away from the merge",
        unit="bytes from site to site",
        per_s=_sum(crossing),
        instead_of=_sum(points),
    )


def _sampling(tasks: Tasks, flows: Flows) -> list[ExplainedSaving]:
    readers = [each for each in tasks.values() if not isinstance(each, Merge)]
    read = [
        (each.source, pane)
        for each in readers
        for pane in (each.panes if isinstance(each, Partial) else each.plan.panes)
    ]
    drawn = [(place, pane) for place, pane in read if isinstance(pane.source.sampling, ByLot)]
    if not drawn:
        return []
    sampled, panes = ({pane.id for _, pane in each} for each in (drawn, read))
    return [
        ExplainedSaving(
            step="push_sampling",
            did=f"{these(len(sampled), 'pane')} of {len(panes)} drawn where points are read",
            unit="points that are kept",
            per_s=_sum(flows.kept(place, pane) for place, pane in drawn),
            instead_of=_sum(flows.read(place, [pane]) for place, pane in drawn),
        )
    ]


def _sum(known: Iterable[float | None]) -> float | None:
    each = list(known)
    return None if None in each else sum(one for one in each if one is not None)
