"""The health of the domain of an enabler: its problems, their beginnings, and their remedies."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Literal

from analytics.fog_models import FogSnapshot
from analytics.health_models import Health, HealthCounts, Problem
from analytics.insight_models import DeploymentStatus
from analytics_enabler.live.fog_view import MAX_LIVE_LINKS, FogView
from analytics_enabler.live.problems import enabler_problems, insight_problems, unknown_fabric
from mistbow.clock import Clock
from mistbow.errors import UnavailableError

_RUNNING = frozenset({"running", "correcting", "adapting", "degraded", "lagging"})

_NO_FOG = FogSnapshot.model_validate({"sites": [], "nodes": [], "links": [], "sources": []})

Texts = Callable[[], Awaitable[Sequence[str]]]


class HealthReporter:
    """Reports the health of the domain.

    ``deployments``: returns the statuses of the deployments. ``waiting_for``: returns why the
    enabler is not ready. ``warnings``: returns problems of an enabler that is ready.
    ``certificates``: returns its warnings of certificates that expire soon. ``identity``: returns
    why other services refuse the enabler. ``ended_tasks``: returns the names of its background
    tasks that have ended.
    """

    def __init__(
        self,
        view: FogView,
        deployments: Callable[[], Iterable[DeploymentStatus]],
        waiting_for: Texts,
        warnings: Texts,
        clock: Clock,
        certificates: Callable[[], Sequence[str]] = tuple,
        identity: Callable[[], Sequence[str]] = tuple,
        ended_tasks: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._view = view
        self._deployments = deployments
        self._waiting_for = waiting_for
        self._warnings = warnings
        self._clock = clock
        self._certificates = certificates
        self._identity = identity
        self._ended_tasks = ended_tasks

    async def report(self) -> Health:
        """Return the present health."""
        try:
            deployments = list(self._deployments())
        except UnavailableError:
            # The deployments are not read yet: a problem below states what the enabler waits for.
            deployments = []
        waiting_for, warnings = await self._waiting_for(), await self._warnings()
        problems = list(
            enabler_problems(
                waiting_for,
                warnings,
                self._certificates(),
                self._identity(),
                self._ended_tasks(),
            )
        )
        try:
            fog = self._view.snapshot(MAX_LIVE_LINKS)
        except UnavailableError:
            fog = _NO_FOG
            if not problems:
                problems.append(unknown_fabric())
        problems += [
            each
            for site in fog.site_states
            for each in site.problems
            # The lag of fragments is a problem of their insights.
            if each.kind != "fragments_lagging"
        ]
        problems += insight_problems(deployments)
        problems.sort(key=_rank)
        return Health(
            at=self._clock(),
            state=_state(problems),
            problems=problems,
            counts=_counts(fog, deployments),
        )


def _rank(problem: Problem) -> tuple[bool, bool, int, str]:
    """Order problems: errors first, and the oldest first, since others may be consequences."""
    since = problem.since
    return problem.severity != "error", since is None, since or 0, problem.what


def _state(problems: Sequence[Problem]) -> Literal["ok", "degraded", "failed"]:
    if any(each.severity == "error" for each in problems):
        return "failed"
    return "degraded" if problems else "ok"


def _counts(fog: FogSnapshot, deployments: Iterable[DeploymentStatus]) -> HealthCounts:
    states = [
        insight.present_lifecycle.state
        for deployment in deployments
        for insight in deployment.insights
    ]
    return HealthCounts(
        sites=len(fog.site_states),
        sites_reachable=sum(site.reachable for site in fog.site_states),
        workers=len(fog.nodes),
        fragments=len(fog.fragments),
        insights=sum(state != "paused" for state in states),
        insights_running=sum(state in _RUNNING for state in states),
    )
