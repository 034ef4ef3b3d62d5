"""Deploying insights: the specification's Table 8, and checking and explaining."""

from typing import Annotated, Literal

from fastapi import APIRouter, Header, Response
from fastapi.responses import PlainTextResponse

from analytics_enabler.api.bodies import BODY_DOCUMENTATION, ReadSubmission
from analytics_enabler.api.views import accepted, status_of
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.execution import Execution
from analytics_enabler.explain import Outlook, explanation_text
from analytics_enabler.instruments import SUBMISSIONS
from mistbow.auth.callers import current_caller
from mistbow.auth.rules import requires
from mistbow.insights import (
    Accepted,
    CheckAnswer,
    DeploymentList,
    DeploymentStatus,
    Explanation,
)


def insights_router(deployments: Deployments, execution: Execution, outlook: Outlook) -> APIRouter:
    """Return the routes under ``/api/insights``, but for those of results."""
    router = APIRouter(prefix="/api/insights", tags=["insights"])
    _add_questions(router, deployments, outlook)

    @router.post("", status_code=201, openapi_extra=BODY_DOCUMENTATION)
    @requires("admin")
    async def submit(
        submission: ReadSubmission,
        idempotency_key: Annotated[str | None, Header(min_length=1, max_length=200)] = None,
    ) -> Accepted:
        """Deploy insights; they are computed from the next tick on.

        With an `Idempotency-Key`, a repeat deploys nothing again; those of each token are apart.
        """
        key = None if idempotency_key is None else current_caller().own(idempotency_key)
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
    async def show(deployment_id: str) -> DeploymentStatus:
        """Show a deployment: its queries, and how far its insights are."""
        return status_of(deployments.find(deployment_id), execution)

    @router.put("/{deployment_id}", openapi_extra=BODY_DOCUMENTATION)
    @requires("admin")
    async def amend(deployment_id: str, submission: ReadSubmission) -> Accepted:
        """Replace a deployment's insights; those that mean the same go on undisturbed."""
        deployment = await deployments.amend(deployment_id, submission.queries, submission.name)
        SUBMISSIONS.labels("amended").inc()
        return accepted(deployment)

    @router.delete("/{deployment_id}", status_code=204)
    @requires("admin")
    async def delete(deployment_id: str) -> None:
        """Stop a deployment and forget it.

        Insights of others that refer to its own go on as they are.
        """
        await deployments.delete(deployment_id)
        SUBMISSIONS.labels("deleted").inc()

    return router


def _add_questions(router: APIRouter, deployments: Deployments, outlook: Outlook) -> None:
    @router.post("/check", openapi_extra=BODY_DOCUMENTATION)
    @requires("read")
    async def check(submission: ReadSubmission) -> CheckAnswer:
        """Say all that is wrong with a text, without deploying it."""
        checked = await deployments.check(submission.queries)
        return CheckAnswer(ok=checked.ok, problems=list(checked.problems))

    @router.post("/explain", openapi_extra=BODY_DOCUMENTATION, response_model=Explanation)
    @requires("read")
    async def explain_queries(
        submission: ReadSubmission, format: Literal["json", "text"] = "json"
    ) -> Explanation | Response:
        """Show what a text becomes, and what it shares with that which runs."""
        checked = await deployments.check(submission.queries)
        explanation = await outlook.explain(checked, deployments.running())
        if format == "json":
            return explanation
        return PlainTextResponse(explanation_text(explanation, submission.queries))
