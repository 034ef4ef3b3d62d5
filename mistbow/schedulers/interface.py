"""The seam between the suite and a scheduler, which may come from another package."""

from collections.abc import Iterable, Mapping
from typing import ClassVar, Protocol

import msgspec

from mistbow.fog.jobs import Job, Placement, Refusal, Setting
from mistbow.fog.snapshot import Fog


class Decision(msgspec.Struct, frozen=True):
    """Where tasks run, and why a node, or none, runs a task.

    Of a job, every task is placed or none; only pinned tasks may be missing, for results without
    a lost site are better than none. What is missing has a refusal. The nodes' shares of a task's
    input add up to 1, and no node has more than it has free.
    """

    placement: Placement
    refusals: tuple[Refusal, ...] = ()

    def placed(self, jobs: Iterable[Job]) -> list[Job]:
        """Return the jobs that have a place."""
        found = {job for job, _ in self.placement.by_task}
        return [job for job in jobs if job.id in found]


class Scheduler(Protocol):
    """Places jobs: an entry point of the group ``mistbow.schedulers``, called without arguments.

    It must be pure: what it returns depends on what it is given alone. It may raise.
    """

    def prepare(self, settings: Mapping[str, Setting]) -> None:
        """Take the settings of this scheduler; called once, before anything is scheduled.

        Those that the enabler was started with are texts; those of a query go before them.
        """

    def schedule(self, jobs: tuple[Job, ...], fog: Fog, current: Placement) -> Decision:
        """Place the jobs on the fog; ``current`` is how they run now, perhaps on lost nodes."""


class Settable(Protocol):
    """What a scheduler has besides if queries may give it settings."""

    Settings: ClassVar[type[msgspec.Struct]]
    """Has a field for each setting: by these a query is checked, and told what is wrong."""
