"""Following the results to come: only those that change what stands."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from analytics_enabler.deployments.model import Deployment
from analytics_enabler.results.selection import select
from mistbow.client.agent import AsyncAgentClient
from mistbow.errors import NotFoundError, UnavailableError
from mistbow.streams.schemas import RESULTS

MOST_REMEMBERED = 20_000
RETRY_S = 1.0


class Memory:
    """The newest revision of the results seen last; older ones are forgotten."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._revisions: OrderedDict[tuple[str, str, int], int] = OrderedDict()

    def changes(self, identity: tuple[str, str, int], revision: int) -> bool:
        """Note a result, and return whether it changes what stands."""
        if revision <= self._revisions.get(identity, -1):
            return False
        self._revisions[identity] = revision
        self._revisions.move_to_end(identity)
        if len(self._revisions) > self._most:
            self._revisions.popitem(last=False)
        return True


@dataclass(slots=True)
class Follower:
    """Follows one deployment, or one insight of it, from the row ``number`` on.

    ``find`` returns the deployment as it is now; the stream ends when it is no more.
    """

    agent: AsyncAgentClient
    find: Callable[[], Deployment]
    insight: str | None
    number: int
    memory: Memory = field(default_factory=Memory)

    async def results(self) -> AsyncIterator[tuple[int, dict[str, Any]]]:
        """Yield results as they come, each with the number to resume from.

        A resumed stream may repeat results, since all of one chunk resume from its beginning.
        """
        while True:
            try:
                deployment = self.find()
            except NotFoundError:
                return
            try:
                async for number, row in self._until_amended(deployment):
                    yield number, row
            except (UnavailableError, NotFoundError):
                # The agent restarts, or nothing has ever been computed.
                await asyncio.sleep(RETRY_S)

    async def _until_amended(
        self, deployment: Deployment
    ) -> AsyncIterator[tuple[int, dict[str, Any]]]:
        selection = select(deployment, self.insight)
        chunks = self.agent.follow(RESULTS, self.number, match=selection.match)
        async with aclosing(chunks):
            async for chunk in chunks:
                if self.find() is not deployment:
                    # This chunk may have been read past results of an insight added since.
                    return
                rows = [row for row in selection.visible(chunk.rows) if self._is_news(row)]
                for place, row in enumerate(rows, start=1):
                    # Only the last one moves on: a cut in the middle loses none.
                    resume = chunk.position.next if place == len(rows) else self.number
                    yield resume, selection.shown(row)
                self.number = chunk.position.next

    def _is_news(self, row: dict[str, Any]) -> bool:
        return self.memory.changes((row["insight"], row["key"], row["ts"]), row["revision"])
