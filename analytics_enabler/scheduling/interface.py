"""The interface of schedulers; other packages may implement it."""

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from analytics_enabler.scheduling.model.jobs import Job, Placement, Refusal, Setting
from analytics_enabler.scheduling.model.snapshot import Fog


class Decision(msgspec.Struct, frozen=True):
    """A placement, and the refusals that explain why tasks are not placed.

    A decision is valid if it satisfies these rules:

    - All tasks of a job are placed, or no task. As an exception, pinned tasks of a placed job may
      be missing, because results that lack the points of one site are better than no results.
    - Each job that is not placed has a refusal, and so has each missing pinned task. A refusal with
      a node gives the reason why this node does not run the task; a refusal without a node gives
      the reason why no node runs the task.
    - The shares of the nodes that run a task add up to 1.
    - Each node is eligible for its tasks (see ``Task``), and has enough free capacity for their
      demand.

    ``gaps``: job id -> the relative excess of the job's objective over a lower bound of the
    optimum; 0: the placement of the job is optimal. A scheduler may report them or not.
    """

    placement: Placement
    refusals: tuple[Refusal, ...] = ()
    gaps: Mapping[str, float] = {}

    def placed(self, jobs: Iterable[Job]) -> list[Job]:
        """Return those ``jobs`` that this decision places."""
        ids = {job for job, _ in self.placement.by_task}
        return [job for job in jobs if job.id in ids]


class Scheduler(Protocol):
    """A class that places jobs, declared as an entry point of the group ``mistbow.schedulers``.

    The class is constructed without arguments. A scheduler must be deterministic: the same
    settings, jobs, snapshot and placement give the same decision. The methods may raise any
    exception.

    The class may have an attribute ``Settings``: a msgspec struct with a field for each setting
    that queries may set; settings in queries must conform to this struct.
    """

    def prepare(self, settings: Mapping[str, Setting]) -> None:
        """Receive the settings; this method is called once, before ``schedule``.

        Settings from the configuration of the enabler are strings. A setting in a query overrides
        the enabler's setting with the same name.
        """

    def schedule(self, jobs: tuple[Job, ...], fog: Fog, current: Placement) -> Decision:
        """Return a decision about the jobs.

        ``current`` is the placement in force; it may name nodes that no longer exist.
        """
