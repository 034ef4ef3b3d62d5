"""The hub of results: one follower of each deployment's results, shared by all clients."""

import asyncio
import contextlib
from collections import deque
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa

from analytics_enabler.deployments.service import Deployments
from analytics_enabler.groups import Group
from analytics_enabler.live.events import CursorClock, EventQueue, encode_event, encode_json
from analytics_enabler.results.cursor import Since
from analytics_enabler.results.follower import ResultFollower
from analytics_enabler.results.reader import ResultReader, read_groups
from analytics_enabler.results.selection import ResultSelection, select
from analytics_enabler.results.streams import ResultStreams, TooManyRowsError
from mistbow.auth.callers import FOG, Caller
from mistbow.errors import MistbowError
from mistbow.runtime.tasks import cancel_and_wait
from mistbow.telemetry import get_logger

log = get_logger(__name__)

BATCH_S = 0.05
"""The time (s) for which results are collected, so that one event has several of them."""

MAX_BATCH = 500
MAX_RECENT = 20_000
"""The number of newest results of a deployment from which clients resume without a read."""

MAX_REPLAYED = 20_000
IDLE_S = 30.0
"""The time (s) after which the follower of a deployment without clients ends."""

_Identity = tuple[str | None, frozenset[str] | None]
"""(the only insight, signatures): the part of a deployment's results that a client reads."""


@dataclass(frozen=True, slots=True)
class LiveResult:
    """A result that a follower has read; ``data``: JSON. ``at``: the time (ms) of its arrival."""

    at: int
    insight: str
    signature: str | None
    data: bytes


@dataclass(frozen=True, slots=True, eq=False)
class ResultSubscriber:
    """A client's subscription to the results of a deployment, or of one insight of it."""

    queue: EventQueue
    insight: str | None
    caller: Caller

    @property
    def identity(self) -> _Identity:
        """The part of the results that the client reads; clients with equal parts share events."""
        return self.insight, self.caller.signatures

    def reads(self, result: LiveResult) -> bool:
        """Return whether the client follows and may read a result."""
        is_chosen = self.insight is None or self.insight == result.insight
        return is_chosen and self.caller.has_signature(result.signature)


@dataclass(slots=True, eq=False)
class _Feed:
    """The shared follower of one deployment.

    ``ready``: set once the position from which results are followed is known. ``waiting``: the
    number of clients that wait for this. ``began_at``: the time (ms) from which on all results are
    in ``recent``.
    """

    deployment_id: str
    subscribers: set[ResultSubscriber] = field(default_factory=set)
    recent: deque[LiveResult] = field(default_factory=lambda: deque(maxlen=MAX_RECENT))
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0
    began_at: int = 0
    task: asyncio.Task[None] | None = None


