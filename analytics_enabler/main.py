"""The enabler's process: its parts, put together."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from analytics_enabler.api.insights import insights_router
from analytics_enabler.api.results import results_router
from analytics_enabler.asking import Asking
from analytics_enabler.catalogue import Catalogue
from analytics_enabler.deployments.model import event_from_json
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.execution import Execution
from analytics_enabler.execution.planner import Planner
from analytics_enabler.execution.standing import Standings, standing_from_json
from analytics_enabler.explain import Outlook
from analytics_enabler.journal import Journal
from analytics_enabler.landscape import Landscape
from analytics_enabler.limits import MOST_FOLLOWERS
from analytics_enabler.placing.placer import Placer
from analytics_enabler.results.places import Places
from analytics_enabler.results.reader import ResultReader
from analytics_enabler.results.streams import ResultStreams
from mistbow.client.agent import AsyncAgentClient
from mistbow.client.worker import AsyncWorkerClient
from mistbow.clock import Clock, system_clock
from mistbow.errors import MistbowError
from mistbow.service import create_service, serve
from mistbow.settings import EnablerSettings
from mistbow.streams.schemas import DEPLOYMENTS, PLACEMENTS, RAW
from mistbow.tasks import end

DESCRIPTION = "Deploys insights, has them computed and serves their results."


def create_app(
    settings: EnablerSettings, clock: Clock = system_clock, most_followers: int = MOST_FOLLOWERS
) -> FastAPI:
    """Return the enabler as an application."""
    token, ca = settings.secret, settings.tls_ca
    agent = AsyncAgentClient(settings.agent_url, token, ca=ca)
    followed = AsyncAgentClient(settings.agent_url, token, ca=ca)
    landscape = Landscape(agent)
    catalogue = Catalogue(agent, landscape, clock)

    async def frontier() -> int:
        return (await agent.info(RAW)).frontier

    def connect(url: str) -> AsyncWorkerClient:
        return AsyncWorkerClient(url, token=token, attempts=1, ca=ca)

    deployments = Deployments(
        Journal(agent, DEPLOYMENTS, event_from_json),
        catalogue,
        landscape,
        frontier,
        clock,
        settings.scheduler,
    )
    standings = Standings(Journal(agent, PLACEMENTS, standing_from_json), clock)
    planner = Planner(agent, standings, settings.patience_ms)
    placer = Placer(clock, settings.scheduler_settings)
    execution = Execution(deployments, landscape, standings, planner, placer, catalogue, connect)

    asking = Asking(agent, landscape, deployments)
    outlook = Outlook(execution, landscape, catalogue, agent)

    async def readiness() -> list[str]:
        return await _waits_for(deployments, settings.agent_url)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        running = [asyncio.create_task(each.run()) for each in (execution, asking)]
        yield
        await end(running)
        for client in (followed, agent):
            await client.close()

    app = create_service(
        "Mistbow analytics enabler",
        settings,
        readiness=readiness,
        lifespan=lifespan,
        description=DESCRIPTION,
    )
    app.include_router(insights_router(deployments, execution, outlook))
    reader, places = ResultReader(ResultStreams(agent), clock), Places(most_followers)
    app.include_router(results_router(deployments, reader, ResultStreams(followed), places))
    return app


async def _waits_for(deployments: Deployments, agent_url: str) -> list[str]:
    if deployments.fenced:
        return [
            "nothing: another enabler has taken over this site; stop one of the two, "
            "and restart this one if it is the one to stay"
        ]
    if not deployments.known:
        return [f"the storage agent at {agent_url}: the deployments are not read yet"]
    try:
        await deployments.check_owned()
    except MistbowError as error:
        return [error.message]
    return []


def main(settings: EnablerSettings | None = None) -> None:
    """Serve the enabler until SIGTERM or Ctrl-C."""
    settings = settings or EnablerSettings()
    serve(create_app(settings), "enabler", settings.enabler_port, settings)
