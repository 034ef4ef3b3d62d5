"""What insights ask of monitoring agents, told to the storage agents that these post to."""

import asyncio
from collections.abc import Iterable

import msgspec

from analytics_enabler.deployments.model import Generation
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.landscape import Landscape
from mistbow.client.agent import AsyncAgentClient
from mistbow.errors import MistbowError, NotFoundError
from mistbow.plan.expressions import ACCUMULATING, Aggregate
from mistbow.plan.nodes import expressions_of
from mistbow.plan.sampling import Adaptive
from mistbow.sampling.adaptive import STREAM, Asked, both
from mistbow.streams.schemas import EVENTS
from mistbow.telemetry import get_logger

log = get_logger(__name__)

INTERVAL_S = 1.0
PATIENCE_S = 2.0

_NO_WINDOW_MS = 60_000
"""What accumulates takes each value whenever it comes."""


class Asking:
    """Keeps in each site's stream ``sampling`` which metrics insights want sampled adaptively.

    It is there, not in the memory of anyone, so that a monitoring agent finds it whoever restarts,
    and goes by it while the site is cut off.
    """

    def __init__(
        self, agent: AsyncAgentClient, landscape: Landscape, deployments: Deployments
    ) -> None:
        self._agent = agent
        self._landscape = landscape
        self._deployments = deployments
        self._agreed: dict[str, dict[str, Asked]] = {}

    async def run(self) -> None:
        """Tell all sites, again and again, until cancelled."""
        while True:
            try:
                await self._tell_all()
            except Exception:
                # A fault of ours: the loop must live, or nobody would hear of a later change.
                log.exception("telling what insights ask for failed")
            await asyncio.sleep(INTERVAL_S)

    async def _tell_all(self) -> None:
        fabric = self._landscape.fabric
        if fabric is None or not self._deployments.known or self._deployments.fenced:
            return
        asked = asked_by(self._deployments.running())
        reachable = [site.name for site in fabric.sites if site.reachable]
        await asyncio.gather(*(self._tell(site, fabric.site, asked) for site in reachable))

    async def _tell(self, site: str, own: str, asked: dict[str, Asked]) -> None:
        # What is asked for is looked after, a site may have lost it; that nothing is, is told once.
        if not asked and self._agreed.get(site) == {}:
            return
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._agree(self._agent.at(site), own, asked)
        except (MistbowError, TimeoutError) as error:
            # It goes by what it was told last, and is told again.
            log.debug("a site was not told what is asked for", site=site, reason=str(error))
            self._agreed.pop(site, None)
        else:
            self._agreed[site] = asked

    async def _agree(self, there: AsyncAgentClient, own: str, asked: dict[str, Asked]) -> None:
        try:
            notes = (await there.info(STREAM)).attributes
        except NotFoundError:
            if not asked:
                return
            await there.create_stream(STREAM, EVENTS)
            notes = {}
        note = msgspec.to_builtins(asked) or None
        if notes.get(own) != note:
            await there.advance(STREAM, attributes={own: note})


def asked_by(generations: Iterable[Generation]) -> dict[str, Asked]:
    """Return, by metric, what running insights ask for of those that are sampled adaptively."""
    asked: dict[str, Asked] = {}
    whole: set[str] = set()
    # The points of a feed are nobody's to measure.
    of_storage = [each for each in generations if each.definition.feed is None]
    for generation in of_storage:
        for node in expressions_of(generation.insight):
            if not isinstance(node, Aggregate):
                continue
            if isinstance(node.source.sampling, Adaptive):
                window = _NO_WINDOW_MS if node.function in ACCUMULATING else node.size_ms
                one = Asked.over(node.source.sampling, window)
                asked = both(asked, {node.source.metric: one})
            else:
                whole |= {source.metric for source in (node.source, node.other) if source}
    return {
        metric: msgspec.structs.replace(each, whole=metric in whole)
        for metric, each in sorted(asked.items())
    }
