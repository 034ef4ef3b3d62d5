"""The conversion of groups to jobs, which schedulers place."""

from collections.abc import Sequence

import msgspec

from analytics.plan.demand import demand_of
from analytics.plan.fragments import Fragment, Merge, Partial
from analytics.plan.logical_operators import user_operators_of
from analytics_enabler.catalogue import SeriesLocation
from analytics_enabler.fragments import Tasks, data_site
from analytics_enabler.groups import Group
from analytics_enabler.scheduling.driver.traffic import estimate_pane_bytes
from analytics_enabler.scheduling.model.jobs import Job, Task, TaskStream


def job_of(group: Group, tasks: Tasks, sink: str, series: Sequence[SeriesLocation]) -> Job:
    """Return the job of a group with these tasks; ``sink``: the site that receives the results.

    The traffic from partial fragments to the merge is estimated from ``series``, the series at all
    sites.
    """
    confined = group.options.confined
    labels = {} if confined is None else {confined.label: confined.value}
    partials = {name: part for name, part in tasks.items() if isinstance(part, Partial)}
    merges = [name for name, part in tasks.items() if isinstance(part, Merge)]
    return Job(
        id=group.id,
        tasks=tuple(
            msgspec.structs.replace(
                _task(name, fragment),
                labels=labels,
                operators=tuple(sorted(map(str, user_operators_of(fragment)))),
            )
            for name, fragment in tasks.items()
        ),
        streams=tuple(
            TaskStream(source=name, target=merge, bytes_per_s=estimate_pane_bytes(part, series))
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


def _task(name: str, fragment: Fragment) -> Task:
    demand = demand_of(fragment)
    site = data_site(fragment)
    return Task(id=name, cores=demand.cores, memory_mb=demand.memory_mb, pinned=site)
