"""The insights' requests for adaptive sampling, which monitoring agents read."""

import asyncio
from collections.abc import Callable, Iterable

import msgspec

from analytics.plan.expressions import Aggregate
from analytics.plan.functions import ACCUMULATED
from analytics.plan.nodes import expressions_of
from analytics.plan.sampling import Adaptive
from analytics_enabler.deployments.model import Generation
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.fabric_view import FabricView
from mistbow.client.agent import AsyncAgentClient
from mistbow.domains import DEFAULT_DOMAIN
from mistbow.errors import MistbowError, NotFoundError
from mistbow.runtime.periodic import PeriodicTask, Schedule
from mistbow.sampling.adaptive import SAMPLING_STREAM, SamplingRequest, merge_requests
from mistbow.streams.schemas import EVENTS
from mistbow.telemetry import get_logger

log = get_logger(__name__)

INTERVAL_S = 1.0
PATIENCE_S = 2.0

_NO_WINDOW_MS = 60_000
"""The assumed window (ms) of accumulating functions, which have no window."""


class SamplingRequestPublisher:
    """Stores the sampling requests of all insights in the stream ``sampling`` at each site.

    Monitoring agents find the stored requests after a restart, and while their site is
    disconnected.
    """

    def __init__(
        self,
        agent: AsyncAgentClient,
        fabric_view: FabricView,
        deployments: Deployments,
        is_active: Callable[[], bool] = lambda: True,
        domain: str = DEFAULT_DOMAIN,
    ) -> None:
        self._agent = agent
        self._fabric_view = fabric_view
        self._deployments = deployments
        self._is_active = is_active
        self._domain = domain
        self._stored: dict[str, dict[str, SamplingRequest]] = {}
        self._task = PeriodicTask(self._send_to_sites, Schedule("sampling_requests", INTERVAL_S))

    async def run(self) -> None:
        """Store the requests at all reachable sites every ``INTERVAL_S``, until cancelled."""
        await self._task.run()

    async def _send_to_sites(self) -> None:
        fabric = self._fabric_view.fabric
        if fabric is None or not self._deployments.is_loaded or self._deployments.fenced:
            return
        if not self._is_active():
            return
        requests = sampling_requests_of(self._deployments.running())
        reachable = [site.name for site in fabric.sites if site.reachable]
        is_default = self._domain == DEFAULT_DOMAIN
        name = fabric.site if is_default else f"{fabric.site}/{self._domain}"
        await asyncio.gather(*(self._send(site, name, requests) for site in reachable))

    async def _send(self, site: str, name: str, requests: dict[str, SamplingRequest]) -> None:
        # Requests are stored again in case the site lost them; the lack of requests is not.
        if not requests and self._stored.get(site) == {}:
            return
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._store(self._agent.at(site), name, requests)
        except (MistbowError, TimeoutError) as error:
            # The monitoring agents of the site use the last requests until the next attempt.
            log.debug("sampling_request_failed", site=site, reason=str(error))
            self._stored.pop(site, None)
        else:
            self._stored[site] = requests

    async def _store(
        self, agent: AsyncAgentClient, name: str, requests: dict[str, SamplingRequest]
    ) -> None:
        try:
            attributes = (await agent.info(SAMPLING_STREAM)).attributes
        except NotFoundError:
            if not requests:
                return
            await agent.create_stream(SAMPLING_STREAM, EVENTS)
            attributes = {}
        value = msgspec.to_builtins(requests) or None
        if attributes.get(name) != value:
            await agent.advance(SAMPLING_STREAM, attributes={name: value})


def sampling_requests_of(generations: Iterable[Generation]) -> dict[str, SamplingRequest]:
    """Return metric -> sampling request, for the metrics that insights sample adaptively.

    ``all_values`` is set in the request for a metric if another insight reads all points of the
    metric.
    """
    requests: dict[str, SamplingRequest] = {}
    whole: set[str] = set()
    # The points of feeds are computed, so no monitoring agent samples them.
    of_raw_points = [each for each in generations if each.definition.feed is None]
    for generation in of_raw_points:
        for node in expressions_of(generation.insight):
            if not isinstance(node, Aggregate):
                continue
            if isinstance(node.source.sampling, Adaptive):
                window = _NO_WINDOW_MS if node.function in ACCUMULATED else node.size_ms
                request = SamplingRequest.for_window(node.source.sampling.confidence, window)
                requests = merge_requests(requests, {node.source.metric: request})
            else:
                whole |= {source.metric for source in node.sources}
    return {
        metric: msgspec.structs.replace(request, all_values=metric in whole)
        for metric, request in sorted(requests.items())
    }
