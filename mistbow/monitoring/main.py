"""The monitoring agent as a service: its health and metrics are its whole API."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from mistbow.client.agent import AsyncAgentClient
from mistbow.clock import system_clock
from mistbow.errors import NotFoundError
from mistbow.monitoring.adapting import Adapting
from mistbow.monitoring.agent import AskedFor, MonitoringAgent
from mistbow.monitoring.buffer import Buffer
from mistbow.monitoring.collector import make_collectors
from mistbow.monitoring.settings import MonitorSettings
from mistbow.sampling.adaptive import STREAM, Asked, asked_in, confidences
from mistbow.service import create_service, serve
from mistbow.tasks import end
from mistbow.telemetry import get_logger

log = get_logger(__name__)


def create_app(settings: MonitorSettings) -> FastAPI:
    """Build the service; the agent runs as long as it does."""
    client = AsyncAgentClient(settings.agent_url, settings.secret, ca=settings.tls_ca)
    agent = MonitoringAgent(
        make_collectors(settings),
        client,
        Buffer(settings.buffer_points),
        Adapting(settings.interval_ms, _own(settings)),
        asked_of(client),
        interval_ms=settings.interval_ms,
        clock=system_clock,
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        running = asyncio.create_task(agent.run())
        running.add_done_callback(_end_unless_cancelled)
        try:
            yield
        finally:
            await end([running])
            await client.close()

    async def readiness() -> list[str]:
        return [agent.waits_for] if agent.waits_for else []

    return create_service(
        "Mistbow monitoring agent",
        settings,
        readiness=readiness,
        lifespan=lifespan,
        description="Measures this host and posts what it finds to a storage agent.",
    )


def asked_of(client: AsyncAgentClient) -> AskedFor:
    """Return what asks a storage agent which metrics insights want to be sampled adaptively."""

    async def asked_for() -> dict[str, Asked]:
        try:
            return asked_in((await client.info(STREAM)).attributes)
        except NotFoundError:  # nobody has ever asked
            return {}

    return asked_for


def _own(settings: MonitorSettings) -> dict[str, Asked]:
    longest = settings.adaptive_longest_ms
    return {
        pattern: Asked(confidence, longest)
        for pattern, confidence in confidences(settings.adaptive).items()
    }


def _end_unless_cancelled(running: asyncio.Task[None]) -> None:
    if not running.cancelled():
        # A service that looks well and measures nothing would never be started again.
        log.critical("the agent broke: this process ends", exc_info=running.exception())
        os._exit(1)


def main(settings: MonitorSettings) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    serve(create_app(settings), "monitor", settings.monitor_port, settings)
