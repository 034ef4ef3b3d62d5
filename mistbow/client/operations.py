"""The clients of how a storage agent keeps its data: configuration, Ignite's nodes, copies."""

from collections.abc import Awaitable, Sequence
from typing import Protocol, TypeVar, Unpack

from mistbow.client import operation_calls
from mistbow.client.operation_model import (
    Cluster,
    Config,
    ConfigChange,
    Copy,
    ReplicationState,
    Restrictions,
    Rule,
    SeriesFilter,
)
from mistbow.client.transport import Call

T = TypeVar("T")

_EVERYTHING = SeriesFilter()


class _Send(Protocol):
    def __call__(self, call: Call[T]) -> T: ...


class _AsyncSend(Protocol):
    def __call__(self, call: Call[T]) -> Awaitable[T]: ...


class OperationsClient:
    """Sends by an ``AgentClient``; every method raises a ``MistbowError`` when it is refused."""

    def __init__(self, send: _Send) -> None:
        self._send = send

    def config(self) -> Config:
        """Return how long and in how much room streams are kept."""
        return self._send(operation_calls.config())

    def change_config(self, **change: Unpack[ConfigChange]) -> Config:
        """Change some of it, at once and for good; returns all of it."""
        return self._send(operation_calls.change_config(change))

    def cluster(self) -> Cluster:
        """Return how the site's Ignite is, and which streams are refused."""
        return self._send(operation_calls.cluster())

    def replication(self) -> ReplicationState:
        """Return what is copied where, and why."""
        return self._send(operation_calls.replication())

    def ask_copy(
        self,
        target: str,
        stream: str = "raw",
        wanted: SeriesFilter = _EVERYTHING,
        *,
        move: bool = False,
    ) -> Copy:
        """Have another site hold a copy of a stream, or a part of it, until it is withdrawn.

        With ``move``, points that it has for sure go from here once they are old enough.
        """
        return self._send(operation_calls.ask_copy(target, stream, wanted, move=move))

    def withdraw_copy(
        self, copy_id: str, target: str | None = None, *, force: bool = False
    ) -> None:
        """Withdraw a copy, at all sites or one; raises ``NotFoundError``.

        Raises ``ConflictError`` if data would be lost by it, unless ``force`` says so.
        """
        self._send(operation_calls.withdraw_copy(copy_id, target, force=force))

    def delete_replica(self, of: str, copy_id: str, *, force: bool = False) -> None:
        """Delete a replica that the site holds of one that is gone; raises ``NotFoundError``.

        Raises ``ConflictError`` if it may be all that is left, unless ``force`` says so.
        """
        self._send(operation_calls.delete_replica(of, copy_id, force=force))

    def forget_site(self, name: str) -> None:
        """Have the fog forget a site that is gone for good; raises ``NotFoundError``.

        Raises ``ConflictError`` while it can be reached, or others have copies of it, or at it.
        """
        self._send(operation_calls.forget_site(name))

    def restrictions(self) -> Restrictions:
        """Return what may not be copied where."""
        return self._send(operation_calls.restrictions())

    def restrict(self, rules: Sequence[Rule]) -> Restrictions:
        """Declare what may not be copied where, in place of what was declared before."""
        return self._send(operation_calls.restrict(rules))


class AsyncOperationsClient:
    """Does as ``OperationsClient``, from coroutines."""

    def __init__(self, send: _AsyncSend) -> None:
        self._send = send

    async def config(self) -> Config:
        """Do as ``OperationsClient.config``."""
        return await self._send(operation_calls.config())

    async def change_config(self, **change: Unpack[ConfigChange]) -> Config:
        """Do as ``OperationsClient.change_config``."""
        return await self._send(operation_calls.change_config(change))

    async def cluster(self) -> Cluster:
        """Do as ``OperationsClient.cluster``."""
        return await self._send(operation_calls.cluster())

    async def replication(self) -> ReplicationState:
        """Do as ``OperationsClient.replication``."""
        return await self._send(operation_calls.replication())

    async def ask_copy(
        self,
        target: str,
        stream: str = "raw",
        wanted: SeriesFilter = _EVERYTHING,
        *,
        move: bool = False,
    ) -> Copy:
        """Do as ``OperationsClient.ask_copy``."""
        return await self._send(operation_calls.ask_copy(target, stream, wanted, move=move))

    async def withdraw_copy(
        self, copy_id: str, target: str | None = None, *, force: bool = False
    ) -> None:
        """Do as ``OperationsClient.withdraw_copy``."""
        await self._send(operation_calls.withdraw_copy(copy_id, target, force=force))

    async def delete_replica(self, of: str, copy_id: str, *, force: bool = False) -> None:
        """Do as ``OperationsClient.delete_replica``."""
        await self._send(operation_calls.delete_replica(of, copy_id, force=force))

    async def forget_site(self, name: str) -> None:
        """Do as ``OperationsClient.forget_site``."""
        await self._send(operation_calls.forget_site(name))

    async def restrictions(self) -> Restrictions:
        """Do as ``OperationsClient.restrictions``."""
        return await self._send(operation_calls.restrictions())

    async def restrict(self, rules: Sequence[Rule]) -> Restrictions:
        """Do as ``OperationsClient.restrict``."""
        return await self._send(operation_calls.restrict(rules))
