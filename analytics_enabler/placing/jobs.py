"""What runs, as schedulers see it: a job for each group."""

from collections.abc import Sequence

import msgspec

from analytics_enabler.fragments import Tasks
from analytics_enabler.groups import Group
from analytics_enabler.placing.traffic import Series, expected_rate
from mistbow.fog.jobs import Job, Stream, Task
from mistbow.plan.fragments import Fragment, Merge, Partial
from mistbow.plan.operators import user_operators_of

PARTIAL_CORES, PARTIAL_MEMORY_MB = 0.1, 64.0
"""What a partial is taken to need: a query of its own in Spark's driver, which idles mostly."""

RESULT_CORES, RESULT_MEMORY_MB = 0.1, 96.0
"""The same of what makes results, which holds windows too."""


def job_of(group: Group, tasks: Tasks, sink: str, series: Sequence[Series]) -> Job:
    """Return the job of a group's tasks, whose results are wanted at the site ``sink``.

    The ``series`` of all sites tell how much is to be expected of their partials.
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
            Stream(source=name, target=merge, bytes_per_s=expected_rate(part, series))
            for name, part in partials.items()
            for merge in merges
        ),
        scheduler=group.scheduler,
        settings=dict(group.options.settings),
        sink=sink,
        confined=confined,
        cap=group.options.cap,
    )


def question_of(group: Group) -> str:
    """Return the name of the question by which a group's scheduler is asked."""
    return job_of(group, {}, "", ()).question


def _task(name: str, fragment: Fragment) -> Task:
    match fragment:
        case Partial(source=source):
            return Task(
                id=name, cores=PARTIAL_CORES, memory_mb=PARTIAL_MEMORY_MB, pinned=source.site
            )
        case Merge():
            return Task(id=name, cores=RESULT_CORES, memory_mb=RESULT_MEMORY_MB)
        case _:
            return Task(
                id=name,
                cores=RESULT_CORES,
                memory_mb=RESULT_MEMORY_MB,
                pinned=fragment.source.site,
            )
