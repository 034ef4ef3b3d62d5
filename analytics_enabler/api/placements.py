"""Routes that show the fog, and plan the placement of insights without deploying them."""

from dataclasses import replace
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query, Request

from analytics.fog_models import (
    FogChanges,
    FogSnapshot,
    NodeDrain,
    PlacementChanges,
    Placements,
)
from analytics.insight_models import PlacementPlan
from analytics_enabler.api.bodies import BODY_DOCUMENTATION, ReadSubmission
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.domains.proxy import DomainProxy, is_proxied
from analytics_enabler.execution.reconciler import Reconciler
from analytics_enabler.explain import Explainer
from analytics_enabler.live.fog_history import FogHistory
from analytics_enabler.live.fog_view import FogView
from analytics_enabler.scheduling.registry import scheduler_names
from analytics_enabler.semantics import Checked
from mistbow.auth.rules import requires
from mistbow.client.fields import MAX_TIMESTAMP_MS
from mistbow.clock import Clock
from mistbow.errors import InvalidRequestError, NotFoundError, UnavailableError
from mistbow.http.parameters import only_parameters
from mistbow.openapi import raises

SchedulerName = Annotated[
    str | None,
    Query(description="The scheduler of all insights of the text, without its settings."),
]


At = Annotated[
    int | None,
    Query(ge=0, le=MAX_TIMESTAMP_MS, description="An earlier time, in ms since the epoch."),
]
Start = Annotated[
    int | None,
    Query(
        alias="from",
        ge=0,
        le=MAX_TIMESTAMP_MS,
        description=(
            "The first time, in ms since the epoch; by default an hour before `to`. Without `to`, "
            "a time more than a day ago counts as a day ago, and a time in the future as now."
        ),
    ),
]
End = Annotated[
    int | None,
    Query(
        alias="to",
        ge=0,
        le=MAX_TIMESTAMP_MS,
        description="The last time, in ms since the epoch; by default now.",
    ),
]
Group = Annotated[str | None, Query(description="Only the fragments of this group.")]
Limit = Annotated[int, Query(ge=1, le=10_000, description="The maximum number of changes.")]

MAX_SPAN_MS = 24 * 3_600_000
"""The maximum length (ms) of a span of the history that one request reads."""


def history_span(start: int | None, end: int | None, now: int) -> tuple[int, int]:
    """Return (first, last) time of a span, by default of the last hour.

    Without an end, the start is limited to the last day, since the clock of the client and the
    duration of the request are unknown. Raises ``InvalidRequestError`` if a span with both ends is
    longer than a day or negative.

    >>> day = 24 * 3_600_000
    >>> history_span(5, None, day + 7), history_span(day + 9, None, day + 7)
    ((7, 86400007), (86400007, 86400007))
    """
    if end is None and start is not None:
        start = min(max(start, now - MAX_SPAN_MS), now)
    end = now if end is None else end
    start = max(0, end - 3_600_000) if start is None else start
    if not 0 <= end - start <= MAX_SPAN_MS:
        raise InvalidRequestError(
            f"from {start} to {end}: the span must have from 0 to {MAX_SPAN_MS} ms",
            hint="Read the history in spans of at most a day.",
        )
    return start, end


def placements_router(
    deployments: Deployments,
    explainer: Explainer,
    fog_view: FogView,
    history: FogHistory,
    reconciler: Reconciler,
    proxy: DomainProxy,
    clock: Clock,
) -> APIRouter:
    """Return the routes ``/api/fog``, ``/api/nodes`` and ``/api/placements``.

    ``proxy``: proxies texts that belong to another domain.
    """
    router = APIRouter(prefix="/api", tags=["placements"])

    @router.get("/fog")
    @requires("read")
    @raises(NotFoundError, UnavailableError)
    async def show_fog(at: At = None) -> FogSnapshot:
        """Return the nodes and links of the domain that the schedulers receive.

        The answer also has the states of sites, the fragments, and the data flows between sites.
        With `at`, the view is that of an earlier time, with rounded figures and without `sources`.
        """
        if at is not None:
            return await history.at(at)
        await fog_view.refresh()
        return fog_view.snapshot()

    @router.put("/nodes/{node}/drain", status_code=204, dependencies=[Depends(only_parameters())])
    @requires("admin")
    @raises(NotFoundError, UnavailableError)
    async def drain(node: str) -> None:
        """Move all fragments of a node to other nodes, and place none on it.

        The results have no gap: each fragment continues until another node has taken over.
        A fragment that no other node can run stays. The node stays drained, also after restarts.
        """
        await reconciler.node(node).drain(is_drained=True)

    @router.delete(
        "/nodes/{node}/drain", status_code=204, dependencies=[Depends(only_parameters())]
    )
    @requires("admin")
    @raises(NotFoundError, UnavailableError)
    async def undrain(node: str) -> None:
        """Let a drained node receive fragments again."""
        await reconciler.node(node).drain(is_drained=False)

    @router.get("/nodes/{node}/drain")
    @requires("read")
    @raises(NotFoundError, UnavailableError)
    async def show_drain(node: str) -> NodeDrain:
        """Return whether a node is drained, and its remaining fragments in all domains.

        The answer is 503 if the worker of the node does not list its fragments.
        """
        found = reconciler.node(node)
        running = await found.running()
        return NodeDrain(node=node, drained=found.worker.drained, fragments=running)

    @router.get("/fog/history")
    @requires("read")
    async def list_changes(
        start: Start = None,
        end: End = None,
        limit: Limit = 1000,
        newest: Annotated[
            bool, Query(description="The last changes up to the limit instead of the first.")
        ] = False,
    ) -> FogChanges:
        """List the changes of the fog in a span, by default the last hour, and its stored times."""
        span = history_span(start, end, clock())
        return await history.changes(*span, limit, newest=newest)

    @router.get("/placements")
    @requires("read")
    @raises(NotFoundError)
    async def list_placements(at: At = None) -> Placements:
        """List the placements of the fragments of all groups, now or at an earlier time."""
        if at is not None:
            return await history.placements_at(at)
        return Placements(at=clock(), placements=fog_view.placements())

    @router.get("/placements/history")
    @requires("read")
    async def list_placement_changes(
        start: Start = None, end: End = None, group: Group = None, limit: Limit = 1000
    ) -> PlacementChanges:
        """List the fragments that were placed, moved and stopped in a span.

        The default span is the last hour.
        """
        span = history_span(start, end, clock())
        return PlacementChanges(changes=await history.placement_changes(*span, group, limit))

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
