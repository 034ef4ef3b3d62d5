"""The route of live events: results, states, the fog and decisions in one stream for a page."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query
from fastapi.responses import StreamingResponse

from analytics_enabler.api.live_answers import until_standby
from analytics_enabler.domains.proxy import DomainProxy
from analytics_enabler.domains.role import RoleCell
from analytics_enabler.live.events import CursorClock, EventQueue, encode_json
from analytics_enabler.live.result_hub import ResultHub, ResultSubscriber
from analytics_enabler.live.topic_hub import TopicHub
from analytics_enabler.live.topics import topic_names
from analytics_enabler.results.follower_limit import FollowerLimit
from mistbow import __version__
from mistbow.auth.callers import Caller, current_caller
from mistbow.auth.rules import requires
from mistbow.errors import ForbiddenError, InvalidRequestError, NotFoundError

PING_S = 15.0
"""The time (s) without another event after which a client receives the event ``ping``."""

MAX_FOLLOWED = 50
"""The maximum number of insights or deployments that one stream follows."""

_MAX_CURSOR = 253_402_300_799_999


def events_router(
    results: ResultHub,
    hub: TopicHub,
    follower_limit: FollowerLimit,
    clock: CursorClock,
    proxy: DomainProxy,
    role: RoleCell,
) -> APIRouter:
    """Return the route ``/api/events``.

    ``proxy``: finds deployments of other domains. ``role``: ends the events of a standby.
    """
    router = APIRouter(prefix="/api", tags=["events"])

    @router.get(
        "/events", response_class=StreamingResponse, dependencies=[Depends(follower_limit.follower)]
    )
    @requires("read")
    async def events(
        topics: Annotated[
            str,
            Query(description="The topics: states, fog, health, decisions; separated by commas."),
        ] = "",
        insights: Annotated[
            str,
            Query(description="Deployments (ID) or insights (ID/NAME), separated by commas."),
        ] = "",
        after: Annotated[
            int | None,
            Query(ge=0, le=_MAX_CURSOR, description="The id of the last event, to resume."),
        ] = None,
        last_event_id: Annotated[str | None, Header()] = None,
    ) -> StreamingResponse:
        """Send live events in one stream: results of insights, and changes of the topics.

        A topic begins with its present view. To resume, send the id of the last event as
        `Last-Event-ID` or as `after`: no result is missed, and some results may be repeated. The
        results of an insight that the caller may not read, or that does not exist, are replaced by
        an event `problem`. If `ping_s` of the first event, `hello`, passes without an event, `ping`
        is sent: a longer silence means that the connection is lost.
        """
        chosen = _topics(hub, topics)
        followed = list(dict.fromkeys(topic_names(insights)))
        if len(followed) > MAX_FOLLOWED:
            raise InvalidRequestError(
                f"insights: {len(followed)} are more than the maximum of {MAX_FOLLOWED}",
                hint="Name deployments instead of insights, or open a second stream.",
            )
        cursor = _cursor(last_event_id, after)
        stream = _Stream(results, hub, clock, proxy, current_caller())
        return StreamingResponse(
            until_standby(role, stream.events(chosen, followed, cursor)),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    return router


def _topics(hub: TopicHub, text: str) -> list[str]:
    chosen = list(dict.fromkeys(topic_names(text)))
    unknown = [name for name in chosen if name not in hub.names]
    if unknown:
        raise InvalidRequestError(
            f"topics: there is no topic {unknown[0][:50]!r}",
            hint=f"The topics: {', '.join(hub.names)}.",
        )
    return chosen


def _cursor(last_event_id: str | None, after: int | None) -> int | None:
    if not last_event_id:
        return after
    if not (last_event_id.isascii() and last_event_id.isdecimal() and len(last_event_id) <= 15):
        raise InvalidRequestError(
            f"Last-Event-ID {last_event_id[:50]!r} is not the id of an event",
            hint="Send the id of the last event received.",
        )
    return int(last_event_id)


class _Stream:
    """The events of one client."""

    def __init__(
        self,
        results: ResultHub,
        topics: TopicHub,
        clock: CursorClock,
        proxy: DomainProxy,
        caller: Caller,
    ) -> None:
        self._results = results
        self._topics = topics
        self._clock = clock
        self._proxy = proxy
        self._caller = caller
        self._queue = EventQueue()
        self._subscribers: list[ResultSubscriber] = []

    async def events(
        self, topics: list[str], insights: list[str], after: int | None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the encoded events until the client disconnects or is too slow."""
        began_at = self._clock()
        subscribing = asyncio.create_task(self._subscribe_all(topics, insights, after, began_at))
        try:
            hello = {
                "at": began_at,
                "version": __version__,
                "resumed": after is not None,
                "ping_s": PING_S,
            }
            # Without an id: a client that disconnects now has not resumed yet.
            yield b"retry: 2000\nevent: hello\ndata: " + _data(hello)
            while not (await asyncio.wait([subscribing], timeout=PING_S))[0]:
                yield self._ping()
            await subscribing
            while (events := await self._queue.get(PING_S)) is not None:
                yield events or self._ping()
        finally:
            subscribing.cancel()
            self._topics.unsubscribe(self._queue)
            for subscriber in self._subscribers:
                self._results.unsubscribe(subscriber)

    def _ping(self) -> bytes:
        # Without an id: the cursor of the client remains that of the last event.
        return b"event: ping\ndata: " + _data({"at": self._clock()})

    async def _subscribe_all(
        self, topics: list[str], insights: list[str], after: int | None, began_at: int
    ) -> None:
        for name in insights:
            await self._subscribe(name, after, began_at)
        await self._topics.subscribe(self._queue, topics, after, began_at)
        self._queue.release()

    async def _subscribe(self, name: str, after: int | None, began_at: int) -> None:
        deployment_id, _, insight = name.partition("/")
        subscriber = ResultSubscriber(self._queue, insight or None, self._caller)
        self._subscribers.append(subscriber)
        try:
            await self._results.subscribe(subscriber, deployment_id, after)
        except NotFoundError as error:
            message = await self._elsewhere(deployment_id) or error.message
        except ForbiddenError as error:
            message = error.message
        else:
            return
        problem = {"deployment_id": deployment_id, "message": message}
        # The client has not received the results of all its insights yet: its cursor remains.
        cursor = began_at if after is None else after
        self._queue.put_first(encode_json("problem", problem, cursor))

    async def _elsewhere(self, deployment_id: str) -> str | None:
        """Return where a deployment of another domain can be followed; None: nowhere."""
        owner = await self._proxy.owner(deployment_id)
        if owner is None:
            return None
        here = f"/api/insights/{deployment_id}/results/follow"
        return (
            f"the deployment {deployment_id} belongs to the domain {owner.enabler.domain}: follow "
            f"its results at {owner.enabler.url}, or by {here}"
        )


def _data(value: object) -> bytes:
    return encode_json("", value, 0).partition(b"data: ")[2]
