"""An agent with one stream of events in memory, for tests of journals over it."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from mistbow.errors import FencedError, UnavailableError
from mistbow.streams.events import event_rows, events_of
from mistbow.streams.schemas import EVENTS


class StoredEvents:
    """An agent that stores the events of a stream, until a test takes its answers or its lease.

    ``appends``: the stored appends, each a dict: key -> event (JSON). ``reads``: the positions from
    which the stream was read. ``max_appends``: the number of appends that are answered; a later
    append is stored only if ``stores_last``. ``claims``: the number of claims, which is the epoch.
    """

    def __init__(self) -> None:
        self.appends: list[dict[str, str]] = []
        self.idempotency_keys: set[str] = set()
        self.reads: list[int] = []
        self.claims = 0
        self.max_appends = 1_000
        self.stores_last = False

    async def create_stream(self, *_: Any) -> None:
        """Accept a stream."""

    async def claim(self, _stream: str) -> Any:
        """Return the next epoch."""
        self.claims += 1
        return SimpleNamespace(epoch=self.claims)

    async def info(self, _stream: str) -> Any:
        """Return the attributes of a claimed stream."""
        return SimpleNamespace(epoch=self.claims, attributes={"generation": 1})

    async def read(self, _stream: str, position: int) -> Any:
        """Return the events from a position."""
        self.reads.append(position)
        events = [event for append in self.appends for event in append.items()]
        batches = [event_rows(0, dict([event])) for event in events[position:]]
        table = pa.Table.from_batches(batches, schema=EVENTS)
        return SimpleNamespace(table=table, position=SimpleNamespace(next=len(events)))

    async def append(self, _stream: str, rows: Any, *, epoch: int, idempotency_key: str) -> Any:
        """Store events, or raise an error."""
        if epoch != self.claims:
            raise FencedError("fenced")
        answers = len(self.appends) < self.max_appends
        if answers or self.stores_last:
            self.appends.append({key: event for _, key, event in events_of(rows)})
            self.idempotency_keys.add(idempotency_key)
        if not answers:
            raise UnavailableError("no answer")
        return SimpleNamespace(next=sum(map(len, self.appends)))
