"""The conversion of deployments, reports and decisions to the models of the API."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict

from analytics.insight_models import (
    Accepted,
    Decision,
    DeploymentMove,
    DeploymentStatus,
    EndedInsight,
    InsightStatus,
    Lifecycle,
    MissingSite,
    PlacedFragment,
    RemoteRead,
)
from analytics.plan.fragments import kind_of
from analytics_enabler.decision_log import DecisionLog
from analytics_enabler.deployments.model import Deployment, Generation
from analytics_enabler.deployments.versions import version_of
from analytics_enabler.execution import ExecutionStatus
from analytics_enabler.execution.lifecycle import StateReport
from analytics_enabler.execution.reports import InsightReport, PlacedTask
from analytics_enabler.units import unit_of
from grammar import Diagnostic

SHOWN_DECISIONS = 10
"""The maximum number of decisions in the description of a deployment."""


def accepted(deployment: Deployment, warnings: Sequence[Diagnostic] = ()) -> Accepted:
    """Return the response to the submission of a deployment.

    ``warnings``: warnings about the placement of the deployment, besides those about its text.
    """
    return Accepted(
        deployment_id=deployment.id,
        insights=[generation.name for generation in deployment.live],
        warnings=[*deployment.warnings, *warnings],
        version=version_of(deployment),
    )


def status_of(
    deployment: Deployment, execution: ExecutionStatus, units: Mapping[str, str]
) -> DeploymentStatus:
    """Return the status of a deployment, as in a list of deployments; ``units``: metric -> unit."""
    report = execution.report(deployment)
    return DeploymentStatus(
        deployment_id=deployment.id,
        name=deployment.name,
        status=report.state.status,
        status_since=report.state.status_since,
        error=report.error,
        queries=deployment.queries,
        created_at=deployment.created_at,
        updated_at=deployment.updated_at,
        insights=[
            _insight_status(
                generation,
                report.insights[generation.uid],
                execution.remote_reads(generation.group),
                units,
            )
            for generation in deployment.live
        ],
        warnings=list(deployment.warnings),
        lifecycle=_lifecycle(report.state),
        domain=deployment.domain,
        owner=deployment.owner,
        version=version_of(deployment),
        amended_at=deployment.amended_at,
        amended_by=deployment.amended_by,
        move=_move(deployment),
    )


def details_of(
    deployment: Deployment,
    execution: ExecutionStatus,
    decisions: DecisionLog,
    units: Mapping[str, str],
) -> DeploymentStatus:
    """Return the status of a deployment with its placement, ended insights and decisions."""
    states = execution.report(deployment).ended
    return status_of(deployment, execution, units).model_copy(
        update={
            "placement": [_placed_fragment(each) for each in execution.placed_tasks(deployment)],
            "ended": [
                EndedInsight(
                    name=each.name,
                    uid=each.uid,
                    since=each.since,
                    until=each.since if each.until is None else each.until,
                    state=states[each.uid].state,
                    missing_sites=list(each.missing_sites),
                    text=each.definition.text,
                )
                for each in deployment.ended
            ],
            "decisions": decisions_of(decisions, SHOWN_DECISIONS, None, deployment.subjects()),
        }
    )


def _placed_fragment(placed: PlacedTask) -> PlacedFragment:
    return PlacedFragment(
        group=placed.group.id,
        fragment=placed.fragment.id,
        kind=kind_of(placed.fragment),
        node=placed.node,
        site=placed.site,
        since=placed.since,
        state=None if placed.status is None else placed.status.state,
    )


def decisions_of(
    decisions: DecisionLog, limit: int, since: int | None, subjects: Collection[str] | None
) -> list[Decision]:
    """Return the newest decisions; see ``DecisionLog.newest``."""
    return [
        Decision.model_validate(each, from_attributes=True)
        for each in decisions.newest(limit, since=since, subjects=subjects)
    ]


def _insight_status(
    generation: Generation,
    report: InsightReport,
    remote_reads: list[RemoteRead],
    units: Mapping[str, str],
) -> InsightStatus:
    definition = generation.definition
    return InsightStatus(
        name=generation.name,
        uid=generation.uid,
        text=definition.text,
        every_ms=definition.every_ms,
        since=generation.since,
        first_tick=generation.first_tick,
        state=report.state.status,
        state_since=report.state.status_since,
        error=report.error,
        lifecycle=_lifecycle(report.state),
        group=generation.group.id,
        lag_ms=report.lag_ms,
        missing_sites=[MissingSite.model_validate(asdict(each)) for each in report.missing],
        remote_reads=remote_reads,
        corrections_due=report.corrections_due,
        silent=report.silent,
        each_point=definition.each_point,
        every_points=definition.counted.every if definition.counted is not None else None,
        salience=definition.options.salience,
        unit=unit_of(definition.expression, units),
    )


def _move(deployment: Deployment) -> DeploymentMove | None:
    move = deployment.pending_move
    if move is None:
        return None
    refusal = move.refusal
    return DeploymentMove(
        domain=move.domain,
        since=move.at,
        reason=move.reason,
        refusal=None if refusal is None else refusal.why,
        refused_at=None if refusal is None else refusal.at,
    )


def _lifecycle(report: StateReport) -> Lifecycle:
    return Lifecycle(state=report.state, since=report.since)
