"""The guard around pyignite: with ``ignite_values`` all that knows it, and where its errors end.

What it guards against: pyignite waits forever for a silent server, keeps using a connection that
failed, opens many sockets at once when it reconnects, and raises whatever it met.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
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

from mistbow.errors import ConflictError, TooLargeError, UnavailableError
from mistbow.ignite.config import CACHE_GROUP
from mistbow.ignite.descriptions import sync_descriptions
from mistbow.ignite.tls import client_tls
from mistbow.tasks import end
from mistbow.telemetry import get_logger
from storage_agent import ignite_values, metrics

log = get_logger(__name__)

T = TypeVar("T")

HISTORICAL: Final = "historical"
METADATA: Final = "metadata"
LATEST: Final = "latest"
_CACHES = (HISTORICAL, METADATA, LATEST)

_CALL_S = 3.0
_DIAL_S = 10.0
_SCAN_S = 60.0
_BACK_OFF_S = (0.05, 0.1, 0.25, 0.5, 1.0)
_SCAN_PAGE = 1024
_MOST_BYTES = 7 * 2**20
"""Of one value: less than a segment of Ignite's log, which is 8 MiB (``server.xml``)."""


_SETTINGS: Final = {
    PROP_GROUP_NAME: CACHE_GROUP,
    PROP_CACHE_MODE: CacheMode.PARTITIONED,
    PROP_WRITE_SYNCHRONIZATION_MODE: WriteSynchronizationMode.FULL_SYNC,
    PROP_PARTITION_LOSS_POLICY: PartitionLossPolicy.READ_WRITE_SAFE,
}
"""What Ignite's template for caches says (``server.xml``)."""

Expected = Callable[[], Mapping[str, Sequence[str]]]
"""Returns keys that must be there, by cache."""


class _ContentGoneError(Exception):
    pass


@dataclass(frozen=True, slots=True)
class _Connection:
    client: AioClient
    caches: Mapping[str, Any]


