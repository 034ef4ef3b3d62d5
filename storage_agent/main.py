"""The storage agent as a service."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from mistbow.clock import Clock, system_clock
from mistbow.service import create_service, serve
from mistbow.settings import AgentSettings
from storage_agent.agent import Agent
from storage_agent.cluster.api import cluster_routes
from storage_agent.config_api import config_routes
from storage_agent.fabric.api import fabric_routes
from storage_agent.fabric.network import VIA
from storage_agent.ingest.api import ingest_routes
from storage_agent.ingest.mqtt import running_bridge
from storage_agent.monitoring.api import monitoring_routes, monitoring_shortcuts
from storage_agent.promql.api import PATH, promql_routes
from storage_agent.promql.problems import translated
from storage_agent.records.api import records_routes, records_shortcuts
from storage_agent.replication.api import replication_routes
from storage_agent.sql.api import sql_routes
from storage_agent.streams.api import streams_routes
from storage_agent.streams.rows_api import rows_routes


def create_app(settings: AgentSettings, clock: Clock = system_clock) -> FastAPI:
    """Return the agent's application; it connects to Ignite when it is served."""
    agent = Agent(settings, clock)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        agent.start()
        bridge = running_bridge(agent, settings, clock)
        yield
        if bridge is not None:
            await bridge.close()
        await agent.close()

    app = create_service(
        "Mistbow storage agent",
        settings,
        readiness=agent.waiting_for,
        lifespan=lifespan,
        description="Keeps monitoring data and streams in Ignite, and answers for them.",
        shortcuts={**monitoring_shortcuts(agent), **records_shortcuts(agent)},
        but_with=VIA.lower().encode(),
        not_found={f"{PATH}/": lambda error: translated(error).body()},
    )
    app.include_router(monitoring_routes(agent))
    app.include_router(records_routes(agent))
    app.include_router(cluster_routes(agent))
    app.include_router(rows_routes(agent))
    app.include_router(streams_routes(agent))
    app.include_router(sql_routes(agent))
    app.include_router(ingest_routes(agent, settings, clock))
    app.include_router(promql_routes(agent, settings, clock))
    app.include_router(replication_routes(agent))
    app.include_router(fabric_routes(agent.member, agent.replication.check_unused))
    app.include_router(config_routes(agent))
    return app


def main(settings: AgentSettings | None = None) -> None:
    """Serve the storage agent until SIGTERM or Ctrl-C."""
    settings = settings or AgentSettings()
    serve(create_app(settings), "agent", settings.agent_port, settings)
