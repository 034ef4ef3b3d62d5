"""The clients of what a storage agent keeps by key: analytics, applications, routing tables."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from mistbow.client import record_calls
from mistbow.client.agent_model import Words
from mistbow.client.record_model import (
    AppSchema,
    Kind,
    Record,
    Records,
    RoutingTable,
    RoutingTables,
)
from mistbow.client.transport import Call

T = TypeVar("T")


class _Send(Protocol):
    def __call__(self, call: Call[T]) -> T: ...


class _AsyncSend(Protocol):
    def __call__(self, call: Call[T]) -> Awaitable[T]: ...


class RecordsClient:
    """Sends by an ``AgentClient``; every method raises a ``MistbowError`` when it is refused."""

    def __init__(self, send: _Send) -> None:
        self._send = send

    def put(
        self, kind: Kind, records: Sequence[Record], idempotency_key: str | None = None
    ) -> None:
        """Store records, all or none; safe to repeat with the same key."""
        self._send(record_calls.put(kind, records, idempotency_key))

    def get(
        self,
        kind: Kind,
        keys: Words | None = None,
        *,
        start: int | None = None,
        end: int | None = None,
        nodes: Words | None = None,
        from_key: str | None = None,
        limit: int | None = None,
    ) -> Records:
        """Return the latest records, or those from ``start`` to ``end`` (ms, inclusive).

        In the order of keys, from ``from_key`` on, at most ``limit``.
        """
        return self._send(record_calls.get(kind, keys, start, end, nodes, from_key, limit))

    def delete(
        self,
        kind: Kind,
        keys: Words | None = None,
        *,
        start: int | None = None,
        end: int | None = None,
    ) -> None:
        """Delete records of keys, or all, in a time, or at any."""
        self._send(record_calls.delete(kind, keys, start, end))

    def find(
        self,
        schema: str,
        where: Mapping[str, Any] | None = None,
        *,
        nodes: Words | None = None,
        limit: int | None = None,
    ) -> Records:
        """Return the latest records of applications with a schema whose fields are as ``where``.

        Of each field a value, or a range: ``{"gte": 1, "lte": 5}``.
        """
        return self._send(record_calls.find(schema, where or {}, nodes, limit))

    def put_schema(self, schema: AppSchema) -> None:
        """Register a schema in place of one before of the same name."""
        self._send(record_calls.put_schema(schema))

    def schemas(self) -> list[AppSchema]:
        """Return all schemas."""
        return self._send(record_calls.schemas())

    def delete_schema(self, name: str) -> None:
        """Remove a schema; raises ``NotFoundError``."""
        self._send(record_calls.delete_schema(name))

    def put_routes(self, tables: Sequence[RoutingTable]) -> None:
        """Store routing tables, all or none."""
        self._send(record_calls.put_routes(tables))

    def routes(self, nodes: Words | None = None) -> RoutingTables:
        """Return the latest routing tables that the agent keeps; with ``nodes``, of any node."""
        return self._send(record_calls.get_routes(nodes))


class AsyncRecordsClient:
    """Does as ``RecordsClient``, from coroutines."""

    def __init__(self, send: _AsyncSend) -> None:
        self._send = send

    async def put(
        self, kind: Kind, records: Sequence[Record], idempotency_key: str | None = None
    ) -> None:
        """Do as ``RecordsClient.put``."""
        await self._send(record_calls.put(kind, records, idempotency_key))

    async def get(
        self,
        kind: Kind,
        keys: Words | None = None,
        *,
        start: int | None = None,
        end: int | None = None,
        nodes: Words | None = None,
        from_key: str | None = None,
        limit: int | None = None,
    ) -> Records:
        """Do as ``RecordsClient.get``."""
        return await self._send(record_calls.get(kind, keys, start, end, nodes, from_key, limit))

    async def delete(
        self,
        kind: Kind,
        keys: Words | None = None,
        *,
        start: int | None = None,
        end: int | None = None,
    ) -> None:
        """Do as ``RecordsClient.delete``."""
        await self._send(record_calls.delete(kind, keys, start, end))

    async def find(
        self,
        schema: str,
        where: Mapping[str, Any] | None = None,
        *,
        nodes: Words | None = None,
        limit: int | None = None,
    ) -> Records:
        """Do as ``RecordsClient.find``."""
        return await self._send(record_calls.find(schema, where or {}, nodes, limit))

    async def put_schema(self, schema: AppSchema) -> None:
        """Do as ``RecordsClient.put_schema``."""
        await self._send(record_calls.put_schema(schema))

    async def schemas(self) -> list[AppSchema]:
        """Do as ``RecordsClient.schemas``."""
        return await self._send(record_calls.schemas())

    async def delete_schema(self, name: str) -> None:
        """Do as ``RecordsClient.delete_schema``."""
        await self._send(record_calls.delete_schema(name))

    async def put_routes(self, tables: Sequence[RoutingTable]) -> None:
        """Do as ``RecordsClient.put_routes``."""
        await self._send(record_calls.put_routes(tables))

    async def routes(self, nodes: Words | None = None) -> RoutingTables:
        """Do as ``RecordsClient.routes``."""
        return await self._send(record_calls.get_routes(nodes))
