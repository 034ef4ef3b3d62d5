"""The HTTP clients of a proxy to other enablers: one for each address."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from analytics_enabler.domains.directory import KnownEnabler
from mistbow.client.credentials import ServiceCredentials
from mistbow.client.service_client import async_service_client
from mistbow.telemetry import get_logger
from mistbow.tls import client_context
from mistbow.trust_settings import TokenSettings

log = get_logger(__name__)

_LIMITS = httpx.Limits(max_connections=200, max_keepalive_connections=20)

_Address = tuple[str, str]
"""(site, URL) of an enabler."""


@dataclass(slots=True)
class _Client:
    """A client, and the number of its users, whose requests have not ended."""

    http: httpx.AsyncClient
    users: int = 0


class EnablerClients:
    """The clients, which are closed once their enablers are gone.

    An enabler that starts again at another address would otherwise leave a client for ever. Clients
    without users are closed when a further client is needed, so their number follows that of the
    enablers. An enabler that is announced again gets another client.

    ``known``: returns the enablers that the fabric announces.
    """

    def __init__(self, known: Callable[[], Iterable[KnownEnabler]], trust: TokenSettings) -> None:
        self._known = known
        self._proof = trust.proof or ""
        self._tls = client_context(trust.client_tls)
        self._clients: dict[_Address, _Client] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @contextmanager
    def using(self, to: KnownEnabler) -> Iterator[httpx.AsyncClient]:
        """Yield the client for an enabler, which remains open in the ``with``.

        The enabler must be of the site that announces it.
        """
        client = self._clients.get(_address(to)) or self._open(to)
        client.users += 1
        try:
            yield client.http
        finally:
            client.users -= 1

    async def close(self) -> None:
        """Close all clients."""
        self._close(list(self._clients))
        while self._closing:
            await asyncio.wait(self._closing)

    def _open(self, to: KnownEnabler) -> _Client:
        known = {_address(each) for each in self._known()}
        gone = [key for key, each in self._clients.items() if key not in known and not each.users]
        self._close(gone)
        url = to.enabler.url
        credentials = ServiceCredentials(url, self._proof, kind="enabler", site=to.site)
        opened = async_service_client(url, credentials, self._tls, _LIMITS)
        self._clients[_address(to)] = client = _Client(opened)
        return client

    def _close(self, addresses: Iterable[_Address]) -> None:
        """Close clients in tasks of their own, which the end of a request does not cancel."""
        for address in addresses:
            task = asyncio.create_task(_close(address, self._clients.pop(address).http))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def _address(enabler: KnownEnabler) -> _Address:
    return enabler.site, enabler.enabler.url


async def _close(address: _Address, client: httpx.AsyncClient) -> None:
    try:
        await client.aclose()
    except Exception as error:
        site, url = address
        log.error("enabler_client_close_failed", site=site, url=url, exc_info=error)
