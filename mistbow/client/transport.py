"""Calls of the clients, and two transports (sync and async) that send the calls.

Only this module converts exceptions of httpx to ``MistbowError``.
"""

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import httpx
import msgspec
import stamina

from mistbow.client.answer_time import AnswerTime, read_within
from mistbow.client.bounded_answers import IN_PARTS
from mistbow.client.connections import answered_within
from mistbow.client.credentials import UnverifiedServiceError
from mistbow.client.service_client import Token, client_settings
from mistbow.errors import MistbowError, UnavailableError, from_answer
from mistbow.tls import TlsFiles

T = TypeVar("T")
R = TypeVar("R")

JSON_HEADERS = {"Content-Type": "application/json"}

_ANSWER_S = 30.0
_CONNECT_S = 3.0
_PROOF_S = 3.0
"""The time (s) in which a service proves its identity before a first request."""

_TIMEOUT = httpx.Timeout(_ANSWER_S, connect=_CONNECT_S)
_RETRIED_STATUSES = (429, 503)
_TIMEOUTS = (TimeoutError, httpx.ReadTimeout, httpx.WriteTimeout, httpx.PoolTimeout)
"""The causes of failures after which a call is not repeated, since it would take as long again.

A connection that is not established in time is attempted again.
"""
_MAX_IDLE_CONNECTIONS = 50

MAX_CONNECTIONS = 200
"""The maximum number of connections of a client, unless the client has a limit of its own."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request, and the function that reads the answer to the request.

    ``repeatable``: whether the request is idempotent, so that a retry is safe. ``local``: whether
    the service that receives the request always answers, instead of another site's agent.
    ``wait_s``: the time (s) for which the request asks the service to wait before it answers.
    ``answer_s``: the time (s), in addition to ``wait_s``, in which each part of the answer must
    arrive; None: the usual time.
    """

    method: str
    path: str
    parse: Callable[[httpx.Response], T]
    params: Mapping[str, Any] = field(default_factory=dict)
    json: Any = None
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = False
    local: bool = False
    wait_s: float = 0.0
    answer_s: float | None = None

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments that httpx takes for this request."""
        given: dict[str, Any] = {
            "params": self.params,
            "content": self.content,
            "headers": self.headers,
        }
        if self.json is not None:
            given["json"] = self.json
        if self.wait_s or self.answer_s is not None:
            given["timeout"] = httpx.Timeout(_answer_s(self) + self.wait_s, connect=_CONNECT_S)
        return {name: value for name, value in given.items() if value}

    def at(self, site: str | None) -> "Call[T]":
        """Return this call, addressed to the agent of ``site``.

        A call is returned unchanged if ``site`` is None or the call is ``local``: the service that
        receives the call then answers.
        """
        if site is None or self.local:
            return self
        return replace(self, params={**self.params, "site": site})

    def map(self, convert: Callable[[T], R]) -> "Call[R]":
        """Return this call with the answer ``convert(answer)`` in place of ``answer``."""
        return Call(
            self.method,
            self.path,
            lambda response: convert(self.parse(response)),
            self.params,
            self.json,
            self.content,
            self.headers,
            self.repeatable,
            self.local,
            self.wait_s,
            self.answer_s,
        )


def get_json(path: str, kind: type[T], params: Mapping[str, Any] | None = None) -> Call[T]:
    """Return a GET request whose answer is JSON of a type; parameters that are None are omitted."""
    return Call("GET", path, json_of(kind), params=without_none(params or {}), repeatable=True)


def send_json(
    method: str,
    path: str,
    body: Any,
    parse: Callable[[httpx.Response], T],
    *,
    key: str | None = None,
    repeatable: bool = True,
) -> Call[T]:
    """Return a request with a JSON body.

    ``key``: the idempotency key; None: the request has no idempotency key.
    """
    headers = JSON_HEADERS if key is None else {**JSON_HEADERS, "Idempotency-Key": key}
    content = msgspec.json.encode(body)
    return Call(method, path, parse, content=content, headers=headers, repeatable=repeatable)


def json_of(kind: type[T]) -> Callable[[httpx.Response], T]:
    """Return a function that decodes a JSON answer as a type."""
    return lambda response: msgspec.json.decode(response.content, type=kind)


def no_answer(_: httpx.Response) -> None:
    """Ignore the content of an answer."""


class _Acknowledgement(msgspec.Struct, frozen=True):
    result: Literal["OK"]


def acknowledged(response: httpx.Response) -> None:
    """Check that an answer acknowledges stored data.

    Raises ``UnavailableError`` for another answer, for example of another service at the address.
    """
    try:
        msgspec.json.decode(response.content, type=_Acknowledgement)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise UnavailableError(
            f"{response.url} acknowledges nothing: the answer is not that of a storage agent",
            hint="Check the address of the storage agent.",
        ) from None


def without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the items whose values are not None."""
    return {name: value for name, value in values.items() if value is not None}


def _limits(max_connections: int) -> httpx.Limits:
    return httpx.Limits(
        max_connections=max_connections, max_keepalive_connections=_MAX_IDLE_CONNECTIONS
    )


