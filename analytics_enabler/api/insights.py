"""Routes that deploy, check and explain insights (the specification, Table 8)."""

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.responses import PlainTextResponse

from analytics.insight_models import (
    Accepted,
    CheckAnswer,
    DeploymentList,
    DeploymentStatus,
    Explanation,
    Submission,
)
from analytics_enabler.api.bodies import (
    BODY_DOCUMENTATION,
    DEPLOYMENT_BODY,
    ReadSubmission,
    read_deployment,
)
from analytics_enabler.api.dependencies import proxied_to_owner
from analytics_enabler.api.views import accepted, details_of, status_of
from analytics_enabler.catalogue import DataCatalogue
from analytics_enabler.decision_log import DecisionLog
from analytics_enabler.deployments.model import Deployment
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.deployments.submissions import ids_of_key
from analytics_enabler.deployments.versions import entity_tag, expected_versions, version_of
from analytics_enabler.domains.proxy import DomainProxy, is_proxied
from analytics_enabler.execution import ExecutionStatus
from analytics_enabler.explain import Explainer, explanation_text
from analytics_enabler.explain.coverage import CoverageReader
from analytics_enabler.metrics import SUBMISSIONS
from mistbow.auth.callers import current_caller
from mistbow.auth.rules import requires
from mistbow.errors import (
    ConflictError,
    FencedError,
    InvalidQueryError,
    InvalidRequestError,
    NotFoundError,
    PreconditionFailedError,
    ReusedKeyError,
)
from mistbow.http.parameters import only_parameters
from mistbow.openapi import raises

IfMatch = Annotated[str | None, Header(max_length=1000)]
"""The header with the versions that a deployment may have."""


def insights_router(
    deployments: Deployments,
    execution: ExecutionStatus,
    explainer: Explainer,
    decisions: DecisionLog,
    proxy: DomainProxy,
    catalogue: DataCatalogue,
    coverage: CoverageReader,
) -> APIRouter:
    """Return the routes under ``/api/insights``, except the routes of results.

    ``proxy``: proxies requests for deployments of other domains. ``catalogue``: the units of
    metrics. ``coverage``: finds windows that are not full yet.
    """

    def shown(deployment: Deployment) -> DeploymentStatus:
        return details_of(deployment, execution, decisions, catalogue.known_units)

    router = APIRouter(prefix="/api/insights", tags=["insights"])
    proxied = [Depends(proxied_to_owner(deployments, proxy))]
    changes = [Depends(only_parameters()), *proxied]
    _add_check_and_explain(router, deployments, explainer, proxy)

    @router.post(
        "",
        status_code=201,
        openapi_extra=BODY_DOCUMENTATION,
        dependencies=[Depends(only_parameters())],
    )
    @requires("admin")
    @raises(ConflictError, FencedError, InvalidQueryError, ReusedKeyError)
    async def submit(
        request: Request,
        response: Response,
        submission: ReadSubmission,
        idempotency_key: Annotated[str | None, Header(min_length=1, max_length=200)] = None,
    ) -> Accepted:
        """Deploy insights; their first results are computed at the next tick.

        A repeated request with the same `Idempotency-Key` and the same token returns the first
        deployment. Insights that read sites outside the domain of this enabler are passed on to
        the smallest domain that has all of these sites.
        """
        key = None if idempotency_key is None else current_caller().scoped_key(idempotency_key)
        if not is_proxied(request.headers) and not proxy.directory.is_alone:
            await _proxy_submission(request, submission, deployments, proxy, key)
        deployment = await deployments.submit(submission.queries, submission.name, key)
        SUBMISSIONS.labels("submitted").inc()
        _tag(response, deployment)
        return accepted(deployment, await explainer.warnings(deployment, deployments.running()))

    @router.get("")
    @requires("read")
    async def list_all(request: Request) -> DeploymentList:
        """List every deployment of all domains, the oldest first.

        The domains whose enablers do not answer are in `missing_domains`.
        """
        statuses = [
            status_of(deployment, execution, catalogue.known_units)
            for deployment in deployments.all()
        ]
        if is_proxied(request.headers):
            return DeploymentList(deployments=statuses)
        others, missing = await proxy.deployments()
        statuses = sorted([*statuses, *others], key=lambda each: each.created_at)
        return DeploymentList(deployments=statuses, missing_domains=missing or None)

    @router.get("/{deployment_id}", dependencies=proxied)
    @requires("read")
    @raises(NotFoundError)
    async def show(deployment_id: str, response: Response) -> DeploymentStatus:
        """Show the queries of a deployment, the states of its insights, and their placement.

        The answer also has the definitions that have ended, and the newest decisions. Its `ETag`
        is the `version` of the text and the name, for `If-Match`.
        """
        deployment = deployments.find(deployment_id)
        _tag(response, deployment)
        return await _with_windows(shown(deployment), deployment, coverage)

    @router.put("/{deployment_id}", openapi_extra=BODY_DOCUMENTATION, dependencies=changes)
    @requires("admin")
    @raises(
        *(ConflictError, FencedError, InvalidQueryError, NotFoundError),
        PreconditionFailedError,
    )
    async def amend(
        deployment_id: str, response: Response, submission: ReadSubmission, if_match: IfMatch = None
    ) -> Accepted:
        """Replace the insights of a deployment; insights with an unchanged meaning keep running.

        With `If-Match`, the request is refused if somebody else has changed the text or the name
        since the client read them, so that no change is lost.
        """
        expected = expected_versions(if_match)
        if not proxy.directory.is_alone:
            checked = await deployments.check(submission.queries, amended=deployment_id)
            if checked.ok:
                proxy.directory.check_owned(checked.definitions)
        deployment = await deployments.amend(
            deployment_id, submission.queries, submission.name, expected
        )
        SUBMISSIONS.labels("amended").inc()
        _tag(response, deployment)
        return accepted(deployment, await explainer.warnings(deployment, deployments.running()))

    @router.post("/{deployment_id}/pause", dependencies=changes)
    @requires("admin")
    @raises(FencedError, NotFoundError)
    async def pause(deployment_id: str) -> DeploymentStatus:
        """Pause a deployment: its results end at the present frontier, and are retained.

        A paused deployment does not change.
        """
        deployment = await deployments.pause(deployment_id)
        SUBMISSIONS.labels("paused").inc()
        return shown(deployment)

    @router.post("/{deployment_id}/resume", dependencies=changes)
    @requires("admin")
    @raises(FencedError, NotFoundError)
    async def resume(deployment_id: str) -> DeploymentStatus:
        """Resume a paused deployment: its next results begin after the present frontier.

        A deployment that is not paused does not change.
        """
        deployment = await deployments.resume(deployment_id)
        SUBMISSIONS.labels("resumed").inc()
        return shown(deployment)

    @router.post("/{deployment_id}/adopt", status_code=204, openapi_extra=DEPLOYMENT_BODY)
    @requires("adopt")
    @raises(ConflictError, FencedError)
    async def adopt(deployment_id: str, request: Request) -> None:
        """Deploy a deployment that another enabler of this domain accepted while it was cut off.

        The id, the insights and the times of the results remain. If both enablers have changed the
        deployment, both changes apply, in the order of their times.
        """
        deployment = read_deployment(await request.body())
        if deployment.id != deployment_id:
            raise InvalidRequestError("the path and the body name different deployments")
        await deployments.adopt(deployment)

    @router.delete("/{deployment_id}", status_code=204, dependencies=changes)
    @requires("admin")
    @raises(FencedError, NotFoundError, PreconditionFailedError)
    async def delete(deployment_id: str, if_match: IfMatch = None) -> None:
        """Stop and delete a deployment.

        Insights in other deployments that refer to the deleted insights keep running. With
        `If-Match`, the request is refused if the text or the name has changed.
        """
        await deployments.delete(deployment_id, expected_versions(if_match))
        SUBMISSIONS.labels("deleted").inc()

    return router


