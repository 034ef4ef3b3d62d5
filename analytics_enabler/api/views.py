"""Deployments as the API shows them."""

from analytics_enabler.deployments.model import Deployment, Generation
from analytics_enabler.execution import Execution
from mistbow.insights import Accepted, DeploymentStatus, InsightStatus


def accepted(deployment: Deployment) -> Accepted:
    """Return the answer to a submission."""
    return Accepted(
        deployment_id=deployment.id,
        insights=[generation.name for generation in deployment.live],
        warnings=list(deployment.warnings),
    )


def status_of(deployment: Deployment, execution: Execution) -> DeploymentStatus:
    """Return a deployment and how far it is."""
    summary = execution.summary(deployment)
    return DeploymentStatus(
        deployment_id=deployment.id,
        name=deployment.name,
        status=summary.progress,
        status_since=summary.since,
        error=execution.error(deployment),
        queries=deployment.queries,
        created_at=deployment.created_at,
        updated_at=deployment.updated_at,
        insights=[_insight_status(generation, execution) for generation in deployment.live],
        warnings=list(deployment.warnings),
    )


def _insight_status(generation: Generation, execution: Execution) -> InsightStatus:
    reached = execution.progress(generation)
    return InsightStatus(
        name=generation.name,
        uid=generation.uid,
        text=generation.definition.text,
        every_ms=generation.definition.every_ms,
        since=generation.since,
        first_tick=generation.first_tick,
        state=reached.progress,
        state_since=reached.since,
    )
