"""The life cycle of an insight: one table of states, and the state that facts determine.

``status`` in the API has fewer values than ``state``; the table maps each state to its status.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from analytics.plan.fragments import Fragment
from analytics.plan.status import FragmentStatus
from analytics_enabler.deployments.model import Generation

LATE_MS = 10_000
"""The time (ms) after the end of an insight during which late points correct its results."""

MAX_ABSENCE_MS = 86_400_000
"""The time (ms) for which an ended insight waits for a site whose points are missing."""


class State(StrEnum):
    """The states of an insight."""

    FAILED = "failed"
    PLACING = "placing"
    SHED = "shed"
    SUBMITTED = "submitted"
    STARTING = "starting"
    LAGGING = "lagging"
    DEGRADED = "degraded"
    ADAPTING = "adapting"
    CORRECTING = "correcting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class StateDefinition:
    """A state, its meaning, and its ``status`` in the API."""

    state: State
    meaning: str
    status: str


STATES: tuple[StateDefinition, ...] = (
    StateDefinition(
        State.FAILED,
        "The query failed several times in a row; the worker tries again.",
        "failed",
    ),
    StateDefinition(
        State.PLACING,
        "No worker can run it now; the enabler places it as soon as one can.",
        "waiting for a worker",
    ),
    StateDefinition(
        State.SHED,
        "Its overloaded worker has stopped it, or a part of it, until there is capacity again.",
        "shed",
    ),
    StateDefinition(State.SUBMITTED, "It is stored, and not placed yet.", "starting"),
    StateDefinition(State.STARTING, "It is placed, and has no complete result yet.", "starting"),
    StateDefinition(State.LAGGING, "Its results are late.", "lagging"),
    StateDefinition(
        State.DEGRADED,
        "Results continue without the points of some sites, or at a site that is cut off.",
        "running",
    ),
    StateDefinition(
        State.ADAPTING,
        "Results continue while a new version, or another worker, catches up to take over.",
        "running",
    ),
    StateDefinition(
        State.CORRECTING,
        "Results continue, and earlier results lack late points.",
        "running",
    ),
    StateDefinition(
        State.RUNNING,
        "Its results are complete and in time, and no correction is due.",
        "running",
    ),
    StateDefinition(State.PAUSED, "A request has paused its deployment.", "paused"),
    StateDefinition(State.STOPPED, "It has ended, and all its results are stored.", "stopped"),
)
"""The states, from worst to best: a deployment has the worst state of its insights."""

_RANKS = {each.state: rank for rank, each in enumerate(STATES)}
_STATUSES = {each.state: each.status for each in STATES}
_SINCE_IN_STATUS = {State.FAILED, State.PLACING, State.SHED, State.LAGGING}


@dataclass(frozen=True, slots=True)
class StateReport:
    """A state, and the time (ms) at which it began; None: unknown."""

    state: State
    since: int | None = None

    @property
    def status(self) -> str:
        """The status of the state."""
        return _STATUSES[self.state]

    @property
    def status_since(self) -> int | None:
        """``since``, if the state delays results and has a status of its own; otherwise None."""
        return self.since if self.state in _SINCE_IN_STATUS else None


@dataclass(frozen=True, slots=True)
class MissingSite:
    """A site whose points are missing in the results, since when (ms), and why."""

    site: str
    since: int | None
    why: str


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """The desired and the observed state of a group, on which the states of its insights depend.

    ``is_placed``: whether the task that writes the results has a node. ``is_refused``: whether the
    enabler has failed to plan or to place the task. ``is_lost``: whether its worker is gone, or
    does not answer. ``desired``: the fragment of this task; None: the group is not planned yet.
    ``status``: what its worker reports; None: nothing. ``former``: the status of a version that
    still computes the insights ``former_uids``, and will be replaced; None: no such version.
    ``overload``: the states of shed and lagging fragments. ``missing``: the sites without which the
    results are computed. ``unreachable``: the only site that the results are computed from, while
    it cannot be reached. Its worker may go on alone.
    """

    is_placed: bool = False
    is_refused: bool = False
    is_lost: bool = False
    desired: Fragment | None = None
    status: FragmentStatus | None = None
    former: FragmentStatus | None = None
    former_uids: frozenset[str] = frozenset()
    overload: tuple[StateReport, ...] = ()
    missing: tuple[MissingSite, ...] = ()
    unreachable: MissingSite | None = None

    @property
    def absent(self) -> tuple[MissingSite, ...]:
        """The sites whose points are not in the results that can be read now."""
        return self.missing if self.unreachable is None else (*self.missing, self.unreachable)


def state_of(generation: Generation, paused_at: int | None, facts: GroupFacts) -> StateReport:
    """Return the state of an insight; ``paused_at``: the time (ms) of the pause of its deployment.

    ``since`` is None where neither a worker nor the deployment has the time.
    """
    if generation.paused:
        return StateReport(State.PAUSED, paused_at)
    if generation.settled:
        return StateReport(State.STOPPED, generation.until)
    return worst([*_states_of_computation(generation, facts), *facts.overload])


def settlement(generation: Generation, facts: GroupFacts, now: int) -> tuple[str, ...] | None:
    """Return the sites that are missing in the final results of an ended generation.

    None: its results are not final. They are final when the desired version of the fragment that
    writes them is ``LATE_MS`` beyond the end, has searched for late points up to there, corrects
    none of them, and no site is missing. A correction is waited for until ``MAX_ABSENCE_MS`` after
    the end, and a missing site until it has been missing for this time since the end.
    """
    if generation.until is None:
        return None
    status, end = facts.status, generation.until + LATE_MS
    # A correction may wait for a site that never answers again.
    may_correct = now < generation.until + MAX_ABSENCE_MS
    if (
        facts.desired is not None
        and status is not None
        and runs(status, facts.desired)
        and status.frontier >= end
        and not (may_correct and _may_be_corrected(generation, status, end))
    ):
        return _given_up(facts.missing, generation.until, now)
    if facts.unreachable is not None:
        return _given_up([facts.unreachable], generation.until, now)
    return None


def _may_be_corrected(generation: Generation, status: FragmentStatus, end: int) -> bool:
    """Return whether late points may still change results of a generation up to ``end`` (ms)."""
    return generation.uid in status.correcting or status.searched_until < end


def _given_up(missing: Iterable[MissingSite], until: int, now: int) -> tuple[str, ...] | None:
    """Return the names of missing sites; None: the wait for a site is not over."""
    since = {each.site: max(until, each.since or until) for each in missing}
    if any(now - begin < MAX_ABSENCE_MS for begin in since.values()):
        return None
    return tuple(sorted(since))


def _states_of_computation(generation: Generation, facts: GroupFacts) -> Iterator[StateReport]:
    if facts.desired is None or not facts.is_placed:
        yield StateReport(State.PLACING if facts.is_refused else State.SUBMITTED)
        return
    if facts.is_lost:
        cut = facts.unreachable
        yield StateReport(State.PLACING) if cut is None else StateReport(State.DEGRADED, cut.since)
        return
    status = facts.status
    if status is not None and status.state == "failed":
        yield StateReport(State.FAILED)
        return
    computing = computing_status(generation, facts)
    if computing is None or computing.frontier < generation.first_tick:
        yield StateReport(State.STARTING)
        return
    is_current = status is not None and runs(status, facts.desired)
    yield StateReport(State.RUNNING if is_current else State.ADAPTING)
    if facts.absent:
        known = [each.since for each in facts.absent if each.since is not None]
        yield StateReport(State.DEGRADED, min(known, default=None))
    if generation.uid in computing.correcting:
        yield StateReport(State.CORRECTING, computing.correcting[generation.uid])


def computing_status(generation: Generation, facts: GroupFacts) -> FragmentStatus | None:
    """Return the status of the fragment that computes the results of a generation.

    This is the desired version, or a former version while the desired version starts. None: no
    fragment computes them.
    """
    desired, status = facts.desired, facts.status
    if desired is not None and status is not None and runs(status, desired):
        return status
    return facts.former if generation.uid in facts.former_uids else None


def runs(status: FragmentStatus, desired: Fragment) -> bool:
    """Return whether the desired version of a fragment runs and has replaced earlier versions."""
    return (status.state, status.active) == ("running", desired.fingerprint)


def overload(statuses: Iterable[FragmentStatus]) -> Iterator[StateReport]:
    """Yield the state of each fragment that is shed or lags."""
    for status in statuses:
        if status.shed_since is not None:
            yield StateReport(State.SHED, status.shed_since)
        elif status.lagging_since is not None:
            yield StateReport(State.LAGGING, status.lagging_since)


def worst(reports: Iterable[StateReport]) -> StateReport:
    """Return the report with the worst state; without reports, return ``RUNNING``.

    Among reports with the same state, the report with the earliest ``since`` is returned.
    """
    return min(
        reports,
        key=lambda report: (_RANKS[report.state], report.since or 0),
        default=StateReport(State.RUNNING),
    )
