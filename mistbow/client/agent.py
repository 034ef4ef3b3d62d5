"""The clients of a storage agent: points, and streams."""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack

import pyarrow as pa
from httpx_sse import EventSource

from mistbow.client import agent_calls
from mistbow.client.agent_model import (
    Aggregate,
    Aggregated,
    Appended,
    Filters,
    Node,
    NodeData,
    Offset,
    Point,
    RowEvent,
    Rows,
    RowsPage,
    Selection,
    StreamInfo,
    StreamState,
    Words,
)
from mistbow.client.async_agent import AsyncAgentClient
from mistbow.client.operations import OperationsClient
from mistbow.client.records import RecordsClient
from mistbow.client.transport import Call, Transport
from mistbow.errors import UnavailableError
from mistbow.fabric import Fabric, Worker
from mistbow.streams.wire import Chunk, ChunkDecoder

__all__ = [
    "AgentClient",
    "Appended",
    "AsyncAgentClient",
    "NodeData",
    "Offset",
    "Point",
    "Rows",
    "Selection",
    "StreamInfo",
    "StreamState",
]

T = TypeVar("T")

_SILENCE_S = 30.0
"""A followed stream that says nothing for so long is taken for broken."""


class AgentClient:
    """Talks to a storage agent; every method raises a ``MistbowError`` when it is refused."""

    def __init__(self, url: str, token: str | None = None, *, ca: Path | str | None = None) -> None:
        self._transport = Transport(url, token=token, ca=ca)
        self._site: str | None = None

    def at(self, site: str) -> Self:
        """Return a client of a site's points and streams, by way of the same agent.

        It shares the connections: closing one closes both.
        """
        there = copy(self)
        there._site = site
        return there

    @property
    def url(self) -> str:
        """The agent's address."""
        return self._transport.url

    def _send(self, call: Call[T]) -> T:
        return self._transport.send(agent_calls.at(self._site, call))

    def put(self, points: Sequence[Point], idempotency_key: str | None = None) -> None:
        """Store points, all or none; safe to repeat with the same key."""
        self._send(agent_calls.put(points, idempotency_key))

    def get(
        self,
        metric: Words | None = None,
        entity: Words | None = None,
        *,
        start: int | None = None,
        end: int | None = None,
        latest: bool | None = None,
        **filters: Unpack[Filters],
    ) -> list[NodeData]:
        """Return the latest values, or those from ``start`` to ``end`` (ms, inclusive).

        ``latest=False`` without times asks for everything. Without ``nodes`` only the agent's own
        node answers; an empty list asks all.
        """
        return self._send(agent_calls.get(metric, entity, start, end, latest, filters))

    @property
    def records(self) -> RecordsClient:
        """What the same agent keeps by key: analytics, applications, routing tables."""
        return RecordsClient(self._send)

    @property
    def operations(self) -> OperationsClient:
        """How the same agent keeps its data: configuration, Ignite's nodes, copies."""
        return OperationsClient(self._send)

    def get_table(
        self,
        metric: Words | None = None,
        entity: Words | None = None,
        *,
        start: int | None = None,
        end: int | None = None,
        latest: bool | None = None,
        **filters: Unpack[Filters],
    ) -> pa.Table:
        """Do as ``get``, and return a table of the schema ``VALUES``."""
        return self._send(agent_calls.get_table(metric, entity, start, end, latest, filters))

    def query(
        self,
        agg: Aggregate,
        metric: Words | None = None,
        entity: Words | None = None,
        *,
        start: int | None = None,
        end: int | None = None,
        latest: bool | None = None,
        **filters: Unpack[Filters],
    ) -> Aggregated:
        """Return what the values that ``get`` would return come to."""
        return self._send(agent_calls.query(agg, metric, entity, start, end, latest, filters))

    def list_series(
        self,
        metric: Words | None = None,
        entity: Words | None = None,
        *,
        fields: Sequence[str] | None = None,
        **filters: Unpack[Filters],
    ) -> list[dict[str, Any]]:
        """Return what is known of series, by the names of the REST interface; without values."""
        return self._send(agent_calls.list_series(metric, entity, fields, filters))

    def nodes(self) -> list[Node]:
        """Return all nodes."""
        return self._send(agent_calls.nodes())

    def delete(
        self,
        metric: Words | None = None,
        entity: Words | None = None,
        *,
        start: int | None = None,
        end: int | None = None,
        **filters: Unpack[Filters],
    ) -> None:
        """Delete the points that ``get`` would return with ``latest=False``."""
        self._send(agent_calls.delete(metric, entity, start, end, filters))

    def sql(self, query: str, parameters: Sequence[Any] = ()) -> pa.Table:
        """Return the answer to one SELECT over what the agent keeps."""
        return self._send(agent_calls.sql(query, parameters))

    def streams(self) -> list[StreamInfo]:
        """Return all streams."""
        return self._send(agent_calls.streams())

    def create_stream(self, name: str, schema: pa.Schema) -> StreamInfo:
        """Make a stream unless it is there; raises ``ConflictError`` if its schema differs."""
        return self._send(agent_calls.create_stream(name, schema))

    def info(self, name: str) -> StreamInfo:
        """Return a stream; raises ``NotFoundError`` if there is none."""
        return self._send(agent_calls.info(name))

    def claim(self, name: str) -> StreamState:
        """Become the stream's only writer, by a new epoch."""
        return self._send(agent_calls.claim(name))

    def append(
        self,
        name: str,
        rows: pa.RecordBatch | pa.Table,
        *,
        epoch: int | None = None,
        frontier: int | None = None,
        idempotency_key: str | None = None,
    ) -> Appended:
        """Store rows, and with them a frontier; safe to repeat with the same key.

        Raises ``FencedError``.
        """
        return self._send(agent_calls.append(name, rows, epoch, frontier, idempotency_key))

    def advance(
        self,
        name: str,
        epoch: int | None = None,
        *,
        frontier: int | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> StreamState:
        """Move the frontier, never back, and merge attributes; a None removes one."""
        return self._send(agent_calls.advance(name, epoch, frontier, attributes))

    def hold(
        self, name: str, holder: str, keep_ms: int, for_ms: int, metrics: Sequence[str] = ()
    ) -> None:
        """Have rows kept for ``keep_ms`` after they came; to be asked again within ``for_ms``.

        ``metrics``: those of which points are needed; none: all.
        """
        self._send(agent_calls.hold(name, holder, keep_ms, for_ms, metrics))

    def seek(self, name: str, time: int) -> int:
        """Return the greatest segment start before which every row has ``ts <= time``."""
        return self._send(agent_calls.seek(name, time))

    def offset(
        self,
        name: str,
        start: int,
        max_rows: int,
        *,
        wait_ms: int = 0,
        after_frontier: int | None = None,
    ) -> Offset:
        """Return how far a batch of at most so many rows goes from ``start``.

        Waits up to ``wait_ms`` for a row, or for a frontier greater than ``after_frontier``.
        """
        return self._send(agent_calls.offset(name, start, max_rows, wait_ms, after_frontier))

    def read(
        self,
        name: str,
        start: int = 0,
        end: int | None = None,
        **selection: Unpack[Selection],
    ) -> Rows:
        """Return the rows from ``start`` to before ``end``, or to the head."""
        return self._send(agent_calls.read(name, start, end, selection))

    def follow(self, name: str, start: int = 0, **selection: Unpack[Selection]) -> Iterator[Chunk]:
        """Yield the rows from ``start`` and all that come later; heartbeats have no rows.

        Raises ``UnavailableError`` when the stream breaks off; go on from the last position.
        """
        decoder = ChunkDecoder()
        call = agent_calls.at(self._site, agent_calls.follow(name, start, selection))
        with self._transport.stream(call, read_timeout=_SILENCE_S) as response:
            for data in response.iter_bytes():
                yield from decoder.feed(data)
        raise UnavailableError(f"the stream {name} broke off")

    def rows(
        self,
        name: str,
        start: int = 0,
        end: int | None = None,
        *,
        limit: int | None = None,
        **selection: Unpack[Selection],
    ) -> RowsPage:
        """Return a page of rows as JSON has them; go on at its ``next``."""
        return self._send(agent_calls.rows(name, start, end, limit, selection))

    def events(
        self, name: str, start: int | None = None, **selection: Unpack[Selection]
    ) -> Iterator[RowEvent]:
        """Yield rows as JSON has them, from ``start`` or from now on, and all that come later.

        Raises ``UnavailableError`` when the stream breaks off; go on from the last ``next``.
        """
        call = agent_calls.at(self._site, agent_calls.events(name, start, selection))
        with self._transport.stream(call, read_timeout=_SILENCE_S) as response:
            for event in EventSource(response).iter_sse():
                if (row := agent_calls.row_event(event)) is not None:
                    yield row
        raise UnavailableError(f"the stream {name} broke off")

    def fabric(self) -> Fabric:
        """Return all sites that the agent knows, their workers, and the links."""
        return self._transport.send(agent_calls.fabric())

    def announce(self, worker: Worker) -> None:
        """Say that a worker of the agent's own site is alive, each second."""
        self._transport.send(agent_calls.announce(worker))

    def leave(self, name: str) -> None:
        """Say that a worker leaves."""
        self._transport.send(agent_calls.leave(name))

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()
