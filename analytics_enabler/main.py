"""The process of the enabler: builds the components and serves the API."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from analytics.client.worker import AsyncWorkerClient
from analytics_enabler.api import descriptions
from analytics_enabler.api.insights import insights_router
from analytics_enabler.api.results import results_router
from analytics_enabler.catalogue import DataCatalogue
from analytics_enabler.deployments.model import event_from_json
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.execution import Reconciler
from analytics_enabler.execution.group_placements import GroupPlacements, group_placement_from_json
from analytics_enabler.execution.planner import Planner
from analytics_enabler.explain import Explainer
from analytics_enabler.fabric_view import FabricView
from analytics_enabler.journal import EventJournal
from analytics_enabler.limits import MAX_FOLLOWER_CONNECTIONS, MAX_FOLLOWERS
from analytics_enabler.results.follower_limit import FollowerLimit
from analytics_enabler.results.reader import ResultReader
from analytics_enabler.results.streams import ResultStreams
from analytics_enabler.sampling_requests import SamplingRequestPublisher
from analytics_enabler.scheduling.driver.driver import PlacementDriver
from analytics_enabler.settings import EnablerSettings
from mistbow.client.agent import AsyncAgentClient
from mistbow.client.credentials import ServiceCredentials, service_credentials
from mistbow.clock import Clock, system_clock
from mistbow.errors import MistbowError
from mistbow.runtime.tasks import cancel_and_wait
from mistbow.service import create_service, serve
from mistbow.streams.schemas import DEPLOYMENTS, PLACEMENTS, RAW
from mistbow.timestamps import Timestamps

DESCRIPTION = "Deploys insights, runs them on workers and serves their results."


def create_app(
    settings: EnablerSettings, clock: Clock = system_clock, max_followers: int = MAX_FOLLOWERS
) -> FastAPI:
    """Return the enabler as a web application."""
    ca = settings.tls_ca
    credentials = service_credentials(settings.agent_url, settings.secret)
    agent = AsyncAgentClient(settings.agent_url, credentials, ca=ca)
    followed = AsyncAgentClient(
        settings.agent_url, credentials, ca=ca, max_connections=MAX_FOLLOWER_CONNECTIONS
    )
    fabric_view = FabricView(agent, clock)
    catalogue = DataCatalogue(agent, fabric_view, clock)

    async def frontier() -> int:
        return (await agent.info(RAW)).frontier

    def connect(url: str) -> AsyncWorkerClient:
        # An announced address: also without a token, a worker must answer there.
        credentials = ServiceCredentials(url, settings.secret or "")
        return AsyncWorkerClient(url, credentials, attempts=1, ca=ca)

    deployments = Deployments(
        EventJournal(agent, DEPLOYMENTS, event_from_json),
        catalogue,
        fabric_view,
        frontier,
        clock,
        settings.scheduler,
    )
    placements = GroupPlacements(EventJournal(agent, PLACEMENTS, group_placement_from_json), clock)
    planner = Planner(agent, placements, settings.patience_ms)
    driver = PlacementDriver(clock, settings.scheduler_settings)
    reconciler = Reconciler(
        deployments, fabric_view, placements, planner, driver, catalogue, connect, clock
    )
    sampling_requests = SamplingRequestPublisher(agent, fabric_view, deployments)
    explainer = Explainer(reconciler, fabric_view, catalogue, agent)

    async def readiness() -> list[str]:
        return await _unready_reasons(deployments, reconciler, settings.agent_url)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        running = [asyncio.create_task(each.run()) for each in (reconciler, sampling_requests)]
        yield
        await cancel_and_wait(running)
        for client in (followed, agent):
            await client.close()

    app = create_service(
        "Mistbow analytics enabler",
        settings,
        readiness=readiness,
        lifespan=lifespan,
        description=DESCRIPTION,
        api=descriptions.DESCRIPTION,
    )
    app.include_router(insights_router(deployments, reconciler.status, explainer))
    reader, limit = ResultReader(ResultStreams(agent), clock), FollowerLimit(max_followers)
    times = Timestamps(settings.timestamp_unit)
    app.include_router(results_router(deployments, reader, ResultStreams(followed), limit, times))
    return app


async def _unready_reasons(
    deployments: Deployments, reconciler: Reconciler, agent_url: str
) -> list[str]:
    if deployments.fenced:
        return [
            "another enabler has taken over this site: stop one of the two, "
            "and restart this one if it is the one to stay"
        ]
    if not deployments.is_loaded:
        outage = reconciler.outage()
        why = "" if outage is None else f": {outage}"
        return [f"the deployments at the storage agent {agent_url} are not read yet{why}"]
    try:
        await deployments.check_lease()
    except MistbowError as error:
        return [error.message]
    return []


def main(settings: EnablerSettings | None = None) -> None:
    """Serve the enabler until SIGTERM or Ctrl-C."""
    settings = settings or EnablerSettings()
    serve(create_app(settings), "enabler", settings.enabler_port, settings)
