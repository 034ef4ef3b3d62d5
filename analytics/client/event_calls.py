"""The subscription to live events: changes of the fog, states, decisions, and results."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from httpx_sse import ServerSentEvent

from mistbow.client.methods import ServerSentEvents, StreamCall
from mistbow.client.transport import Call, no_answer, without_none
from mistbow.errors import MistbowError, UnavailableError

Topic = Literal["states", "fog", "health", "decisions"]

MAX_SILENCE_S = 45.0
"""The time-out (s) for the next event: three times the interval of the enabler's pings."""


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """An event with its decoded data; another call with its ``cursor`` resumes after this event."""

    name: str
    data: Any
    cursor: int | None


@dataclass
class EventFeed:
    """A subscription to live events; a reconnection resumes after the last received event."""

    topics: Sequence[Topic]
    insights: Sequence[str]
    after: int | None
    _connected: bool = False

    def stream(self) -> StreamCall[LiveEvent]:
        """Return the request for the events after the last received event."""
        topics, insights = ",".join(self.topics), ",".join(self.insights)
        params = without_none({"topics": topics, "insights": insights, "after": self.after})
        headers = {"Accept": "text/event-stream"}
        call = Call("GET", "/api/events", no_answer, params=params, headers=headers)
        return StreamCall(call, ServerSentEvents(self._read), "the live events", MAX_SILENCE_S)

    def connect(self) -> None:
        """Record that the enabler has accepted a request."""
        self._connected = True

    def is_over(self, error: MistbowError) -> bool:
        """Return False, since the events do not end; raise an error that a retry would repeat."""
        if not self._connected or not isinstance(error, UnavailableError):
            raise error
        return False

    def _read(self, event: ServerSentEvent) -> LiveEvent | None:
        if event.event == "ping":
            return None
        self.after = int(event.id) if event.id else self.after
        return LiveEvent(event.event, json.loads(event.data), self.after)


def events(
    topics: Sequence[Topic] = (), insights: Sequence[str] = (), *, after: int | None = None
) -> EventFeed:
    """Yield live events, also across restarts of the enabler.

    ``insights``: the deployments (ID) or insights (ID/NAME) whose results are among the events.
    ``after``: the ``cursor`` of an earlier event, after which the results begin. After a
    reconnection each topic begins with its present view again.
    """
    return EventFeed(topics, insights, after)
