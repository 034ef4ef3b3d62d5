"""Routes for the decisions of the enabler, with their reasons and authors."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from analytics.insight_models import Decisions
from analytics_enabler.api.dependencies import proxied_to_owner
from analytics_enabler.api.views import decisions_of
from analytics_enabler.decision_log import MAX_DECISIONS, DecisionLog
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.domains.proxy import DomainProxy
from mistbow.auth.rules import requires
from mistbow.client.fields import MAX_TIMESTAMP_MS
from mistbow.errors import NotFoundError
from mistbow.openapi import raises

About = Annotated[
    str | None,
    Query(description="Only decisions about this deployment (ID), or this insight (ID/NAME)."),
]
Since = Annotated[
    int | None,
    Query(ge=0, le=MAX_TIMESTAMP_MS, description="The earliest time, in ms since the epoch."),
]
Limit = Annotated[
    int, Query(ge=1, le=MAX_DECISIONS, description="The maximum number of decisions.")
]

_DEFAULT_LIMIT = 100


def decisions_router(
    deployments: Deployments, decisions: DecisionLog, proxy: DomainProxy
) -> APIRouter:
    """Return the routes ``/api/decisions`` and ``/api/insights/{id}/decisions``.

    ``proxy``: proxies requests for deployments of other domains.
    """
    router = APIRouter(prefix="/api", tags=["decisions"])
    proxied = [Depends(proxied_to_owner(deployments, proxy))]

    @router.get("/decisions")
    @requires("read")
    async def list_all(
        insight: About = None, since: Since = None, limit: Limit = _DEFAULT_LIMIT
    ) -> Decisions:
        """List the newest decisions in the order of time.

        The decisions about a deployment remain after its deletion.
        """
        subjects = None if insight is None else _subjects(deployments, insight)
        return Decisions(decisions=decisions_of(decisions, limit, since, subjects))

    @router.get("/insights/{deployment_id}/decisions", dependencies=proxied)
    @requires("read")
    @raises(NotFoundError)
    async def list_of_deployment(
        deployment_id: str, since: Since = None, limit: Limit = _DEFAULT_LIMIT
    ) -> Decisions:
        """List the newest decisions about a deployment, and about the fragments of its groups."""
        subjects = deployments.find(deployment_id).subjects()
        return Decisions(decisions=decisions_of(decisions, limit, since, subjects))

    return router


def _subjects(deployments: Deployments, insight: str) -> set[str]:
    """Return the subjects of the decisions about an insight.

    ``insight``: the id of a deployment; or the id, a slash, and the name of one of its insights.
    """
    deployment_id, _, name = insight.partition("/")
    try:
        return deployments.find(deployment_id).subjects(name or None)
    except NotFoundError:
        return {deployment_id}
