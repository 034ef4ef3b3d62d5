"""Following the results to come: only those that change what stands."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from analytics_enabler.deployments.model import Deployment
from analytics_enabler.groups import Group
from analytics_enabler.results.positions import Since, Start, text_of
from analytics_enabler.results.selection import Selection, select
from analytics_enabler.results.streams import AwayError, ResultStreams
from mistbow.auth.callers import Caller
from mistbow.errors import ConflictError, NotFoundError, UnavailableError
from mistbow.streams.wire import Chunk
from mistbow.tasks import end

MOST_REMEMBERED = 20_000
MOST_WAITING = 4
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
    """Follows one deployment, or one insight of it, from ``starts`` (by group) on.

    ``find`` returns the deployment as it is now; the stream ends when it is no more. A group
    without a start was added since: of its stream nothing is seen, and it is followed from 0.
    """

    streams: ResultStreams
    find: Callable[[], Deployment]
    insight: str | None
    starts: dict[str, Start]
    caller: Caller
    memory: Memory = field(default_factory=Memory)

    async def results(self) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Yield results as they come, each with the text to resume from.

        A resumed stream may repeat results, since all of one chunk resume from its beginning.
        Raises what a group's stream fails by, unless that may pass: who follows connects anew.
        """
        while True:
            try:
                deployment = self.find()
            except NotFoundError:
                return
            async for position, row in self._until_amended(deployment):
                yield position, row

    async def _until_amended(
        self, deployment: Deployment
    ) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        selection = select(deployment, self.insight, self.caller)
        chunks: asyncio.Queue[tuple[Group, Chunk]] = asyncio.Queue(MOST_WAITING)
        pumps = [
            asyncio.create_task(self._pump(group, part, chunks))
            for group, part in selection.groups.items()
        ]
        try:
            while True:
                for pump in pumps:
                    if pump.done():
                        pump.result()
                try:
                    async with asyncio.timeout(RETRY_S):
                        group, chunk = await chunks.get()
                except TimeoutError:
                    if self._is_still(deployment):
                        continue
                    return
                if not self._is_still(deployment):
                    # This chunk may have been read past results of an insight added since.
                    return
                for position, row in self._news(selection, group, chunk):
                    yield position, row
                self.starts[group.id] = chunk.position.next
        finally:
            await end(pumps)

    async def _pump(
        self, group: Group, part: Selection, chunks: "asyncio.Queue[tuple[Group, Chunk]]"
    ) -> None:
        """Put a group's chunks into the queue; ends only by an error that does not pass."""
        start = self.starts.get(group.id, 0)
        while True:
            try:
                if isinstance(start, Since):
                    start = await self.streams.since(group, start.time)
                async with aclosing(self.streams.follow(group, part, start)) as followed:
                    async for chunk in followed:
                        await chunks.put((group, chunk))
                        start = chunk.position.next
            except ConflictError:
                # The site lost its store: all that the stream has is computed since.
                start = 0
                await asyncio.sleep(RETRY_S)
            except (AwayError, UnavailableError, NotFoundError):
                # The agent restarts, its site is cut off, or nothing has ever been computed.
                await asyncio.sleep(RETRY_S)

    def _news(
        self, selection: Selection, group: Group, chunk: Chunk
    ) -> list[tuple[str, dict[str, Any]]]:
        rows = [row for row in selection.visible(chunk.rows) if self._is_news(row)]
        # Only the last one moves on: a cut in the middle loses none.
        before = text_of(self.starts)
        after = text_of({**self.starts, group.id: chunk.position.next})
        return [
            (after if place == len(rows) else before, selection.shown(row))
            for place, row in enumerate(rows, start=1)
        ]

    def _is_still(self, deployment: Deployment) -> bool:
        try:
            return self.find() is deployment
        except NotFoundError:
            return False

    def _is_news(self, row: dict[str, Any]) -> bool:
        return self.memory.changes((row["insight"], row["key"], row["ts"]), row["revision"])
