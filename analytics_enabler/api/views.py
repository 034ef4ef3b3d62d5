"""Conversion of deployments to the models of the API."""

from analytics.insight_models import Accepted, DeploymentStatus, InsightStatus
from analytics_enabler.deployments.model import Deployment, Generation
from analytics_enabler.execution import ExecutionStatus
from analytics_enabler.execution.reports import InsightReport


def accepted(deployment: Deployment) -> Accepted:
    """Return the response to the submission of a deployment."""
    return Accepted(
        deployment_id=deployment.id,
        insights=[generation.name for generation in deployment.live],
        warnings=list(deployment.warnings),
    )


def status_of(deployment: Deployment, execution: ExecutionStatus) -> DeploymentStatus:
    """Return the status of a deployment in the form of the API."""
    report = execution.report(deployment)
    return DeploymentStatus(
        deployment_id=deployment.id,
        name=deployment.name,
        status=report.progress.progress,
        status_since=report.progress.since,
        error=report.error,
        queries=deployment.queries,
        created_at=deployment.created_at,
        updated_at=deployment.updated_at,
        insights=[
            _insight_status(generation, report.insights[generation.uid])
            for generation in deployment.live
        ],
        warnings=list(deployment.warnings),
    )


def _insight_status(generation: Generation, report: InsightReport) -> InsightStatus:
    return InsightStatus(
        name=generation.name,
        uid=generation.uid,
        text=generation.definition.text,
        every_ms=generation.definition.every_ms,
        since=generation.since,
        first_tick=generation.first_tick,
        state=report.progress.progress,
        state_since=report.progress.since,
        error=report.error,
    )
