"""The progress of insights, in the values that the API returns."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from analytics.plan.fragments import Fragment
from analytics.plan.status import FragmentStatus
from analytics_enabler.deployments.model import Generation


class Progress(StrEnum):
    """The progress of an insight or a deployment; the values are listed from worst to best."""

    FAILED = "failed"
    WAITING = "waiting for a worker"
    SHED = "shed"
    STARTING = "starting"
    LAGGING = "lagging"
    RUNNING = "running"


_RANK = {progress: rank for rank, progress in enumerate(Progress)}


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """The progress of an insight or a deployment.

    ``since``: the time at which shedding, lagging or an outage began (ms since the epoch); None:
    the insight is neither shed nor lags, and no outage delays it.
    """

    progress: Progress
    since: int | None = None


def progress_of(
    generation: Generation,
    desired: Fragment | None,
    status: FragmentStatus | None,
    *,
    in_former_version: bool = False,
) -> Progress:
    """Return the progress of an insight, given the fragment that writes the insight's results.

    ``desired``: the fragment that should run; None: no fragment is planned. ``status``: the
    worker's report about this fragment; None: the worker does not report the fragment.
    ``in_former_version``: whether the version that is being replaced computes the insight.
    """
    if status is None or desired is None:
        return Progress.STARTING
    if status.state == "failed":
        return Progress.FAILED
    has_result = status.frontier >= generation.first_tick
    is_computed = runs(status, desired) or (in_former_version and status.state == "running")
    return Progress.RUNNING if is_computed and has_result else Progress.STARTING


def runs(status: FragmentStatus, desired: Fragment) -> bool:
    """Return whether the desired version of a fragment runs and has replaced earlier versions."""
    return (status.state, status.active) == ("running", desired.fingerprint)


def overload(statuses: Iterable[FragmentStatus]) -> Iterator[ProgressReport]:
    """Yield a report for each fragment that is shed or lags."""
    for status in statuses:
        if status.shed_since is not None:
            yield ProgressReport(Progress.SHED, status.shed_since)
        elif status.lagging_since is not None:
            yield ProgressReport(Progress.LAGGING, status.lagging_since)


def worst(reports: Iterable[ProgressReport]) -> ProgressReport:
    """Return the report with the worst progress; without reports, return ``RUNNING``.

    Among reports with the same progress, the report with the earliest ``since`` is returned.
    """
    return min(
        reports,
        key=lambda report: (_RANK[report.progress], report.since or 0),
        default=ProgressReport(Progress.RUNNING),
    )
