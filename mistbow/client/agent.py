"""The clients of a storage agent: points, streams, records, and the agent's operation.

Each method has the arguments and the documentation of the function that builds its call.
"""

from copy import copy
from typing import Self

from mistbow.client import (
    backup_calls,
    fabric_calls,
    operation_calls,
    point_calls,
    record_calls,
    stream_calls,
)
from mistbow.client.methods import (
    AsyncClient,
    AsyncSender,
    Client,
    Method,
    PagedMethod,
    Sender,
    StreamMethod,
)


class RecordMethods:
    """Methods for records of analytics, records of applications, and routing tables."""

    put = Method(record_calls.put)
    get = Method(record_calls.get)
    delete = Method(record_calls.delete)
    find = Method(record_calls.find)
    put_schema = Method(record_calls.put_schema)
    schemas = Method(record_calls.schemas)
    delete_schema = Method(record_calls.delete_schema)
    put_routes = Method(record_calls.put_routes)
    routes = Method(record_calls.routes)


class OperationMethods:
    """Methods to operate an agent: configuration, Ignite's nodes, copies, backups, and so on."""

    config = Method(operation_calls.config)
    change_config = Method(operation_calls.change_config)
    status = Method(operation_calls.status)
    cluster = Method(operation_calls.cluster)
    replication = Method(operation_calls.replication)
    request_copy = Method(operation_calls.request_copy)
    withdraw_copy = Method(operation_calls.withdraw_copy)
    delete_replica = Method(operation_calls.delete_replica)
    forget_site = Method(operation_calls.forget_site)
    restrictions = Method(operation_calls.restrictions)
    restrict = Method(operation_calls.restrict)
    begin_backup = Method(backup_calls.begin_backup)
    backup_part = Method(backup_calls.backup_part)
    backup_series = Method(backup_calls.backup_series)
    backup_deletions = Method(backup_calls.backup_deletions)
    end_backup = Method(backup_calls.end_backup)


class AgentMethods:
    """Methods for points, series, streams, and the fabric."""

    put = Method(point_calls.put)
    get = Method(point_calls.get)
    get_table = Method(point_calls.get_table)
    query = Method(point_calls.query)
    list_series = Method(point_calls.list_series)
    iterate_points = PagedMethod(point_calls.iterate_points)
    iterate_series = PagedMethod(point_calls.iterate_series)
    nodes = Method(point_calls.nodes)
    delete = Method(point_calls.delete)
    sql = Method(point_calls.sql)

    streams = Method(stream_calls.streams)
    create_stream = Method(stream_calls.create_stream)
    info = Method(stream_calls.info)
    claim = Method(stream_calls.claim)
    append = Method(stream_calls.append)
    advance = Method(stream_calls.advance)
    retain = Method(stream_calls.retain)
    seek = Method(stream_calls.seek)
    offset = Method(stream_calls.offset)
    read = Method(stream_calls.read)
    rows = Method(stream_calls.rows)
    chunks = StreamMethod(stream_calls.chunks)
    follow = StreamMethod(stream_calls.follow)
    events = StreamMethod(stream_calls.events)

    fabric = Method(fabric_calls.fabric)
    announce = Method(fabric_calls.announce)
    leave = Method(fabric_calls.leave)
    announce_enabler = Method(fabric_calls.announce_enabler)
    remove_enabler = Method(fabric_calls.remove_enabler)


class RecordsClient(RecordMethods, Sender):
    """A client for records, which shares the connections of an ``AgentClient``."""


class AsyncRecordsClient(RecordMethods, AsyncSender):
    """A client for records, which shares the connections of an ``AsyncAgentClient``."""


class OperationsClient(OperationMethods, Sender):
    """A client to operate an agent; the client shares the connections of an ``AgentClient``."""


class AsyncOperationsClient(OperationMethods, AsyncSender):
    """An async client to operate an agent; shares the connections of an ``AsyncAgentClient``."""


class AgentClient(AgentMethods, Client):
    """A client of a storage agent.

    A method raises the ``MistbowError`` with which the agent answers, or ``UnavailableError`` if
    the agent does not answer.
    """

    def at(self, site: str) -> Self:
        """Return a client for the points and streams of the site ``site``.

        This client's agent forwards the requests to ``site``. The two clients share connections:
        closing one client closes the other client too.
        """
        there = copy(self)
        there._site = site
        return there

    @property
    def records(self) -> RecordsClient:
        """A client for records of analytics and applications, and for routing tables, at the same
        agent.
        """
        return RecordsClient(self._transport, self._site)

    @property
    def operations(self) -> OperationsClient:
        """A client to operate the same agent: configuration, Ignite's nodes, copies."""
        return OperationsClient(self._transport, self._site)


class AsyncAgentClient(AgentMethods, AsyncClient):
    """An async client of a storage agent; see ``AgentClient``."""

    def at(self, site: str) -> Self:
        """Return a client for the points and streams of ``site``; see ``AgentClient.at``."""
        there = copy(self)
        there._site = site
        return there

    @property
    def records(self) -> AsyncRecordsClient:
        """A client for records at the same agent."""
        return AsyncRecordsClient(self._transport, self._site)

    @property
    def operations(self) -> AsyncOperationsClient:
        """A client to operate the same agent."""
        return AsyncOperationsClient(self._transport, self._site)
