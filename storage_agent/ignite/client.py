"""A client of Ignite: pyignite with time limits, reconnection, and a single class of errors.

pyignite waits forever for a silent server, continues to use a connection that failed, opens many
sockets at once when it reconnects, and raises errors of many classes. Only the package
``storage_agent.ignite`` imports pyignite.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from pyignite import AioClient
from pyignite.datatypes.cache_config import (
    CacheAtomicityMode,
    CacheMode,
    PartitionLossPolicy,
    WriteSynchronizationMode,
)
from pyignite.datatypes.prop_codes import (
    PROP_CACHE_ATOMICITY_MODE,
    PROP_CACHE_MODE,
    PROP_GROUP_NAME,
    PROP_PARTITION_LOSS_POLICY,
    PROP_WRITE_SYNCHRONIZATION_MODE,
)
from pyignite.exceptions import (
    AuthenticationError,
    CacheError,
    ClusterError,
    NotSupportedByClusterError,
    ParseError,
    ReconnectError,
    SocketError,
)

from mistbow.errors import ConflictError, MistbowError, TooLargeError, UnavailableError
from mistbow.loopback import is_loopback
from mistbow.ports import user_of
from mistbow.runtime.periodic import PeriodicTask, Schedule
from mistbow.telemetry import get_logger
from storage_agent import metrics
from storage_agent.ignite import values
from storage_agent.ignite.cache_descriptions import sync_descriptions
from storage_agent.ignite.errors import NotSentError, UnansweredError, more_uncertain
from storage_agent.ignite.folder_id import NODE_FOLDERS, folder_id_file, read_folder_id
from storage_agent.ignite.tls import client_tls
from storage_agent.work_threads import upkeep_beside

log = get_logger(__name__)

T = TypeVar("T")

HISTORICAL: Final = "historical"
METADATA: Final = "metadata"
LATEST: Final = "latest"
_CACHES = (HISTORICAL, METADATA, LATEST)

_CALL_S = 3.0
_DIAL_S = 10.0
_SCAN_S = 60.0
_DIAL_PAUSE_S = 0.05
"""The pause (s) before each attempt to connect.

An Ignite that is stopping may still accept connections.
"""

_KEYS_S = 600.0
_SCAN_PAGE = 1024
_LARGE_VALUES = 8
"""The number of entries in a page of a scan over segments and runs, which have up to 7 MiB each.

Ignite builds each page in its heap, which has 128 MiB by default.
"""

_MAX_BYTES = 7 * 2**20
"""The maximum size of a value (bytes).