def _unavailable(url: str, error: httpx.HTTPError) -> UnavailableError:
    if isinstance(error, UnverifiedServiceError):
        return UnavailableError(f"{url}: {error}", hint="See the service's log, and its address.")
    reason = str(error) or type(error).__name__
    hint = "Check that the service is running, and its address."
    return UnavailableError(f"{url} does not answer: {reason}", hint=hint)


def _checked(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    raise from_answer(response.status_code, response.content)


def _is_retried(error: Exception) -> bool:
    if isinstance(error.__cause__, _TIMEOUTS):
        return False
    return isinstance(error, MistbowError) and error.status in _RETRIED_STATUSES


def _answer_s(call: Call[Any]) -> float:
    return _ANSWER_S if call.answer_s is None else call.answer_s


def _time_of(url: str, call: Call[Any], request: httpx.Request) -> AnswerTime:
    # Twice the time of an answer, because the request may first wait for a connection. Twice
    # _PROOF_S, because a service of an earlier version refuses the identity, and accepts the token.
    answer_s = _answer_s(call)
    seconds = _CONNECT_S + 2 * _PROOF_S + 2 * answer_s + call.wait_s
    return AnswerTime(url, seconds, answer_s, size=len(request.content))


class Transport:
    """Sends calls and waits for the answers.

    A repeatable call is sent up to ``attempts`` times while the service is overloaded or
    unavailable.
    """

    def __init__(
        self,
        url: str,
        *,
        token: Token = None,
        attempts: int = 3,
        ca: Path | str | TlsFiles | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._max_attempts = attempts
        limits = _limits(MAX_CONNECTIONS)
        self._http = client_settings(self.url, token, ca, limits, _TIMEOUT).client()

    def attempts(self, call: Call[Any]) -> Iterable[stamina.Attempt]:
        """Yield the attempts to send a call; each attempt is a context manager."""
        attempts = self._max_attempts if call.repeatable else 1
        return stamina.retry_context(on=_is_retried, attempts=attempts, wait_max=1.0)

    def send(self, call: Call[T]) -> T:
        """Return the service's answer; raises the ``MistbowError`` that the service answers.

        Raises ``UnavailableError`` when the service does not answer; also if the whole answer takes
        too long, between services and on one machine.
        """
        for attempt in self.attempts(call):
            with attempt:
                try:
                    response = self._read(call)
                except httpx.HTTPError as error:
                    raise _unavailable(self.url, error) from error
                return call.parse(_checked(response))
        raise AssertionError("the last attempt returns or raises")

    def _read(self, call: Call[Any]) -> httpx.Response:
        request = self._http.build_request(call.method, call.path, **call.arguments())
        with answered_within(_time_of(self.url, call, request)):
            return self._http.send(request)

    @contextmanager
    def stream(
        self, call: Call[Any], *, read_timeout: float | None = None
    ) -> Iterator[httpx.Response]:
        """Send a call, and open the answer for reading in parts inside the ``with`` block.

        The answer as a whole may take any time. ``read_timeout``: the maximum wait (s) for a part;
        None: no limit.
        """
        timeout = httpx.Timeout(read_timeout, connect=_CONNECT_S)
        try:
            with self._http.stream(
                call.method, call.path, timeout=timeout, extensions=IN_PARTS, **call.arguments()
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
    """Sends calls from coroutines; see ``Transport``."""

    def __init__(
        self,
        url: str,
        *,
        token: Token = None,
        attempts: int = 3,
        ca: Path | str | TlsFiles | None = None,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        self.url = url.rstrip("/")
        self._max_attempts = attempts
        limits = _limits(max_connections)
        self._http = client_settings(self.url, token, ca, limits, _TIMEOUT).async_client()

    def attempts(self, call: Call[Any]) -> AsyncIterable[stamina.Attempt]:
        """Yield the attempts to send a call; each attempt is a context manager."""
        attempts = self._max_attempts if call.repeatable else 1
        return stamina.retry_context(on=_is_retried, attempts=attempts, wait_max=1.0)

    async def send(self, call: Call[T]) -> T:
        """Return the service's answer; see ``Transport.send``.

        Raises ``UnavailableError`` also for other services if the whole answer takes too long.
        """
        async for attempt in self.attempts(call):
            with attempt:
                try:
                    response = await self._read(call)
                except httpx.HTTPError as error:
                    raise _unavailable(self.url, error) from error
                return call.parse(_checked(response))
        raise AssertionError("the last attempt returns or raises")

    async def _read(self, call: Call[Any]) -> httpx.Response:
        request = self._http.build_request(call.method, call.path, **call.arguments())
        return await read_within(_time_of(self.url, call, request), self._http, request)

    @asynccontextmanager
    async def stream(
        self, call: Call[Any], *, read_timeout: float | None = None
    ) -> AsyncIterator[httpx.Response]:
        """Send a call, and open the answer for reading in parts; see ``Transport.stream``."""
        timeout = httpx.Timeout(read_timeout, connect=_CONNECT_S)
        try:
            async with self._http.stream(
                call.method, call.path, timeout=timeout, extensions=IN_PARTS, **call.arguments()
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
