"""How far insights are, in words."""

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


WORST_FIRST = (Progress.FAILED, Progress.WAITING, Progress.STARTING, Progress.RUNNING)


def progress_of(
    generation: Generation, wanted: Fragment | None, status: FragmentStatus | None
) -> Progress:
    """Return how far an insight is whose results come of the fragment ``wanted``."""
    if status is None or wanted is None:
        return Progress.STARTING
    if status.state == "failed":
        return Progress.FAILED
    accepted = status.fingerprint == wanted.fingerprint and status.state == "running"
    done = status.frontier >= generation.first_tick
    return Progress.RUNNING if accepted and done else Progress.STARTING