The limit is less than a segment of Ignite's write-ahead log, which has 8 MiB (``server.xml``).
"""


CACHE_GROUP = "mistbow"

_SETTINGS: Final = {
    PROP_GROUP_NAME: CACHE_GROUP,
    PROP_CACHE_MODE: CacheMode.PARTITIONED,
    PROP_WRITE_SYNCHRONIZATION_MODE: WriteSynchronizationMode.FULL_SYNC,
    PROP_PARTITION_LOSS_POLICY: PartitionLossPolicy.READ_WRITE_SAFE,
}
"""The settings of the template from which Ignite creates caches (``server.xml``)."""

Expected = Callable[[], Mapping[str, Sequence[str]]]
"""A function that returns the keys that Ignite must have: name of a cache -> keys."""


class _ContentLostError(Exception):
    pass


_EXPECTED = (
    MistbowError,
    _ContentLostError,
    OSError,
    EOFError,
    AuthenticationError,
    CacheError,
    ClusterError,
    NotSupportedByClusterError,
    ParseError,
    ReconnectError,
)
"""The classes of the errors that can occur while Ignite starts or stops."""

_RECONNECTION = Schedule(
    "ignite_connection",
    interval_s=math.inf,
    retry_s=_DIAL_PAUSE_S,
    max_retry_s=1.0,
    expected=_EXPECTED,
)


@dataclass(frozen=True, slots=True)
class _Connection:
    client: AioClient
    caches: Mapping[str, Any]


class IgniteClient:
    """Reads and writes values by key in Ignite's caches; each call may raise ``UnavailableError``.

    After an ``UnavailableError`` the outcome of a write is unknown, except after ``NotSentError``:
    the write may have happened, or may happen later. Keys are text. Values are bytes; only values
    that ``replace`` changes are text. ``addresses``: the client connects to the first address that
    accepts a connection. ``ca``: the file with the CA certificates for TLS; None: TLS is off.
    ``folder``: Ignite's directory, if Ignite runs on this machine. The client then rejects an
    Ignite with another directory.
    """

    def __init__(
        self,
        addresses: Sequence[tuple[str, int]],
        ca: Path | None = None,
        folder: Path | None = None,
    ) -> None:
        self._addresses = addresses
        self._tls = client_tls(ca)
        self._folder = folder
        self._expected: Expected = dict
        self._on_loss: Callable[[], None] = _ignore_loss
        self._connection: _Connection | None = None
        self._connected = asyncio.Event()
        self._connecting = PeriodicTask(self._connect, _RECONNECTION)
        self._closing: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Connect in the background, now and each time after the connection has failed."""
        self._connecting.start()

    async def close(self) -> None:
        """Stop connecting, and close the connection."""
        await self._connecting.close()
        if self._connection is not None:
            self._discard(self._connection)
        await asyncio.gather(*self._closing)

    def expect(self, expected: Expected, on_loss: Callable[[], None]) -> None:
        """Register a check: on each new connection, Ignite must have the keys of ``expected()``.

        If a key is missing, the client calls ``on_loss``. Keys go missing when an Ignite that
        stores its data only in memory is restarted.
        """
        self._expected, self._on_loss = expected, on_loss

    @property
    def name(self) -> str:
        """The addresses of Ignite as one text, for messages."""
        return ", ".join(f"{host}:{port}" for host, port in self._addresses)

    @property
    def refusal(self) -> str:
        """Why the client rejects the Ignite that answered; empty: the client does not reject it."""
        error = self._connecting.error
        return error.message if isinstance(error, ConflictError) else ""

    @property
    def has_several_nodes(self) -> bool:
        """Whether Ignite has several nodes.

        If so, a node may fail without closing the client's connection.
        """
        return len(self._addresses) > 1

    @property
    def connected(self) -> bool:
        """Whether the client has a working connection."""
        return self._connection is not None

    async def wait_connected(self, seconds: float | None = None) -> bool:
        """Wait for a connection, at most ``seconds``; return whether the client is connected.

        ``seconds`` None: wait without a limit.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._connected.wait()
        return self._connected.is_set()

    async def answers(self) -> bool:
        """Return whether Ignite answers a test request."""
        try:
            await self.get(METADATA, "")
        except UnavailableError:
            return False
        return True

    async def check_content(self) -> None:
        """Raise ``UnavailableError`` if Ignite lacks an expected key, or does not answer."""
        client = self._require_connection().client
        await self._call(lambda _: self._check(client))

    async def retry(self, operation: Callable[[], Awaitable[T]], seconds: float) -> T:
        """Repeat an idempotent operation until the operation succeeds, and return its result.

        If the operation has not succeeded within ``seconds``, raises the last ``UnavailableError``
        after which the outcome is unknown, or ``NotSentError`` if no attempt was sent.
        """
        deadline = time.monotonic() + seconds
        error: UnavailableError | None = None
        while True:
            try:
                return await operation()
            except UnavailableError as latest:
                error = latest if error is None else more_uncertain(error, latest)
            left = deadline - time.monotonic()
            if left <= 0 or not await self.wait_connected(left):
                raise error

    async def get(self, cache: str, key: str) -> Any:
        """Return the value of ``key``; None: ``key`` has no value."""
        return await self._call(lambda caches: values.get(caches[cache], key))

    async def get_all(self, cache: str, keys: Iterable[str]) -> dict[str, Any]:
        """Return key -> value for all ``keys`` with a value."""
        requested = list(keys)
        if not requested:
            return {}
        return await self._call(lambda caches: values.get_all(caches[cache], requested))

    async def put(self, cache: str, key: str, value: bytes) -> None:
        """Store a value; raises ``TooLargeError`` for a value that Ignite cannot store."""
        _check_size(key, value)
        await self._write(lambda caches: values.put(caches[cache], key, value))

    async def put_all(self, cache: str, entries: Mapping[str, bytes]) -> None:
        """Store several values, not atomically: after an error, some values may be stored."""
        await self._write(lambda caches: values.put_all(caches[cache], entries))

    async def put_if_absent(self, cache: str, key: str, value: bytes | str) -> bool:
        """Store ``value`` if ``key`` has no value; return whether ``value`` was stored."""
        _check_size(key, value)
        return await self._write(lambda caches: values.put_if_absent(caches[cache], key, value))

    async def replace(self, cache: str, key: str, old: str, new: str) -> bool:
        """Store ``new`` if the present value is ``old``; return whether ``new`` was stored."""
        _check_size(key, new)
        return bool(
            await self._write(lambda caches: caches[cache].replace_if_equals(key, old, new))
        )

    async def remove_all(self, cache: str, keys: Iterable[str]) -> None:
        """Remove the values of ``keys``; keys without a value are ignored."""
        requested = list(keys)
        if requested:
            await self._write(lambda caches: caches[cache].remove_keys(requested))

    async def keys(self, cache: str, prefix: str) -> list[str]:
        """Return all keys with a prefix; slow, because Ignite sends all values of the cache."""

        async def collect(caches: Mapping[str, Any]) -> list[str]:
            async with caches[cache].scan(page_size=_LARGE_VALUES) as cursor:
                return [key async for key, _ in cursor if key.startswith(prefix)]

        return await self._call(collect, seconds=_KEYS_S)

    async def query(self, sql: str) -> list[list[Any]]:
        """Return the rows of an SQL query over Ignite's system views."""
        connection = self._require_connection()

        async def collect(_: Mapping[str, Any]) -> list[list[Any]]:
            async with connection.client.sql(sql) as cursor:
                return [row async for row in cursor]

        return await self._call(collect)

    async def scan(self, cache: str) -> dict[str, Any]:
        """Return the entire content of a cache, as key -> value."""

        async def collect(caches: Mapping[str, Any]) -> dict[str, Any]:
            async with caches[cache].scan(page_size=_SCAN_PAGE) as cursor:
                return {key: value async for key, value in cursor}

        return await self._call(collect, seconds=_SCAN_S)

    async def _write(self, operation: Callable[[Mapping[str, Any]], Awaitable[T]]) -> T:
        """Send a write; without an answer, the error says that the outcome is unknown."""
        try:
            return await self._call(operation)
        except NotSentError:
            raise
        except UnavailableError as error:
            raise UnansweredError(
                "Ignite has not answered in time; the outcome of the request is unknown",
                hint="The change may be made nevertheless. Read it once Ignite answers again, "
                "before you repeat the request.",
            ) from error

    async def _call(
        self, operation: Callable[[Mapping[str, Any]], Awaitable[T]], seconds: float = _CALL_S
    ) -> T:
        connection = self._require_connection()
        try:
            async with asyncio.timeout(seconds):
                return await operation(connection.caches)
        except Exception as error:
            log.warning("ignite_call_failed", error=repr(error))
            self._discard(connection)
            raise UnavailableError(
                "Ignite is unavailable", hint="Try again in a moment."
            ) from error

    def _require_connection(self) -> _Connection:
        """Return the connection; raises ``NotSentError`` without a connection."""
        if self._connection is None:
            raise NotSentError("Ignite is unavailable", hint="Try again in a moment.")
        return self._connection

    def _discard(self, connection: _Connection) -> None:
        if self._connection is connection:
            self._connection = None
            self._connected.clear()
            self._connecting.wake()
        task = asyncio.create_task(_close(connection.client))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _connect(self) -> None:
        """Connect, unless the client has a connection."""
        if self._connection is not None:
            return
        await asyncio.sleep(_DIAL_PAUSE_S)
        try:
            self._connection = await self._dial()
        except _ContentLostError as error:
            log.critical("ignite_content_lost", cache=error.args)
            self._on_loss()
            raise
        self._connected.set()
        metrics.IGNITE_CONNECTIONS.inc()

    async def _dial(self) -> _Connection:
        for address in self._addresses[:-1]:
            try:
                return await self._dial_one(address)
            except _ContentLostError:
                raise
            except Exception as error:
                log.info("ignite_node_unavailable", node=address, error=repr(error))
        return await self._dial_one(self._addresses[-1])

    async def _dial_one(self, address: tuple[str, int]) -> _Connection:
        client = AioClient(partition_aware=False, handshake_timeout=_CALL_S, **self._tls)
        try:
            async with asyncio.timeout(_DIAL_S):
                await client.connect([address])
                for node in client._nodes:
                    # A lost connection would reconnect by itself, beside this client; each call
                    # that finds it lost would open a further one, and leave it open at its end.
                    node._reconnect = _do_not_reconnect
                    node.connect = _refuse_connect
                await self._check_folder(client, address)
                await self._check(client)
                existing = await client.get_cache_names()
                caches = {name: await self._open_cache(client, name, existing) for name in _CACHES}
                if self._folder is not None:
                    await upkeep_beside(partial(sync_descriptions, self._folder))
        except BaseException:
            await _close(client)
            raise
        return _Connection(client, caches)

    async def _check_folder(self, client: AioClient, address: tuple[str, int]) -> None:
        """Raise ``ConflictError`` if Ignite runs in another directory than ``folder``.

        If no Ignite was ever started in ``folder``, the settings name the Ignite of this site.
        """
        # If there are several nodes, the node of this machine may be the one that is away.
        if self._folder is None or self.has_several_nodes:
            return
        own = await upkeep_beside(partial(read_folder_id, self._folder))
        if own is None:
            return
        async with client.sql(NODE_FOLDERS) as rows:
            found = [folder async for [folder] in rows]
        if own not in found:
            host, port = address
            user = f" ({await upkeep_beside(partial(user_of, port))})" if is_loopback(host) else ""
            raise ConflictError(
                f"port {port} belongs to another Ignite{user} than that of {self._folder}. Stop "
                "the other Ignite, or start this site with another MISTBOW_IGNITE_PORT. To use "
                f"the other Ignite, remove {folder_id_file(self._folder)}"
            )

    async def _check(self, client: AioClient) -> None:
        # An Ignite that is still loading its caches from the disk is refused until it has them.
        names = await client.get_cache_names()
        for name, keys in self._expected().items():
            if not keys:
                continue
            # No cache is created here: created while Ignite starts, it would break the start.
            if name not in names or not await (await client.get_cache(name)).contains_keys(keys):
                raise _ContentLostError(name)

    async def _open_cache(self, client: AioClient, name: str, existing: Sequence[str]) -> Any:
        """Return a cache; if the cache is missing, Ignite creates it from a template.

        The template (``server.xml``) has settings that the client protocol cannot set. Raises
        ``ConflictError`` if the settings of the cache differ from the template.
        """
        cache = await client.get_or_create_cache(name)
        expected = _SETTINGS
        if name not in existing:
            # The caches of a site that grew remain as they were when it had one node.
            mode = CacheAtomicityMode
            atomicity = mode.TRANSACTIONAL if self.has_several_nodes else mode.ATOMIC
            expected = {**_SETTINGS, PROP_CACHE_ATOMICITY_MODE: atomicity}
        found = await cache.settings()
        if any(found[setting] != value for setting, value in expected.items()):
            if name not in existing:
                # It is unused; a restart of Ignite with the right template would not change it.
                await cache.destroy()
            raise ConflictError(
                f"the settings of Ignite's cache {name} differ from Mistbow's template",
                hint="Start Ignite by mistbow run or mistbow storage. If the site has several "
                "nodes, set the same MISTBOW_IGNITE_NODES on all nodes.",
            )
        return cache


def size_of(value: bytes | str) -> int:
    """Return the size of a value in Ignite (bytes), which stores a text as UTF-8.

    >>> size_of("größer"), size_of(b"data")
    (8, 4)
    """
    if isinstance(value, bytes) or value.isascii():
        return len(value)
    return len(value.encode())


def _check_size(key: str, value: bytes | str) -> None:
    """Raise ``TooLargeError`` for a value that does not fit into a segment of Ignite's WAL."""
    size = size_of(value)
    if size > _MAX_BYTES:
        raise TooLargeError(
            f"the value for the key {key} has {size} bytes; the limit is {_MAX_BYTES} bytes",
            hint="Send smaller rows, or fewer rows at once.",
        )


def _ignore_loss() -> None:
    pass


async def _do_not_reconnect() -> None:
    pass


async def _refuse_connect() -> None:
    raise SocketError("the connection is lost")


async def _close(client: AioClient) -> None:
    with contextlib.suppress(Exception):
        async with asyncio.timeout(_CALL_S):
            await client.close()
