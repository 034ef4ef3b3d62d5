"""Routes that deploy, check and explain insights (the specification, Table 8)."""

from typing import Annotated, Literal

from fastapi import APIRouter, Header, Response
from fastapi.responses import PlainTextResponse

from analytics.insight_models import (
    Accepted,
    CheckAnswer,
    DeploymentList,
    DeploymentStatus,
    Explanation,
)
from analytics_enabler.api.bodies import BODY_DOCUMENTATION, ReadSubmission
from analytics_enabler.api.views import accepted, status_of
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.execution import ExecutionStatus
from analytics_enabler.explain import Explainer, explanation_text
from analytics_enabler.metrics import SUBMISSIONS
from mistbow.auth.callers import current_caller
from mistbow.auth.rules import requires
from mistbow.errors import ConflictError, FencedError, InvalidQueryError, NotFoundError
from mistbow.openapi import raises


def insights_router(
    deployments: Deployments, execution: ExecutionStatus, explainer: Explainer
) -> APIRouter:
    """Return the routes under ``/api/insights``, except the routes of results."""
    router = APIRouter(prefix="/api/insights", tags=["insights"])
    _add_check_and_explain(router, deployments, explainer)

    @router.post("", status_code=201, openapi_extra=BODY_DOCUMENTATION)
    @requires("admin")
    @raises(ConflictError, FencedError, InvalidQueryError)
    async def submit(
        submission: ReadSubmission,
        idempotency_key: Annotated[str | None, Header(min_length=1, max_length=200)] = None,
    ) -> Accepted:
        """Deploy insights; their first results are computed at the next tick.

        A repeated request with the same `Idempotency-Key` and the same token returns the first
        deployment.
        """
        key = None if idempotency_key is None else current_caller().scoped_key(idempotency_key)
        deployment = await deployments.submit(submission.queries, submission.name, key)
        SUBMISSIONS.labels("submitted").inc()
        return accepted(deployment)

    @router.get("")
    @requires("read")
    async def list_all() -> DeploymentList:
        """List every deployment, the oldest first."""
        statuses = [status_of(deployment, execution) for deployment in deployments.all()]
        return DeploymentList(deployments=statuses)

    @router.get("/{deployment_id}")
    @requires("read")
    @raises(NotFoundError)
    async def show(deployment_id: str) -> DeploymentStatus:
        """Show the queries of a deployment and the status of its insights."""
        return status_of(deployments.find(deployment_id), execution)

    @router.put("/{deployment_id}", openapi_extra=BODY_DOCUMENTATION)
    @requires("admin")
    @raises(ConflictError, FencedError, InvalidQueryError, NotFoundError)
    async def amend(deployment_id: str, submission: ReadSubmission) -> Accepted:
        """Replace the insights of a deployment; insights with an unchanged meaning keep running."""
        deployment = await deployments.amend(deployment_id, submission.queries, submission.name)
        SUBMISSIONS.labels("amended").inc()
        return accepted(deployment)

    @router.delete("/{deployment_id}", status_code=204)
    @requires("admin")
    @raises(FencedError, NotFoundError)
    async def delete(deployment_id: str) -> None:
        """Stop and delete a deployment.

        Insights in other deployments that refer to the deleted insights keep running.
        """
        await deployments.delete(deployment_id)
        SUBMISSIONS.labels("deleted").inc()

    return router


def _add_check_and_explain(
    router: APIRouter, deployments: Deployments, explainer: Explainer
) -> None:
    @router.post("/check", openapi_extra=BODY_DOCUMENTATION)
    @requires("read")
    async def check(submission: ReadSubmission) -> CheckAnswer:
        """Check a text without deploying it; return all errors and warnings."""
        checked = await deployments.check(submission.queries)
        return CheckAnswer(ok=checked.ok, problems=list(checked.problems))

    @router.post("/explain", openapi_extra=BODY_DOCUMENTATION, response_model=Explanation)
    @requires("read")
    async def explain_queries(
        submission: ReadSubmission, format: Literal["json", "text"] = "json"
    ) -> Explanation | Response:
        """Return the plan and the placement of a text, without deploying the text.

        The answer also contains the windows and panes that the insights would share.
        """
        checked = await deployments.check(submission.queries)
        explanation = await explainer.explain(checked, deployments.running())
        if format == "json":
            return explanation
        return PlainTextResponse(explanation_text(explanation, submission.queries))
