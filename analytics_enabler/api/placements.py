"""Routes that show the fog, and plan the placement of insights without deploying them."""

from dataclasses import replace
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request

from analytics.fog_models import FogLink, FogNode, FogSnapshot, FogSource
from analytics.insight_models import PlacementPlan
from analytics_enabler.api.bodies import BODY_DOCUMENTATION, ReadSubmission
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.domains.proxy import DomainProxy, is_proxied
from analytics_enabler.execution import Reconciler
from analytics_enabler.explain import Explainer
from analytics_enabler.fabric_view import FabricView
from analytics_enabler.scheduling.registry import scheduler_names
from analytics_enabler.semantics import Checked
from mistbow.auth.rules import requires
from mistbow.errors import InvalidRequestError, UnavailableError
from mistbow.openapi import raises

SchedulerName = Annotated[
    str | None,
    Query(description="The scheduler of all insights of the text, without its settings."),
]


def placements_router(
    deployments: Deployments,
    reconciler: Reconciler,
    explainer: Explainer,
    fabric_view: FabricView,
    proxy: DomainProxy,
) -> APIRouter:
    """Return the routes ``/api/fog`` and ``/api/placements/plan``.

    ``proxy``: proxies texts that belong to another domain.
    """
    router = APIRouter(prefix="/api", tags=["placements"])

    @router.get("/fog")
    @requires("read")
    @raises(UnavailableError)
    async def show_fog() -> FogSnapshot:
        """Return the nodes and links of the domain that the schedulers receive."""
        fabric = fabric_view.fabric
        if fabric is None:
            raise UnavailableError(
                "the enabler has not read the fabric yet", hint="Try again in some seconds."
            )
        fog = reconciler.fog(fabric)
        return FogSnapshot(
            sites=sorted(site.name for site in fabric.sites),
            nodes=[FogNode.model_validate(msgspec.to_builtins(node)) for node in fog.nodes],
            links=[FogLink.model_validate(msgspec.to_builtins(link)) for link in fog.links],
            sources=[FogSource.model_validate(msgspec.to_builtins(each)) for each in fog.sources],
        )

    @router.post("/placements/plan", openapi_extra=BODY_DOCUMENTATION)
    @requires("read")
    async def plan(
        request: Request, submission: ReadSubmission, scheduler: SchedulerName = None
    ) -> PlacementPlan:
        """Return where a text would be placed, why, and at what cost, without deploying the text.

        The cost is the demand of the fragments, the estimated traffic and, with price labels, the
        price. The running fragments that would move are in `moves`.
        """
        checked = await deployments.check(submission.queries)
        if checked.ok and not is_proxied(request.headers):
            await proxy.submit(request, checked.definitions)
        if scheduler is not None:
            checked = _placed_by(checked, scheduler)
        return await explainer.plan(checked, deployments.running())

    return router


def _placed_by(checked: Checked, scheduler: str) -> Checked:
    """Return a checked text with another scheduler for all insights."""
    installed = scheduler_names()
    if scheduler not in installed:
        raise InvalidRequestError(
            f"there is no scheduler {scheduler!r}; installed: {', '.join(installed)}"
        )
    definitions = [
        msgspec.structs.replace(
            each,
            scheduler=scheduler,
            options=msgspec.structs.replace(each.options, settings=()),
        )
        for each in checked.definitions
    ]
    return replace(checked, definitions=tuple(definitions))
