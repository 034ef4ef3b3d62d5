"""The monitoring agent as a service; its API exposes health and metrics."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from mistbow.client import AsyncAgentClient
from mistbow.client.credentials import service_credentials
from mistbow.clock import system_clock
from mistbow.errors import NotFoundError
from mistbow.runtime.tasks import cancel_and_wait
from mistbow.sampling.adaptive import SAMPLING_STREAM, SamplingRequest
from mistbow.service import create_service, serve
from mistbow.telemetry import get_logger
from monitoring_agent import metrics
from monitoring_agent.adaptive_sampling import AdaptiveSampler
from monitoring_agent.agent import MonitoringAgent, ReadRequests
from monitoring_agent.buffer import Buffer
from monitoring_agent.buffer_file import BufferFile
from monitoring_agent.collectors.interface import make_collectors
from monitoring_agent.sampling_requests import parse_confidences, requests_of
from monitoring_agent.settings import MonitorSettings

log = get_logger(__name__)


def create_app(settings: MonitorSettings) -> FastAPI:
    """Return the web service of a monitoring agent; the agent runs while the service runs."""
    credentials = service_credentials(settings.agent_url, settings.proof, "agent")
    client = AsyncAgentClient(settings.agent_url, credentials, ca=settings.client_tls)
    buffer, file = Buffer(settings.buffer_points), BufferFile(settings.home / "monitor-buffer")
    agent = MonitoringAgent(
        make_collectors(settings),
        client,
        buffer,
        AdaptiveSampler(settings.interval_ms, _own_requests(settings)),
        request_reader(client),
        interval_ms=settings.interval_ms,
        clock=system_clock,
        # Sent again after a crash, the batches of the file would be recognized for ten minutes.
        on_empty=lambda: file.save(()),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        metrics.DROPPED_POINTS.inc(buffer.restore(file.load()))
        metrics.BUFFERED_POINTS.set(len(buffer))
        running = asyncio.create_task(agent.run())
        running.add_done_callback(_end_unless_cancelled)
        try:
            yield
        finally:
            await cancel_and_wait([running])
            file.save(buffer.batches())
            await client.close()

    async def readiness() -> list[str]:
        return [agent.waits_for] if agent.waits_for else []

    return create_service(
        "Mistbow monitoring agent",
        settings,
        readiness=readiness,
        lifespan=lifespan,
        description="Measures this host, and sends the points to a storage agent.",
    )


def request_reader(client: AsyncAgentClient) -> ReadRequests:
    """Return a function that reads the sampling requests of insights from a storage agent."""

    async def read_requests() -> dict[str, SamplingRequest]:
        try:
            return requests_of((await client.info(SAMPLING_STREAM)).attributes)
        except NotFoundError:  # no enabler has stored a request yet
            return {}

    return read_requests


def _own_requests(settings: MonitorSettings) -> dict[str, SamplingRequest]:
    return {
        pattern: SamplingRequest(confidence, settings.adaptive_longest_ms)
        for pattern, confidence in parse_confidences(settings.adaptive).items()
    }


def _end_unless_cancelled(running: asyncio.Task[None]) -> None:
    if not running.cancelled():
        # A service that is healthy, but measures nothing, would never be started again.
        log.critical("agent_broke", exc_info=running.exception(), consequence="the process ends")
        os._exit(1)


def main(settings: MonitorSettings) -> None:
    """Run the monitoring agent and its web service until SIGTERM or Ctrl-C."""
    serve(create_app(settings), "monitor", settings.monitor_port, settings)
