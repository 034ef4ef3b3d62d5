"""Assembles the HTTP clients that send requests to services."""

import ssl
from dataclasses import dataclass
from pathlib import Path

import httpx

from mistbow.client.connections import async_transport, transport
from mistbow.loopback import is_loopback_url
from mistbow.name_resolver import NAMES, NameResolver
from mistbow.tls import TlsFiles, client_context

Token = str | httpx.Auth | None
"""A token; or other credentials, such as those of a service; None: requests need no credentials."""

_TIMEOUT = httpx.Timeout(5.0)


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

    @property
    def headers(self) -> dict[str, str]:
        """The headers of all requests."""
        return {"Authorization": f"Bearer {self.token}"} if isinstance(self.token, str) else {}

    @property
    def auth(self) -> httpx.Auth | None:
        """The credentials that sign requests; None: requests are not signed."""
        return None if isinstance(self.token, str) else self.token

    def client(self) -> httpx.Client:
        """Return a client for threads."""
        return httpx.Client(
            base_url=self.url,
            headers=self.headers,
            auth=self.auth,
            timeout=self.timeout,
            limits=self.limits,
            trust_env=not self.is_direct,
            verify=self.tls,
            transport=transport(self.tls, self.limits) if self.is_direct else None,
        )

    def async_client(self, names: NameResolver = NAMES) -> httpx.AsyncClient:
        """Return a client for coroutines; ``names``: resolves names on direct connections."""
        return httpx.AsyncClient(
            base_url=self.url,
            headers=self.headers,
            auth=self.auth,
            timeout=self.timeout,
            limits=self.limits,
            trust_env=not self.is_direct,
            verify=self.tls,
            transport=async_transport(self.tls, self.limits, names) if self.is_direct else None,
        )


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