class ResultHub:
    """Follows the results of deployments for all clients; each result is read and encoded once."""

    def __init__(
        self,
        deployments: Deployments,
        reader: ResultReader,
        streams: ResultStreams,
        clock: CursorClock,
    ) -> None:
        self._deployments = deployments
        self._reader = reader
        self._streams = streams
        self._clock = clock
        self._feeds: dict[str, _Feed] = {}

    async def close(self) -> None:
        """End all followers, and the streams of their clients."""
        tasks = [feed.task for feed in self._feeds.values() if feed.task is not None]
        await cancel_and_wait(tasks)

    async def subscribe(
        self, subscriber: ResultSubscriber, deployment_id: str, after: int | None
    ) -> None:
        """Put the results of a deployment into a client's queue from now on.

        ``after``: the cursor (ms) from which the client resumes: earlier results that it may have
        missed come first. The events of these results have this cursor too. So a client whose
        connection breaks between the events resumes at this cursor, whichever of its subscriptions
        were complete. Raises ``NotFoundError`` for an unknown deployment or insight, and
        ``ForbiddenError`` for results that the client may not read.
        """
        selection = select(
            self._deployments.find(deployment_id), subscriber.insight, subscriber.caller
        )
        feed = self._feed(deployment_id)
        await self._wait_until_ready(feed)
        if self._feeds.get(deployment_id) is not feed:
            subscriber.queue.close()
            return
        # From here on, nothing may be awaited before the subscription, or results would be missed.
        if after is not None and feed.began_at <= after:
            found = [each for each in feed.recent if each.at >= after and subscriber.reads(each)]
            self._send(subscriber, deployment_id, [each.data for each in found], after)
            feed.subscribers.add(subscriber)
            return
        feed.subscribers.add(subscriber)
        if after is not None:
            await self._replay(subscriber, deployment_id, selection, after)

    def unsubscribe(self, subscriber: ResultSubscriber) -> None:
        """End a client's subscription."""
        for feed in list(self._feeds.values()):
            if subscriber in feed.subscribers:
                feed.subscribers.discard(subscriber)
                self._end_when_idle(feed)

    def _feed(self, deployment_id: str) -> _Feed:
        feed = self._feeds.get(deployment_id)
        if feed is None:
            feed = self._feeds[deployment_id] = _Feed(deployment_id)
            feed.task = asyncio.create_task(self._follow(feed))
        return feed

    async def _wait_until_ready(self, feed: _Feed) -> None:
        feed.waiting += 1
        try:
            await feed.ready.wait()
        except asyncio.CancelledError:
            # The client has disconnected before its subscription.
            self._end_when_idle(feed)
            raise
        finally:
            feed.waiting -= 1

    def _end_when_idle(self, feed: _Feed) -> None:
        """End a follower that has no client for ``IDLE_S``."""
        asyncio.get_running_loop().call_later(IDLE_S, self._end_if_idle, feed)

    def _end_if_idle(self, feed: _Feed) -> None:
        if not (feed.subscribers or feed.waiting) and feed.task is not None:
            feed.task.cancel()

    async def _follow(self, feed: _Feed) -> None:
        is_deleted = False
        try:
            await self._follow_results(feed)
            is_deleted = True
        except MistbowError as error:
            log.info("live_results_ended", deployment=feed.deployment_id, reason=error.message)
        finally:
            if self._feeds.get(feed.deployment_id) is feed:
                del self._feeds[feed.deployment_id]
            feed.ready.set()
            message = f"the deployment {feed.deployment_id} is deleted"
            problem = {"deployment_id": feed.deployment_id, "message": message}
            for subscriber in feed.subscribers:
                if is_deleted:
                    subscriber.queue.put(encode_json("problem", problem, self._clock()))
                else:
                    # The client connects again, and resumes.
                    subscriber.queue.close()

    async def _follow_results(self, feed: _Feed) -> None:
        deployment_id = feed.deployment_id
        selection = select(self._deployments.find(deployment_id), None, FOG)
        starts = dict((await self._reader.end(selection)).starts)
        follower = ResultFollower(
            self._streams, lambda: self._deployments.find(deployment_id), None, starts, FOG
        )
        for identity, revision in await self._reader.revisions(selection, starts):
            follower.revisions.add(identity, revision)
        feed.began_at = self._clock()
        feed.ready.set()
        batch: list[LiveResult] = []
        flushing: asyncio.TimerHandle | None = None

        def flush() -> None:
            nonlocal flushing
            flushing = None
            self._broadcast(feed, batch)
            batch.clear()

        async with contextlib.aclosing(follower.followed()) as results:
            async for one in results:
                signature = one.generation.definition.options.signature
                batch.append(
                    LiveResult(
                        self._clock(), one.generation.name, signature,
                        msgspec.json.encode({"deployment_id": deployment_id, **one.row}),
                    )
                )  # fmt: skip
                if flushing is None:
                    flushing = asyncio.get_running_loop().call_later(BATCH_S, flush)
        flush()

    def _broadcast(self, feed: _Feed, batch: list[LiveResult]) -> None:
        # A client resumes at the cursor of its last event, whose results all have that time.
        at = self._clock()
        overflow = len(feed.recent) + len(batch) - MAX_RECENT
        if overflow > 0:
            is_of_batch = overflow > len(feed.recent)
            feed.began_at = 1 + (at if is_of_batch else feed.recent[overflow - 1].at)
        arrived = [LiveResult(at, each.insight, each.signature, each.data) for each in batch]
        feed.recent.extend(arrived)
        encoded: dict[_Identity, list[bytes]] = {}
        for subscriber in feed.subscribers:
            events = encoded.get(subscriber.identity)
            if events is None:
                chosen = [each.data for each in arrived if subscriber.reads(each)]
                events = encoded[subscriber.identity] = encode_results(chosen, at)
            for event in events:
                subscriber.queue.put(event)

    def _send(
        self,
        subscriber: ResultSubscriber,
        deployment_id: str,
        results: list[bytes],
        after: int,
        *,
        is_complete: bool = True,
    ) -> None:
        """Send the results that a client has missed since its cursor, which remains the same.

        The event ``gap`` follows incomplete results. It replaces results for which the queue has no
        room: a client that is disconnected for this reason would resume in the same way for ever.
        """
        events = b"".join(encode_results(results, after))
        has_room = not events or subscriber.queue.has_room(len(events))
        if events and has_room:
            subscriber.queue.put_first(events)
        if not (has_room and is_complete):
            gap = {"deployment_id": deployment_id, "since": after}
            subscriber.queue.put_first(encode_json("gap", gap, after))

    async def _replay(
        self,
        subscriber: ResultSubscriber,
        deployment_id: str,
        selection: ResultSelection,
        after: int,
    ) -> None:
        """Send the stored results that were computed since a time.

        If they are too many, or those of an unreachable site are missing, send the event ``gap``.
        """

        async def read(group: Group, part: ResultSelection) -> pa.Table:
            return await self._streams.computed_since(group, part, Since(after))

        try:
            tables, missing = await read_groups(selection, read)
        except TooManyRowsError:
            tables = None
        if tables is None or sum(each.num_rows for each in tables.values()) > MAX_REPLAYED:
            self._send(subscriber, deployment_id, [], after, is_complete=False)
            return
        rows = (row for table in tables.values() for row in selection.visible(table).to_pylist())
        results = [{"deployment_id": deployment_id, **selection.shown(row)} for row in rows]
        encoded = [msgspec.json.encode(each) for each in results]
        self._send(subscriber, deployment_id, encoded, after, is_complete=not missing)


def encode_results(results: list[bytes], at: int) -> list[bytes]:
    """Return results (JSON) as events with at most ``MAX_BATCH`` results each."""
    if len(results) == 1:
        return [encode_event("result", results[0], at)]
    parts = (results[n : n + MAX_BATCH] for n in range(0, len(results), MAX_BATCH))
    return [encode_event("results", b'{"results":[%b]}' % b",".join(part), at) for part in parts]
