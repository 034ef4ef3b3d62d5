"""The process of the enabler: serves the API of its parts."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from prometheus_client import REGISTRY

from analytics_enabler.api import descriptions
from analytics_enabler.api.decisions import decisions_router
from analytics_enabler.api.dependencies import proxied_by_standby
from analytics_enabler.api.editor import VocabularySource, editor_router
from analytics_enabler.api.events import events_router
from analytics_enabler.api.health import health_router
from analytics_enabler.api.insights import insights_router
from analytics_enabler.api.metrics import metrics_router
from analytics_enabler.api.placements import placements_router
from analytics_enabler.api.queries import queries_router
from analytics_enabler.api.results import results_router
from analytics_enabler.api.sessions import sessions_router
from analytics_enabler.domains.proxy import Proxied
from analytics_enabler.execution.demand_metrics import DemandCollector
from analytics_enabler.execution.fog_metrics import FogCollector
from analytics_enabler.execution.settled_results import SettledResults
from analytics_enabler.limits import MAX_EVENT_STREAMS, MAX_FOLLOWERS
from analytics_enabler.parts import EnablerParts
from analytics_enabler.results.follower_limit import FollowerLimit
from analytics_enabler.settings import EnablerSettings
from analytics_enabler.web.pages import Pages, installed_pages, is_public
from analytics_enabler.web.sessions import BrowserSessions, SessionLogin
from mistbow.clock import Clock, system_clock
from mistbow.service import create_service, serve
from mistbow.timestamps import Timestamps

DESCRIPTION = "Deploys insights, runs them on workers and serves their results."


def create_app(
    settings: EnablerSettings, clock: Clock = system_clock, max_followers: int = MAX_FOLLOWERS
) -> FastAPI:
    """Return the enabler as a web application."""
    parts = EnablerParts.of(settings, clock)
    app = create_service(
        "Mistbow analytics enabler",
        settings,
        readiness=parts.condition.waiting_for,
        warnings=parts.condition.warnings,
        lifespan=lambda _: _running(parts),
        description=DESCRIPTION,
        api=descriptions.DESCRIPTION,
        wrap=partial(Pages, pages=installed_pages() if settings.pages else {}),
        is_public=is_public,
    )
    sessions = BrowserSessions(clock)
    if settings.proof is not None:
        # Outside the authentication, to which it passes the token of a session.
        app.add_middleware(SessionLogin, sessions=sessions)
    app.include_router(
        sessions_router(sessions, settings, token_required=settings.proof is not None)
    )
    app.add_exception_handler(Proxied, _proxied)
    by_standby = [Depends(proxied_by_standby(parts.state.role, parts.state.proxy))]
    for router in _routers(parts, FollowerLimit(max_followers)):
        app.include_router(router, dependencies=by_standby)
    return app


@asynccontextmanager
async def _running(parts: EnablerParts) -> AsyncIterator[None]:
    """Run the parts, and offer their metrics, until the ``with`` block ends."""
    reconciler, fabric_view = parts.execution.reconciler, parts.storage.fabric_view
    collectors = (
        DemandCollector(reconciler.estimates),
        FogCollector(lambda: parts.execution.fog(fabric_view)),
    )
    for each in collectors:
        REGISTRY.register(each)
    parts.start()
    yield
    for each in collectors:
        REGISTRY.unregister(each)
    await parts.close()


def _routers(parts: EnablerParts, follower_limit: FollowerLimit) -> Iterator[APIRouter]:
    """Yield the routers whose requests a standby passes on to the active enabler."""
    storage, state, execution, live = parts.storage, parts.state, parts.execution, parts.live
    settings, clock, catalogue = storage.settings, storage.clock, storage.catalogue
    deployments, decisions, proxy = state.deployments, state.decisions, state.proxy
    reconciler, explainer, coverage = execution.reconciler, execution.explainer, execution.coverage
    yield editor_router(
        deployments,
        VocabularySource(deployments, catalogue, storage.attributes, storage.fabric_view),
        execution.previewer,
    )
    yield metrics_router(catalogue, storage.attributes, storage.fabric_view)
    yield queries_router(storage.proxy)
    yield insights_router(
        deployments, reconciler.status, explainer, decisions, proxy, catalogue, coverage
    )
    yield decisions_router(deployments, decisions, proxy)
    yield health_router(live.health)
    yield placements_router(
        deployments, explainer, live.fog_view, live.fog_history, reconciler, proxy, clock
    )
    yield events_router(
        live.result_hub,
        live.topic_hub,
        FollowerLimit(MAX_EVENT_STREAMS),
        live.cursors,
        proxy,
        state.role,
    )
    yield results_router(
        deployments,
        live.reader,
        storage.followed_results,
        follower_limit,
        Timestamps(settings.timestamp_unit),
        proxy,
        SettledResults(reconciler.status, storage.agent),
        state.role,
    )


async def _proxied(_: Request, answered: Exception) -> Response:
    return cast("Proxied", answered).response


def main(settings: EnablerSettings | None = None) -> None:
    """Serve the enabler until SIGTERM or Ctrl-C."""
    settings = settings or EnablerSettings()
    serve(create_app(settings), "enabler", settings.enabler_port, settings)
