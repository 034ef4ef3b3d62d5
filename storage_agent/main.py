"""Runs the storage agent as an HTTP service."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI

from mistbow.clock import Clock, system_clock
from mistbow.openapi import ApiDescription
from mistbow.runtime.collection import exclude_from_collection, slow_collections_excluded
from mistbow.service import create_service, serve
from mistbow.timestamps import Timestamps
from storage_agent.agent.agent import Agent
from storage_agent.agent.clock_steps import ExpiryClock
from storage_agent.api.answers import ANSWERS
from storage_agent.api.backups import backups_routes
from storage_agent.api.cluster import cluster_routes
from storage_agent.api.config import config_routes
from storage_agent.api.error_forms import ERROR_FORMS
from storage_agent.api.fabric import fabric_routes
from storage_agent.api.field_descriptions import FIELD_DESCRIPTIONS
from storage_agent.api.ingest import ingest_routes
from storage_agent.api.points import points_routes
from storage_agent.api.promql import promql_routes
from storage_agent.api.records import records_routes
from storage_agent.api.replication import replication_routes
from storage_agent.api.rows import rows_routes
from storage_agent.api.sql import sql_routes
from storage_agent.api.streams import streams_routes
from storage_agent.http.hot_routes import HotRoutes
from storage_agent.ingest.mqtt import start_bridge
from storage_agent.membership.network import VIA
from storage_agent.settings import AgentSettings
from storage_agent.work_threads import limit_work_threads

_SWITCH_S = 0.0002
"""The time (s) after which threads that work in Python let the event loop run.

The loop waits for this time after each of its calls of NumPy or Arrow that releases the GIL. A
``/put`` has several of them. The default of Python is 5 ms.
"""


def create_app(
    settings: AgentSettings,
    clock: Clock = system_clock,
    on_recovered: Callable[[], None] = lambda: None,
    expiry_clock: ExpiryClock | None = None,
) -> FastAPI:
    """Return the web application of an agent, which connects to Ignite when the server starts.

    ``on_recovered``: called once when the agent has read the data of its site. ``expiry_clock``:
    the clock by which rows expire; None: ``clock``.
    """
    agent = Agent(settings, clock, on_recovered, expiry_clock)
    hot_routes = HotRoutes(VIA.lower().encode())
    times = Timestamps(settings.timestamp_unit)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        limit_work_threads()
        agent.start()
        bridge = start_bridge(agent, settings, clock)
        yield
        if bridge is not None:
            await bridge.close()
        await agent.close()

    app = create_service(
        "Mistbow storage agent",
        settings,
        readiness=agent.waiting_for,
        warnings=agent.warnings,
        lifespan=lifespan,
        description="Stores monitoring data and streams in Ignite, and answers queries about them.",
        wrap=hot_routes.wrap,
        error_forms=ERROR_FORMS,
        api=ApiDescription(FIELD_DESCRIPTIONS, ANSWERS),
    )
    app.include_router(points_routes(agent, hot_routes, settings.node, times))
    app.include_router(records_routes(agent, hot_routes, times))
    app.include_router(cluster_routes(agent))
    app.include_router(rows_routes(agent, times))
    app.include_router(streams_routes(agent, times))
    app.include_router(sql_routes(agent))
    app.include_router(ingest_routes(agent, settings, clock))
    app.include_router(promql_routes(agent, settings, clock))
    app.include_router(replication_routes(agent))
    app.include_router(fabric_routes(agent.membership, agent.replication.check_unused))
    app.include_router(config_routes(agent))
    app.include_router(backups_routes(agent))
    return app


def main(settings: AgentSettings | None = None) -> None:
    """Serve the storage agent until SIGTERM or Ctrl-C."""
    settings = settings or AgentSettings()
    sys.setswitchinterval(_SWITCH_S)
    expiry_clock = ExpiryClock(system_clock, file=settings.home / "agent" / "clock-steps.json")
    app = create_app(settings, on_recovered=exclude_from_collection, expiry_clock=expiry_clock)
    with slow_collections_excluded():
        serve(app, "agent", settings.agent_port, settings)
