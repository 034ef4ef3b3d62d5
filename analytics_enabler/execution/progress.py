"""How far insights are, in words."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from analytics_enabler.deployments.model import Generation
from mistbow.plan.fragments import Fragment
from mistbow.plan.status import FragmentStatus


class Progress(StrEnum):
    """How far an insight or a deployment is."""

    WAITING = "waiting for a worker"
    STARTING = "starting"
    RUNNING = "running"
    FAILED = "failed"
    SHED = "shed"
    LAGGING = "lagging"


@dataclass(frozen=True, slots=True)
class Reached:
    """How far something is; of what is shed or lags, since when (ms since the epoch)."""

    progress: Progress
    since: int | None = None


WORST_FIRST = (
    Progress.FAILED,
    Progress.WAITING,
    Progress.SHED,
    Progress.STARTING,
    Progress.LAGGING,
    Progress.RUNNING,
)


def progress_of(
    generation: Generation, wanted: Fragment | None, status: FragmentStatus | None
) -> Progress:
    """Return how far an insight is whose results come of the fragment ``wanted``."""
    if status is None or wanted is None:
        return Progress.STARTING
    if status.state == "failed":
        return Progress.FAILED
    done = status.frontier >= generation.first_tick
    return Progress.RUNNING if runs(status, wanted) and done else Progress.STARTING


def runs(status: FragmentStatus, wanted: Fragment) -> bool:
    """Return whether it is this version whose frontier is told, not one that it is to replace."""
    return (status.state, status.active) == ("running", wanted.fingerprint)


def burdens(parts: Iterable[FragmentStatus]) -> Iterator[Reached]:
    """Yield of which of an insight's fragments the worker does less than it should."""
    for part in parts:
        if part.shed_since is not None:
            yield Reached(Progress.SHED, part.shed_since)
        elif part.lagging_since is not None:
            yield Reached(Progress.LAGGING, part.lagging_since)


def worst(found: Iterable[Reached]) -> Reached:
    """Return the least far; of none, that all is as it should be."""
    return min(
        found,
        key=lambda each: (WORST_FIRST.index(each.progress), each.since or 0),
        default=Reached(Progress.RUNNING),
    )
