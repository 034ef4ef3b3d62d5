"""The reports about insights and deployments: states, placement, outages, operators' problems."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from analytics.plan.fragments import Fragment
from analytics.plan.status import FragmentStatus
from analytics_enabler.execution.lifecycle import MissingSite, StateReport, worst
from analytics_enabler.execution.outages import Outage, in_order
from analytics_enabler.groups import Group

MAX_OUTAGES = 3
"""The maximum number of outages that one text describes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedTask:
    """A task of a group with its fragment, its node and site, and the report of the node.

    ``node``: None: no node can run it. ``since``: the time (ms) of the placement. ``status``: None:
    the node reports nothing.
    """

    group: Group
    task: str
    fragment: Fragment
    node: str | None
    site: str | None
    since: int | None
    status: FragmentStatus | None


@dataclass(frozen=True, slots=True)
class InsightReport:
    """The state of an insight, its outages, and the problems of its operators.

    ``lag_ms``: how long the oldest missing result has been due; None: unknown.
    ``corrections_due``: the number of ticks whose results lack late points. ``silent``: why the
    insight had no value in its last intervals; None: it had one, or has just started.
    """

    state: StateReport
    outages: tuple[Outage, ...]
    problems: tuple[str, ...]
    lag_ms: int | None = None
    missing: tuple[MissingSite, ...] = ()
    corrections_due: int = 0
    silent: str | None = None

    @property
    def error(self) -> str | None:
        """The outages and problems as a text; None: there are none."""
        return _text(self.outages, self.problems)


@dataclass(frozen=True, slots=True)
class DeploymentReport:
    """The reports of the insights of a deployment: uid -> report.

    ``ended``: uid -> the state of a generation that has ended. ``moving``: the outage of a move to
    a larger domain that is not complete; None: there is no such move.
    """

    insights: Mapping[str, InsightReport]
    ended: Mapping[str, StateReport] = field(default_factory=dict)
    moving: Outage | None = None

    @property
    def state(self) -> StateReport:
        """The worst state of the insights."""
        return worst([each.state for each in self.insights.values()])

    @property
    def error(self) -> str | None:
        """The outages and problems of all insights, and of a move, as a text; None: none."""
        reports = self.insights.values()
        outages = in_order(outage for each in reports for outage in each.outages)
        text = _text(outages, [problem for each in reports for problem in each.problems])
        texts = [each for each in (text, self.moving and str(self.moving)) if each]
        return " ".join(texts) or None


def _text(outages: Sequence[Outage], problems: Sequence[str]) -> str | None:
    """Return the first texts, the outages before the problems of operators; None: there are none.

    An outage may be the cause of those that follow.
    """
    texts = [*map(str, outages), *sorted(problems)]
    more = [f"({len(texts) - MAX_OUTAGES} more)"] if len(texts) > MAX_OUTAGES else []
    return " ".join([*texts[:MAX_OUTAGES], *more]) or None
