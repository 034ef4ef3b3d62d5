"""The client of a storage agent for coroutines."""

from collections.abc import AsyncGenerator, Mapping, Sequence
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
from mistbow.client.operations import AsyncOperationsClient
from mistbow.client.records import AsyncRecordsClient
from mistbow.client.transport import AsyncTransport, Call
from mistbow.errors import UnavailableError
from mistbow.fabric import Fabric, Worker
from mistbow.streams.wire import Chunk, ChunkDecoder

T = TypeVar("T")

_SILENCE_S = 30.0
"""A followed stream that says nothing for so long is taken for broken."""


class AsyncAgentClient:
    """Does as ``AgentClient``, from coroutines."""

    def __init__(self, url: str, token: str | None = None, *, ca: Path | str | None = None) -> None:
        self._transport = AsyncTransport(url, token=token, ca=ca)
        self._site: str | None = None

    def at(self, site: str) -> Self:
        """Do as ``AgentClient.at``."""
        there = copy(self)
        there._site = site
        return there

    async def _send(self, call: Call[T]) -> T:
        return await self._transport.send(agent_calls.at(self._site, call))

    async def put(self, points: Sequence[Point], idempotency_key: str | None = None) -> None:
        """Do as ``AgentClient.put``."""
        await self._send(agent_calls.put(points, idempotency_key))

    async def get(
        self,
        metric: Words | None = None,
        entity: Words | None = None,
        *,
        start: int | None = None,
        end: int | None = None,
        latest: bool | None = None,
        **filters: Unpack[Filters],
    ) -> list[NodeData]:
        """Do as ``AgentClient.get``."""
        return await self._send(agent_calls.get(metric, entity, start, end, latest, filters))

    @property
    def records(self) -> AsyncRecordsClient:
        """Do as ``AgentClient.records``."""
        return AsyncRecordsClient(self._send)

    @property
    def operations(self) -> AsyncOperationsClient:
        """Do as ``AgentClient.operations``."""
        return AsyncOperationsClient(self._send)

    async def get_table(
        self,
        metric: Words | None = None,
        entity: Words | None = None,
        *,
        start: int | None = None,
        end: int | None = None,
        latest: bool | None = None,
        **filters: Unpack[Filters],
    ) -> pa.Table:
        """Do as ``AgentClient.get_table``."""
        return await self._send(agent_calls.get_table(metric, entity, start, end, latest, filters))

    async def query(
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
        """Do as ``AgentClient.query``."""
        return await self._send(agent_calls.query(agg, metric, entity, start, end, latest, filters))

    async def list_series(
        self,
        metric: Words | None = None,
        entity: Words | None = None,
        *,
        fields: Sequence[str] | None = None,
        **filters: Unpack[Filters],
    ) -> list[dict[str, Any]]:
        """Do as ``AgentClient.list_series``."""
        return await self._send(agent_calls.list_series(metric, entity, fields, filters))

    async def nodes(self) -> list[Node]:
        """Do as ``AgentClient.nodes``."""
        return await self._send(agent_calls.nodes())

    async def delete(
        self,
        metric: Words | None = None,
        entity: Words | None = None,
        *,
        start: int | None = None,
        end: int | None = None,
        **filters: Unpack[Filters],
    ) -> None:
        """Do as ``AgentClient.delete``."""
        await self._send(agent_calls.delete(metric, entity, start, end, filters))

    async def sql(self, query: str, parameters: Sequence[Any] = ()) -> pa.Table:
        """Do as ``AgentClient.sql``."""
        return await self._send(agent_calls.sql(query, parameters))

    async def streams(self) -> list[StreamInfo]:
        """Do as ``AgentClient.streams``."""
        return await self._send(agent_calls.streams())

    async def create_stream(self, name: str, schema: pa.Schema) -> StreamInfo:
        """Do as ``AgentClient.create_stream``."""
        return await self._send(agent_calls.create_stream(name, schema))

    async def info(self, name: str) -> StreamInfo:
        """Do as ``AgentClient.info``."""
        return await self._send(agent_calls.info(name))

    async def claim(self, name: str) -> StreamState:
        """Do as ``AgentClient.claim``."""
        return await self._send(agent_calls.claim(name))

    async def append(
        self,
        name: str,
        rows: pa.RecordBatch | pa.Table,
        *,
        epoch: int | None = None,
        frontier: int | None = None,
        idempotency_key: str | None = None,
    ) -> Appended:
        """Do as ``AgentClient.append``."""
        return await self._send(agent_calls.append(name, rows, epoch, frontier, idempotency_key))

    async def advance(
        self,
        name: str,
        epoch: int | None = None,
        *,
        frontier: int | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> StreamState:
        """Do as ``AgentClient.advance``."""
        return await self._send(agent_calls.advance(name, epoch, frontier, attributes))

    async def hold(
        self, name: str, holder: str, keep_ms: int, for_ms: int, metrics: Sequence[str] = ()
    ) -> None:
        """Do as ``AgentClient.hold``."""
        await self._send(agent_calls.hold(name, holder, keep_ms, for_ms, metrics))

    async def seek(self, name: str, time: int) -> int:
        """Do as ``AgentClient.seek``."""
        return await self._send(agent_calls.seek(name, time))

    async def offset(
        self,
        name: str,
        start: int,
        max_rows: int,
        *,
        wait_ms: int = 0,
        after_frontier: int | None = None,
    ) -> Offset:
        """Do as ``AgentClient.offset``."""
        return await self._send(agent_calls.offset(name, start, max_rows, wait_ms, after_frontier))

    async def read(
        self,
        name: str,
        start: int = 0,
        end: int | None = None,
        **selection: Unpack[Selection],
    ) -> Rows:
        """Do as ``AgentClient.read``."""
        return await self._send(agent_calls.read(name, start, end, selection))

    async def follow(
        self, name: str, start: int = 0, **selection: Unpack[Selection]
    ) -> AsyncGenerator[Chunk, None]:
        """Do as ``AgentClient.follow``."""
        decoder = ChunkDecoder()
        call = agent_calls.at(self._site, agent_calls.follow(name, start, selection))
        async with self._transport.stream(call, read_timeout=_SILENCE_S) as response:
            async for data in response.aiter_bytes():
                for chunk in decoder.feed(data):
                    yield chunk
        raise UnavailableError(f"the stream {name} broke off")

    async def rows(
        self,
        name: str,
        start: int = 0,
        end: int | None = None,
        *,
        limit: int | None = None,
        **selection: Unpack[Selection],
    ) -> RowsPage:
        """Do as ``AgentClient.rows``."""
        return await self._send(agent_calls.rows(name, start, end, limit, selection))

    async def events(
        self, name: str, start: int | None = None, **selection: Unpack[Selection]
    ) -> AsyncGenerator[RowEvent, None]:
        """Do as ``AgentClient.events``."""
        call = agent_calls.at(self._site, agent_calls.events(name, start, selection))
        async with self._transport.stream(call, read_timeout=_SILENCE_S) as response:
            async for event in EventSource(response).aiter_sse():
                if (row := agent_calls.row_event(event)) is not None:
                    yield row
        raise UnavailableError(f"the stream {name} broke off")

    async def fabric(self) -> Fabric:
        """Do as ``AgentClient.fabric``."""
        return await self._transport.send(agent_calls.fabric())

    async def announce(self, worker: Worker) -> None:
        """Do as ``AgentClient.announce``."""
        await self._transport.send(agent_calls.announce(worker))

    async def leave(self, name: str) -> None:
        """Do as ``AgentClient.leave``."""
        await self._transport.send(agent_calls.leave(name))

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()
