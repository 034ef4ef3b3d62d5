"""The hub of topics: polls each topic that clients follow, and sends its events to all of them."""

import asyncio
from collections.abc import Collection, Mapping

from analytics_enabler.live.events import CursorClock, EventQueue, encode_json
from analytics_enabler.live.topics import Event, Topic
from mistbow.runtime.periodic import PeriodicTask, Schedule

INTERVAL_S = 1.0


class TopicHub:
    """Sends the events of topics; a topic without clients is not polled."""

    def __init__(self, topics: Mapping[str, Topic], clock: CursorClock) -> None:
        self._topics = topics
        self._clock = clock
        self._followers: dict[str, set[EventQueue]] = {name: set() for name in topics}
        self._lock = asyncio.Lock()
        self._task = PeriodicTask(self._poll, Schedule("live_topics", INTERVAL_S))

    @property
    def names(self) -> Collection[str]:
        """The names of all topics."""
        return self._topics.keys()

    async def run(self) -> None:
        """Poll topics until cancelled."""
        await self._task.run()

    async def subscribe(
        self, queue: EventQueue, names: Collection[str], after: int | None, began_at: int
    ) -> None:
        """Put the present view and all later events of topics into a client's queue.

        ``after``: the cursor (ms) from which the client resumes; None: it has seen nothing.
        ``began_at``: the time (ms) before all subscriptions of the client. Only the last event of
        the views advances the cursor, to this time: then the client has all that it has missed.
        """
        views: list[Event] = []
        async with self._lock:
            for name in names:
                # The views of a topic without clients are old.
                if not self._followers[name]:
                    await self._topics[name].poll()
                views += self._topics[name].current(after)
                self._followers[name].add(queue)
        cursor = began_at if after is None else after
        encoded = [encode_json(event, data, cursor) for event, data in views[:-1]]
        encoded += [encode_json(event, data, began_at) for event, data in views[-1:]]
        if encoded:
            # Together: the queue of a new client takes the states of any number of deployments.
            queue.put_first(b"".join(encoded))

    def unsubscribe(self, queue: EventQueue) -> None:
        """End a client's subscriptions."""
        for followers in self._followers.values():
            followers.discard(queue)

    async def _poll(self) -> None:
        async with self._lock:
            for name, followers in self._followers.items():
                if not followers:
                    continue
                events = await self._topics[name].poll()
                encoded = [encode_json(event, data, self._clock()) for event, data in events]
                if encoded:
                    together = b"".join(encoded)
                    for queue in tuple(followers):
                        queue.put(together)
