"""The conversion of groups to jobs, which schedulers place."""

from collections.abc import Callable

import msgspec

from analytics.plan.demand import demand_of
from analytics.plan.fragments import Fragment, Merge, Partial
from analytics.plan.logical_operators import user_operators_of
from analytics_enabler.catalogue import AnySeries
from analytics_enabler.fragments import Tasks, data_site, sites_of
from analytics_enabler.groups import Group
from analytics_enabler.scheduling.driver.traffic import estimate_pane_bytes
from analytics_enabler.scheduling.model.demands import FragmentCost
from analytics_enabler.scheduling.model.jobs import Job, Task, TaskStream

CostOf = Callable[[Fragment], FragmentCost]
"""A function that returns the demand of a fragment."""


def constant_cost(fragment: Fragment) -> FragmentCost:
    """Return the demand of a fragment of this kind, whatever its plan."""
    demand = demand_of(fragment)
    return FragmentCost(cores=demand.cores, memory_mb=demand.memory_mb)


def job_of(
    group: Group,
    tasks: Tasks,
    sink: str,
    series: AnySeries,
    cost_of: CostOf = constant_cost,
) -> Job:
    """Return the job of a group with these tasks; ``sink``: the site that receives the results.

    ``cost_of``: returns the demand of each task. Traffic that is missing there is estimated from
    ``series``, the series at all sites.
    """
    confined = group.options.confined
    labels = {} if confined is None else {confined.label: confined.value}
    partials = {name: part for name, part in tasks.items() if isinstance(part, Partial)}
    merges = [name for name, part in tasks.items() if isinstance(part, Merge)]
    return Job(
        id=group.id,
        tasks=tuple(
            msgspec.structs.replace(
                _task(name, fragment, cost_of(fragment)),
                labels=labels,
                operators=tuple(sorted(map(str, user_operators_of(fragment)))),
            )
            for name, fragment in tasks.items()
        ),
        streams=tuple(
            TaskStream(source=name, target=merge, bytes_per_s=_traffic(part, series, cost_of))
            for name, part in partials.items()
            for merge in merges
        ),
        scheduler=group.scheduler,
        settings=dict(group.options.settings),
        sink=sink,
        confined=confined,
        cap=group.options.cap,
    )


def request_name_of(group: Group) -> str:
    """Return the name of the scheduling request that includes a group."""
    return job_of(group, {}, "", ()).request_name


def _task(name: str, fragment: Fragment, cost: FragmentCost) -> Task:
    constant = demand_of(fragment)
    return Task(
        id=name,
        cores=constant.cores if cost.cores is None else cost.cores,
        memory_mb=constant.memory_mb if cost.memory_mb is None else cost.memory_mb,
        pinned=data_site(fragment),
        sites=sites_of(fragment),
        points_per_s=cost.points_per_s or 0.0,
        check_core_s=cost.check_core_s or 0.0,
    )


def _traffic(part: Partial, series: AnySeries, cost_of: CostOf) -> float:
    known = cost_of(part).bytes_per_s
    return estimate_pane_bytes(part, series) if known is None else known