async def _proxy_submission(
    request: Request,
    submission: Submission,
    deployments: Deployments,
    proxy: DomainProxy,
    key: str | None,
) -> None:
    """Raise ``Proxied`` with the answer if the deployment belongs to another domain.

    ``key``: the idempotency key. A domain that has the deployment already repeats its answer, even
    if the deployment would now belong to a smaller domain.
    """
    if key is not None:
        await deployments.refresh()
        if deployments.of_key(key) is not None:
            return
        for each in ids_of_key(key):
            await proxy.repeat(request, each)
    checked = await deployments.check(submission.queries)
    if checked.ok:
        await proxy.submit(request, checked.definitions)


async def _with_windows(
    status: DeploymentStatus, deployment: Deployment, coverage: CoverageReader
) -> DeploymentStatus:
    """Add the windows of the latest ticks that began before the first points of their metrics."""
    live = deployment.live
    found = await asyncio.gather(*(coverage.at_latest_tick(each.definition) for each in live))
    windows = {each.uid: window for each, window in zip(live, found, strict=True)}
    insights = [each.model_copy(update={"window": windows[each.uid]}) for each in status.insights]
    return status.model_copy(update={"insights": insights})


def _tag(response: Response, deployment: Deployment) -> None:
    """Add the version of a deployment to an answer, as its ETag."""
    response.headers["ETag"] = entity_tag(version_of(deployment))


def _add_check_and_explain(
    router: APIRouter, deployments: Deployments, explainer: Explainer, proxy: DomainProxy
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
        request: Request, submission: ReadSubmission, format: Literal["json", "text"] = "json"
    ) -> Explanation | Response:
        """Return the plan and the placement of a text, without deploying the text.

        The answer also contains the windows and panes that the insights would share.
        """
        checked = await deployments.check(submission.queries)
        if checked.ok and not is_proxied(request.headers):
            await proxy.submit(request, checked.definitions)
        explanation = await explainer.explain(checked, deployments.running())
        if format == "json":
            return explanation
        return PlainTextResponse(explanation_text(explanation, submission.queries))
