"""A client of live events, as a page: it reads in a thread, and resumes by the id of an event."""

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from httpx_sse import ServerSentEvent, connect_sse

LIMIT_S = 30.0


class EventReader:
    """The events of one connection, in order; ``last_id`` is the id of the last event taken."""

    def __init__(self, client: httpx.Client, response: Any) -> None:
        self._client = client
        self._response = response
        self._events: queue.Queue[ServerSentEvent | None] = queue.Queue()
        self.last_id = ""

    def read(self) -> None:
        try:
            for event in self._response.iter_sse():
                self._events.put(event)
        except (httpx.HTTPError, httpx.StreamError):
            pass
        finally:
            self._events.put(None)

    def next(self, *names: str) -> Any:
        """Return the data of the next event with one of these names; others are skipped."""
        while True:
            event = self._events.get(timeout=LIMIT_S)
            assert event is not None, f"the stream ended before {names}"
            self.last_id = event.id or self.last_id
            if event.event in names:
                return json.loads(event.data)

    def wait_for_end(self) -> None:
        """Wait until the service has ended the stream."""
        while self._events.get(timeout=LIMIT_S) is not None:
            pass

    def results(self, number: int) -> list[dict[str, Any]]:
        """Return the next results, at least ``number`` of them."""
        found: list[dict[str, Any]] = []
        while len(found) < number:
            data = self.next("result", "results")
            found += data.get("results", [data])
        return found


@contextmanager
def reading(
    url: str, token: str | None = None, *, last_id: str = "", **params: str
) -> Iterator[EventReader]:
    """Follow live events within the ``with``, from the event ``hello`` on."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    if last_id:
        headers["Last-Event-ID"] = last_id
    with (
        httpx.Client(timeout=httpx.Timeout(LIMIT_S)) as client,
        connect_sse(client, "GET", f"{url}/api/events", params=params, headers=headers) as source,
    ):
        source.response.raise_for_status()
        reader = EventReader(client, source)
        thread = threading.Thread(target=reader.read, daemon=True)
        thread.start()
        yield reader
        source.response.close()
    thread.join(LIMIT_S)
