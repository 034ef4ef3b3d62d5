"""How the clients talk: a request is a value, and two transports, one sync and one async, send it.

Foreign exceptions become Mistbow's here and nowhere else.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import httpx
import stamina

from mistbow.errors import MistbowError, UnavailableError, from_body
from mistbow.tls import client_context

T = TypeVar("T")

_TIMEOUT = httpx.Timeout(30.0, connect=3.0)
_PASSING = (429, 503)
_LIMITS = httpx.Limits(max_connections=200, max_keepalive_connections=50)


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request and how to read its answer.

    ``repeatable``: sending it twice does what sending it once does, so it may be retried.
    """

    method: str
    path: str
    parse: Callable[[httpx.Response], T]
    params: Mapping[str, Any] = field(default_factory=dict)
    json: Any = None
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = False

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments that httpx takes for this request."""
        given = {"params": self.params, "content": self.content, "headers": self.headers}
        if self.json is not None:
            given["json"] = self.json
        return {name: value for name, value in given.items() if value}


def _settings(token: str | None, ca: Path | str | None) -> dict[str, Any]:
    return {
        "headers": {} if token is None else {"Authorization": f"Bearer {token}"},
        "timeout": _TIMEOUT,
        "limits": _LIMITS,
        # True: the authorities that httpx, or its environment, knows.
        "verify": True if ca is None else client_context(Path(ca)),
    }


def _unavailable(url: str, error: httpx.HTTPError) -> UnavailableError:
    reason = str(error) or type(error).__name__
    return UnavailableError(f"{url} does not answer: {reason}", hint="Is the service running?")


def _checked(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    try:
        body = response.json()
    except ValueError:
        body = response.text[:500]
    raise from_body(response.status_code, body)


def _worth_retrying(error: Exception) -> bool:
    return isinstance(error, MistbowError) and error.status in _PASSING


class Transport:
    """Sends calls and waits for their answers."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        attempts: int = 3,
        ca: Path | str | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._attempts = attempts
        self._http = httpx.Client(base_url=self.url, **_settings(token, ca))

    def send(self, call: Call[T]) -> T:
        """Return what the service answers; raises a ``MistbowError`` if it refuses or is away."""
        attempts = self._attempts if call.repeatable else 1
        for attempt in stamina.retry_context(on=_worth_retrying, attempts=attempts, wait_max=1.0):
            with attempt:
                try:
                    response = self._http.request(call.method, call.path, **call.arguments())
                except httpx.HTTPError as error:
                    raise _unavailable(self.url, error) from error
                return call.parse(_checked(response))
        raise AssertionError("unreachable: the last attempt raises")

    @contextmanager
    def stream(
        self, call: Call[Any], *, read_timeout: float | None = None
    ) -> Iterator[httpx.Response]:
        """Open the answer of a call for reading bit by bit."""
        timeout = httpx.Timeout(read_timeout, connect=3.0)
        try:
            with self._http.stream(
                call.method, call.path, timeout=timeout, **call.arguments()
            ) as response:
                if not response.is_success:
                    response.read()
                    _checked(response)
                yield response
        except httpx.HTTPError as error:
            raise _unavailable(self.url, error) from error

    def close(self) -> None:
        """Close all connections."""
        self._http.close()


class AsyncTransport:
    """Sends calls from a coroutine."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        attempts: int = 3,
        ca: Path | str | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._attempts = attempts
        self._http = httpx.AsyncClient(base_url=self.url, **_settings(token, ca))

    async def send(self, call: Call[T]) -> T:
        """Do as ``Transport.send``."""
        attempts = self._attempts if call.repeatable else 1
        async for attempt in stamina.retry_context(
            on=_worth_retrying, attempts=attempts, wait_max=1.0
        ):
            with attempt:
                try:
                    response = await self._http.request(call.method, call.path, **call.arguments())
                except httpx.HTTPError as error:
                    raise _unavailable(self.url, error) from error
                return call.parse(_checked(response))
        raise AssertionError("unreachable: the last attempt raises")

    @asynccontextmanager
    async def stream(
        self, call: Call[Any], *, read_timeout: float | None = None
    ) -> AsyncIterator[httpx.Response]:
        """Do as ``Transport.stream``."""
        timeout = httpx.Timeout(read_timeout, connect=3.0)
        try:
            async with self._http.stream(
                call.method, call.path, timeout=timeout, **call.arguments()
            ) as response:
                if not response.is_success:
                    await response.aread()
                    _checked(response)
                yield response
        except httpx.HTTPError as error:
            raise _unavailable(self.url, error) from error

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()
