"""Audiences: the addresses that clients dial, and the check that an address is the server's own.

A server proves its identity only to clients that have dialled one of its own addresses. So a third
party at another address cannot relay the proof.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from mistbow.name_resolver import NameResolver, UnresolvedNameError

_PORTS = {"http": 80, "https": 443}
_LOOKUP_S = 2.0


def audience_of(url: str) -> str:
    """Return the canonical form of an address of a service.

    Raises ``ValueError`` if the address is not of the form ``http://HOST:PORT``.

    >>> audience_of("HTTP://Edge-1/"), audience_of("https://[::1]:8300/agent/")
    ('http://edge-1:80', 'https://[::1]:8300/agent')
    """
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(f"{url} is not an address of the form http://HOST:PORT")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = _PORTS[parts.scheme] if parts.port is None else parts.port
    return f"{parts.scheme}://{host}:{port}{parts.path.rstrip('/')}"


@dataclass(frozen=True, slots=True)
class LocalEnd:
    """The server's end of a connection: the scheme, and the IP address and the port of the socket.

    ``host``: None: the connection has no IP address.
    """

    scheme: str
    host: str | None
    port: int | None


class OwnAddresses:
    """The addresses of a service.

    ``urls``: the addresses that the service advertises, and further addresses from its settings.
    """

    def __init__(self, urls: Iterable[str]) -> None:
        self._audiences = frozenset(audience_of(url) for url in urls)
        # Clients choose the names in their challenges: these must not delay other names.
        self._names = NameResolver()

    async def include(self, audience: str, local: LocalEnd) -> bool:
        """Return whether an audience is an address of this service.

        These audiences are addresses of this service: those in ``urls``, and each audience that
        has the scheme, IP address and port of ``local``. Host names are looked up.
        """
        if audience in self._audiences:
            return True
        try:
            parts = urlsplit(audience)
            host, port = parts.hostname, parts.port
        except ValueError:
            return False
        if not host or local.host is None or parts.path:
            return False
        if (parts.scheme, port) != (local.scheme, local.port):
            return False
        try:
            addresses = await self._names.resolve_async(host, _LOOKUP_S)
        except UnresolvedNameError:
            return False
        return _ip(local.host) in map(_ip, addresses)


def _ip(text: str) -> str:
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
