"""The follower of results: yields new results and revisions as they arrive."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from cachetools import FIFOCache

from analytics_enabler.deployments.model import Deployment, Generation
from analytics_enabler.groups import Group
from analytics_enabler.results.cursor import Cursor, Since, Start
from analytics_enabler.results.selection import ResultSelection, select
from analytics_enabler.results.streams import MAX_LAG_MS, ResultStreams, SiteUnreachableError
from mistbow.auth.callers import Caller
from mistbow.errors import ConflictError, NotFoundError, UnavailableError
from mistbow.runtime.periodic import PeriodicTask, Schedule
from mistbow.runtime.tasks import cancel_and_wait
from mistbow.streams.wire import Chunk, Position

MAX_REVISIONS = 20_000
MAX_CHUNKS = 4
RETRY_S = 1.0

_TRANSIENT = (ConflictError, SiteUnreachableError, UnavailableError)
"""The errors after which the results of a group are read again."""


class LatestRevisions:
    """The latest revision of each recent result; a result is identified by (uid, key, ts)."""

    def __init__(self, max_revisions: int = MAX_REVISIONS) -> None:
        self._revisions: FIFOCache[tuple[str, str, int], int] = FIFOCache(max_revisions)

    def add(self, identity: tuple[str, str, int], revision: int) -> bool:
        """Add a revision of a result; return whether this revision is the latest so far.

        ``identity``: (uid, key, ts) of the result.
        """
        if revision <= self._revisions.get(identity, -1):
            return False
        self._revisions[identity] = revision
        return True


@dataclass(frozen=True, slots=True)
class FollowedResult:
    """A new result, in the form of the API; ``cursor``: where a follower resumes after it."""

    cursor: str
    generation: Generation
    row: dict[str, Any]


@dataclass(slots=True)
class ResultFollower:
    """Follows the results of one deployment, or of one of its insights.

    ``find``: returns the current version of the deployment, and raises ``NotFoundError`` after the
    deployment was deleted. ``insight``: the only insight to follow; None: all insights.
    ``starts``: group id -> resume position or time. A group without a start is new, and the results
    of a new group are followed from position 0. ``revisions``: results that are not yielded again.
    """

    streams: ResultStreams
    find: Callable[[], Deployment]
    insight: str | None
    starts: dict[str, Start]
    caller: Caller
    revisions: LatestRevisions = field(default_factory=LatestRevisions)
    _recomputed: dict[str, Since] = field(init=False)
    """Group id -> the start of a group whose earlier results are computed again."""

    def __post_init__(self) -> None:
        self._recomputed = {
            group: start
            for group, start in self.starts.items()
            if isinstance(start, Since) and start.is_recomputed
        }

    async def results(self) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        """Yield (cursor, result) as results arrive; end when the deployment is deleted.

        A follower that resumes at a cursor may yield results again: all results of a chunk except
        the last have the cursor of the chunk's start. Raises an error of a stream if a retry cannot
        resolve the error.
        """
        async with aclosing(self.followed()) as results:
            async for each in results:
                yield each.cursor, each.row

    async def followed(self) -> AsyncGenerator[FollowedResult, None]:
        """Yield results as they arrive, each with its generation; see ``results``."""
        while True:
            try:
                deployment = self.find()
            except NotFoundError:
                return
            async with aclosing(self._until_amended(deployment)) as results:
                async for each in results:
                    yield each

    async def _until_amended(self, deployment: Deployment) -> AsyncGenerator[FollowedResult, None]:
        selection = select(deployment, self.insight, self.caller)
        chunks: asyncio.Queue[tuple[Group, Chunk]] = asyncio.Queue(MAX_CHUNKS)
        readers = [
            asyncio.create_task(self._read(group, part, chunks))
            for group, part in selection.groups.items()
        ]
        try:
            while True:
                for reader in readers:
                    if reader.done():
                        reader.result()
                try:
                    async with asyncio.timeout(RETRY_S):
                        group, chunk = await chunks.get()
                except TimeoutError:
                    if self._is_current(deployment):
                        continue
                    return
                if not self._is_current(deployment):
                    # The chunk lacks the rows of insights that were added meanwhile.
                    return
                for result in self._new_results(selection, group, chunk):
                    yield result
                self.starts[group.id] = self._resume_after(group, chunk.position)
        finally:
            await cancel_and_wait(readers)

    async def _read(
        self, group: Group, part: ResultSelection, chunks: "asyncio.Queue[tuple[Group, Chunk]]"
    ) -> None:
        """Put the chunks of a group's results into the queue; retry after transient errors."""
        start = self.starts.get(group.id, Position(0, 0))
        position = None if isinstance(start, Since) else start.next

        async def read() -> float:
            nonlocal position
            try:
                if isinstance(start, Since) and position is None:
                    earlier = MAX_LAG_MS if start.is_recomputed else 0
                    position = await self.streams.since(group, start.time - earlier)
                async with aclosing(self.streams.follow(group, part, position or 0)) as followed:
                    async for chunk in followed:
                        task.end_streak()
                        await chunks.put((group, chunk))
                        position = chunk.position.next
            except NotFoundError:
                # The stream has no rows yet.
                return RETRY_S
            except ConflictError:
                # The site lost its store, so all rows of the stream are new.
                position = 0
                raise
            return 0

        schedule = Schedule(
            "result_stream",
            RETRY_S,
            expected=_TRANSIENT,
            survived=_TRANSIENT,
            fields={"group": group.id},
        )
        task = PeriodicTask(read, schedule)
        await task.run()

    def _new_results(
        self, selection: ResultSelection, group: Group, chunk: Chunk
    ) -> list[FollowedResult]:
        visible = selection.visible(chunk.rows).to_pylist()
        rows = [row for row in visible if self._is_new(group, row)]
        site = self.streams.own_site()
        # Only the last row advances the cursor, so that a cut within the chunk loses no row.
        before = str(Cursor(site, self.starts))
        resumed = self._resume_after(group, chunk.position)
        after = str(Cursor(site, {**self.starts, group.id: resumed}))
        return [
            FollowedResult(
                after if number == len(rows) else before,
                selection.generations[row["insight"]],
                selection.shown(row),
            )
            for number, row in enumerate(rows, start=1)
        ]

    def _resume_after(self, group: Group, position: Position) -> Start:
        """Return where to resume a group after ``position``.

        A position within the repeated results would repeat the rest of them.
        """
        recomputed = self._recomputed.get(group.id)
        if recomputed is not None and position.frontier < recomputed.time:
            return recomputed
        return position

    def _is_current(self, deployment: Deployment) -> bool:
        try:
            return self.find() is deployment
        except NotFoundError:
            return False

    def _is_new(self, group: Group, row: dict[str, Any]) -> bool:
        recomputed = self._recomputed.get(group.id)
        # The new enabler may have computed the newest results from more points.
        is_repeated = recomputed is not None and row["ts"] <= recomputed.time - MAX_LAG_MS
        if is_repeated and row["revision"] == 0:
            return False
        return self.revisions.add((row["insight"], row["key"], row["ts"]), row["revision"])