class IgniteClient:
    """Values by text keys in Ignite's caches; every method raises ``UnavailableError`` at worst.

    After such an error the outcome of a write is unknown: it may have happened, or happen later.
    Values are bytes, but those that ``replace`` compares, which are text. Of several ``addresses``
    the first that serves is used. ``folder`` is Ignite's, where that is on this machine.
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
        self._on_loss: Callable[[], None] = _carry_on
        self.refusal = ""
        """In words, why an Ignite that answers is not used."""

        self._connection: _Connection | None = None
        self._connected = asyncio.Event()
        self._lost = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin to connect, in the background, now and after every loss."""
        self._lost.set()
        self._keeper = asyncio.create_task(self._keep_connected(), name="ignite-keeper")

    async def close(self) -> None:
        """Stop connecting and leave Ignite."""
        if self._keeper is not None:
            await end([self._keeper])
        if self._connection is not None:
            self._discard(self._connection)
        await asyncio.gather(*self._closing)

    def expect(self, expected: Expected, on_loss: Callable[[], None]) -> None:
        """Look for ``expected`` on every new connection before it is used.

        If any of it is gone, ``on_loss`` is called: what Ignite keeps in memory only ends with it.
        """
        self._expected, self._on_loss = expected, on_loss

    @property
    def name(self) -> str:
        """Where Ignite is dialled."""
        return ", ".join(f"{host}:{port}" for host, port in self._addresses)

    @property
    def several(self) -> bool:
        """Whether Ignite has several nodes, of which another may fail than the one dialled."""
        return len(self._addresses) > 1

    @property
    def connected(self) -> bool:
        """Whether there is a connection, as far as is known."""
        return self._connection is not None

    async def wait_connected(self, seconds: float | None = None) -> bool:
        """Wait for a connection, at most so long; returns whether there is one."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._connected.wait()
        return self._connected.is_set()

    async def answers(self) -> bool:
        """Ask Ignite for nothing much, and return whether it answers."""
        try:
            await self.get(METADATA, "")
        except UnavailableError:
            return False
        return True

    async def look(self) -> None:
        """Look for what is expected; raises ``UnavailableError``."""

        connection = self._connection
        if connection is None:
            raise UnavailableError("Ignite is away", hint="Try again in a moment.")
        client = connection.client
        await self._call(lambda _: self._check(client))

    async def insist(self, operation: Callable[[], Awaitable[T]], seconds: float) -> T:
        """Try an operation that may be repeated until it succeeds or the time is over."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return await operation()
            except UnavailableError:
                left = deadline - time.monotonic()
                if left <= 0 or not await self.wait_connected(left):
                    raise

    async def get(self, cache: str, key: str) -> Any:
        """Return the value of ``key``, or None."""
        return await self._call(lambda caches: ignite_values.get(caches[cache], key))

    async def get_all(self, cache: str, keys: Iterable[str]) -> dict[str, Any]:
        """Return the values of those of ``keys`` that there are."""
        wanted = list(keys)
        if not wanted:
            return {}
        return await self._call(lambda caches: ignite_values.get_all(caches[cache], wanted))

    async def put(self, cache: str, key: str, value: bytes) -> None:
        """Store a value; raises ``TooLargeError`` for one that Ignite cannot take."""
        _check_size(value)
        await self._call(lambda caches: ignite_values.put(caches[cache], key, value))

    async def put_all(self, cache: str, values: Mapping[str, bytes]) -> None:
        """Store several values, each by itself: after an error some may be there."""
        await self._call(lambda caches: ignite_values.put_all(caches[cache], values))

    async def put_if_absent(self, cache: str, key: str, value: bytes | str) -> bool:
        """Store a value unless ``key`` has one; returns whether it was stored."""
        _check_size(value)
        return await self._call(
            lambda caches: ignite_values.put_if_absent(caches[cache], key, value)
        )

    async def replace(self, cache: str, key: str, old: str, new: str) -> bool:
        """Store ``new`` if the value is ``old``; returns whether it was."""
        _check_size(new)
        return bool(await self._call(lambda caches: caches[cache].replace_if_equals(key, old, new)))

    async def remove_all(self, cache: str, keys: Iterable[str]) -> None:
        """Remove values; those that are not there do no harm."""
        wanted = list(keys)
        if wanted:
            await self._call(lambda caches: caches[cache].remove_keys(wanted))

    async def keys(self, cache: str, prefix: str) -> list[str]:
        """Return all keys that begin so; every value is looked at, so it takes its time."""

        async def collect(caches: Mapping[str, Any]) -> list[str]:
            async with caches[cache].scan(page_size=_SCAN_PAGE) as cursor:
                return [key async for key, _ in cursor if key.startswith(prefix)]

        return await self._call(collect, seconds=_SCAN_S)

    async def ask(self, sql: str) -> list[list[Any]]:
        """Return the rows of Ignite's answer to a question in SQL about itself."""
        connection = self._connection
        if connection is None:
            raise UnavailableError("Ignite is away", hint="Try again in a moment.")

        async def collect(_: Mapping[str, Any]) -> list[list[Any]]:
            async with connection.client.sql(sql) as cursor:
                return [row async for row in cursor]

        return await self._call(collect)

    async def scan(self, cache: str) -> dict[str, Any]:
        """Return everything in a cache."""

        async def collect(caches: Mapping[str, Any]) -> dict[str, Any]:
            async with caches[cache].scan(page_size=_SCAN_PAGE) as cursor:
                return {key: value async for key, value in cursor}

        return await self._call(collect, seconds=_SCAN_S)

    async def _call(
        self, operation: Callable[[Mapping[str, Any]], Awaitable[T]], seconds: float = _CALL_S
    ) -> T:
        connection = self._connection
        if connection is None:
            raise UnavailableError("Ignite is away", hint="Try again in a moment.")
        try:
            async with asyncio.timeout(seconds):
                return await operation(connection.caches)
        except Exception as error:
            log.warning("a call to Ignite failed", error=repr(error))
            self._discard(connection)
            raise UnavailableError("Ignite is away", hint="Try again in a moment.") from error

    def _discard(self, connection: _Connection) -> None:
        if self._connection is connection:
            self._connection = None
            self._connected.clear()
            self._lost.set()
        task = asyncio.create_task(_close(connection.client))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _keep_connected(self) -> None:
        failures = 0
        while True:
            await self._lost.wait()
            await asyncio.sleep(_BACK_OFF_S[min(failures, len(_BACK_OFF_S) - 1)])
            try:
                self._connection = await self._dial()
            except _ContentGoneError as error:
                log.critical("Ignite has lost what it had acknowledged", gone=error.args)
                self._on_loss()
                failures += 1
                continue
            except Exception as error:
                self.refusal = error.message if isinstance(error, ConflictError) else ""
                log.info("waiting for Ignite", error=repr(error))
                failures += 1
                continue
            failures = 0
            self.refusal = ""
            self._lost.clear()
            self._connected.set()
            metrics.IGNITE_CONNECTIONS.inc()

    async def _dial(self) -> _Connection:
        for address in self._addresses[:-1]:
            try:
                return await self._dial_one(address)
            except _ContentGoneError:
                raise
            except Exception as error:
                log.info("this node of Ignite does not serve", node=address, error=repr(error))
        return await self._dial_one(self._addresses[-1])

    async def _dial_one(self, address: tuple[str, int]) -> _Connection:
        client = AioClient(partition_aware=False, handshake_timeout=_CALL_S, **self._tls)
        try:
            async with asyncio.timeout(_DIAL_S):
                await client.connect([address])
                for node in client._nodes:
                    # A lost connection would dial again by itself, beside us.
                    node._reconnect = _stay_away
                await self._check(client)
                there = await client.get_cache_names()
                caches = {name: await self._cache(client, name, there) for name in _CACHES}
                if self._folder is not None:
                    await asyncio.to_thread(sync_descriptions, self._folder)
        except BaseException:
            await _close(client)
            raise
        return _Connection(client, caches)

    async def _check(self, client: AioClient) -> None:
        # Refused until an Ignite that keeps its caches on disk has them again.
        names = await client.get_cache_names()
        for name, keys in self._expected().items():
            if not keys:
                continue
            # No cache is made here: made while Ignite still starts, it would break that.
            if name not in names or not await (await client.get_cache(name)).contains_keys(keys):
                raise _ContentGoneError(name)

    async def _cache(self, client: AioClient, name: str, there: Sequence[str]) -> Any:
        """Return a cache, made by Ignite's template: the protocol says less than that does."""
        cache = await client.get_or_create_cache(name)
        wanted = _SETTINGS
        if name not in there:
            # Those of a site that grew stay as they were when it had one node.
            mode = CacheAtomicityMode
            atomicity = mode.TRANSACTIONAL if self.several else mode.ATOMIC
            wanted = {**_SETTINGS, PROP_CACHE_ATOMICITY_MODE: atomicity}
        found = await cache.settings()
        if any(found[setting] != value for setting, value in wanted.items()):
            if name not in there:
                # Nobody uses it, and an Ignite that is set right would keep it as it is.
                await cache.destroy()
            raise ConflictError(
                f"its template for caches is not Mistbow's (cache {name})",
                hint="Start it by mistbow run or mistbow storage, several with the same "
                "MISTBOW_IGNITE_NODES.",
            )
        return cache


def _check_size(value: bytes | str) -> None:
    """Refuse what is larger than a segment of Ignite's log: it would be tried for ever."""
    if len(value) > _MOST_BYTES:
        raise TooLargeError(
            f"this takes {len(value)} bytes in one piece, more than the {_MOST_BYTES} that fit",
            hint="Send less at once.",
        )


def _carry_on() -> None:
    pass


async def _stay_away() -> None:
    pass


async def _close(client: AioClient) -> None:
    with contextlib.suppress(Exception):
        async with asyncio.timeout(_CALL_S):
            await client.close()
