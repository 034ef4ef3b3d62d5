"""Assembles the HTTP clients that send requests to services."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import httpx

from mistbow.client.connections import async_transport, transport
from mistbow.loopback import is_loopback_url
from mistbow.name_resolver import NAMES, NameResolver
from mistbow.tls import TlsFiles, client_context

Token = str | httpx.Auth | None
"""A token; or other credentials, such as those of a service; None: requests need no credentials."""

_TIMEOUT = httpx.Timeout(5.0)


class _Arguments(TypedDict):
    """The arguments that clients for threads and for coroutines have in common."""

    base_url: str
    headers: dict[str, str]
    auth: httpx.Auth | None
    timeout: httpx.Timeout
    limits: httpx.Limits
    trust_env: bool
    verify: ssl.SSLContext


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How a client reaches the service at ``url``, and proves the rights of its requests.

    ``is_direct``: whether no proxy of the environment may read the requests: those between
    services, and those on this machine.
    """

    url: str
    token: Token
    tls: ssl.SSLContext
    limits: httpx.Limits
    timeout: httpx.Timeout
    is_direct: bool = True

    def client(self) -> httpx.Client:
        """Return a client for threads."""
        direct = transport(self.tls, self.limits) if self.is_direct else None
        return httpx.Client(**self._arguments(), transport=direct)

    def async_client(self, names: NameResolver = NAMES) -> httpx.AsyncClient:
        """Return a client for coroutines; ``names``: resolves names on direct connections."""
        direct = async_transport(self.tls, self.limits, names) if self.is_direct else None
        return httpx.AsyncClient(**self._arguments(), transport=direct)

    def _arguments(self) -> _Arguments:
        token = self.token
        return {
            "base_url": self.url,
            "headers": {"Authorization": f"Bearer {token}"} if isinstance(token, str) else {},
            "auth": None if isinstance(token, str) else token,
            "timeout": self.timeout,
            "limits": self.limits,
            "trust_env": not self.is_direct,
            "verify": self.tls,
        }


def client_settings(
    url: str,
    token: Token,
    ca: Path | str | TlsFiles | None,
    limits: httpx.Limits,
    timeout: httpx.Timeout,
) -> ClientSettings:
    """Return the settings of a client of a person, of a tool or of a service.

    ``ca``: the trusted authorities; None: those of httpx, or of its environment.
    """
    is_direct = isinstance(token, httpx.Auth) or is_loopback_url(url)
    tls = _verification(url, ca, is_direct=is_direct)
    return ClientSettings(url, token, tls, limits, timeout, is_direct)


def async_service_client(
    url: str,
    credentials: httpx.Auth,
    tls: ssl.SSLContext,
    limits: httpx.Limits,
    *,
    timeout: httpx.Timeout = _TIMEOUT,
    names: NameResolver = NAMES,
) -> httpx.AsyncClient:
    """Return the client of a service for the requests to another service."""
    return ClientSettings(url, credentials, tls, limits, timeout).async_client(names)


def _verification(url: str, ca: Path | str | TlsFiles | None, *, is_direct: bool) -> ssl.SSLContext:
    if ca is not None:
        return client_context(Path(ca) if isinstance(ca, str) else ca)
    if is_direct and url.startswith("http://"):
        # Unused. The authorities take 1 MB and 0.1 s of CPU time in each process of a worker.
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The authorities of httpx, or of its environment.
    return httpx.create_ssl_context()
