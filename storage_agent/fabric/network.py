"""Requests to other sites' agents: connections, the way to take, and what crosses, counted."""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import httpx
from pydantic import SecretStr

from mistbow.auth.callers import current_caller
from mistbow.auth.guard import passed_on
from mistbow.errors import NotFoundError, UnavailableError, from_body
from mistbow.streams.schemas import METADATA
from mistbow.streams.wire import Chunk, ChunkDecoder
from mistbow.tls import client_context
from storage_agent import metrics
from storage_agent.fabric.neighbours import Neighbour, Neighbours

VIA = "Mistbow-Via"
"""The sites that a request was sent by, with commas between."""

CONNECT_S = 1.0
_ANSWER_S = 3.0
_READ_S = 27.0
_MOST_PASSED = 2

_LIMITS = httpx.Limits(max_connections=500, max_keepalive_connections=20)

Direction = Literal["sent", "received"]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request to another site's agent; ``target`` is the path with the query, ``via`` as above.

    ``wait_s`` is how long the route itself may take.
    """

    site: str
    method: str
    target: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | AsyncIterable[bytes] | None = None
    via: tuple[str, ...] = ()
    wait_s: float = 0.0


def post_to(site: str, path: str, body: bytes) -> Outgoing:
    """Return a POST of JSON by which the agent of a site is asked what it has to read."""
    target = f"{path}?site={site}".encode()
    headers = {"Content-Type": "application/json"}
    return Outgoing(site, "POST", target, headers=headers, content=body, wait_s=_READ_S)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer whose body is still to be read from ``body``; then ``response`` is to be closed."""

    response: httpx.Response
    body: AsyncIterator[bytes]

    async def read(self) -> bytes:
        """Return the whole body; raises a ``MistbowError`` if the answer is an error."""
        try:
            data = b"".join([part async for part in self.body])
        finally:
            await self.response.aclose()
        if self.response.is_success:
            return data
        raise error_of(self.response.status_code, data)


class Network:
    """Sends requests straight, or through a site that reaches the target."""

    def __init__(
        self, own: str, neighbours: Neighbours, token: SecretStr | None, ca: Path | None = None
    ) -> None:
        self.own = own
        self._neighbours = neighbours
        secret = None if token is None else token.get_secret_value()
        self._headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
        self._tls = client_context(ca)
        self._clients: dict[str, httpx.AsyncClient] = {}

    def client(self, address: str) -> httpx.AsyncClient:
        """Return the connections to an address."""
        if address not in self._clients:
            self._clients[address] = httpx.AsyncClient(
                base_url=address,
                headers=self._headers,
                limits=_LIMITS,
                verify=self._tls,
                trust_env=False,
            )
        return self._clients[address]

    def is_dialled(self, address: str) -> bool:
        """Tell whether there are connections to an address."""
        return address in self._clients

    async def drop(self, address: str) -> None:
        """Break all connections to an address, so that nothing waits for TCP to find out."""
        client = self._clients.pop(address, None)
        if client is not None:
            await client.aclose()

    async def close(self) -> None:
        """Break all connections."""
        for address in list(self._clients):
            await self.drop(address)

    async def send(self, call: Outgoing) -> Answer:
        """Send a request, and return the answer once it begins.

        Raises ``NotFoundError`` for an unknown site, ``UnavailableError`` if none answers.
        """
        for hop in self._hops(call):
            request = self._request(call, hop)
            try:
                response = await self.client(hop.address or "").send(request, stream=True)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue  # nothing of the body is sent yet
            except (httpx.HTTPError, RuntimeError) as error:
                raise self._unavailable(call.site, error) from error
            return Answer(response, self._body(call, hop, response))
        raise self._silent(call.site)

    async def chunks(self, call: Outgoing) -> AsyncGenerator[Chunk, None]:
        """Send a request, and yield the chunks of the answer; raises a ``MistbowError``."""
        answer = await self.send(call)
        if not answer.response.is_success:
            await answer.read()
        decoder = ChunkDecoder()
        try:
            async for data in answer.body:
                for chunk in decoder.feed(data):
                    yield chunk
        finally:
            await answer.response.aclose()

    def _hops(self, call: Outgoing) -> list[Neighbour]:
        known = self._neighbours.get(call.site)
        if known is None:
            names = ", ".join(sorted([self.own, *(each.site for each in self._neighbours)]))
            raise NotFoundError(f"there is no site {call.site}", hint=f"There are {names}.")
        if len(call.via) >= _MOST_PASSED or self.own in call.via:
            raise UnavailableError(f"the request for the site {call.site} went astray")
        ways = self._neighbours.ways(call.site)
        # What was passed on once is passed on straight only, or it might run in circles.
        hops = [hop for hop in ways if hop.site == call.site or not call.via]
        if not hops:
            raise self._silent(call.site)
        return hops

    def _request(self, call: Outgoing, hop: Neighbour) -> httpx.Request:
        client = self.client(hop.address or "")
        kind = kind_of(call.target)
        content = call.content
        if isinstance(content, bytes):
            count(hop.site, "sent", kind, len(content))
        elif content is not None:
            content = counted(content, hop.site, "sent", kind)
        base = client.base_url
        return client.build_request(
            call.method,
            base.copy_with(raw_path=base.raw_path.rstrip(b"/") + call.target),
            content=content,
            headers={
                **call.headers,
                **passed_on(current_caller()),
                VIA: ",".join([*call.via, self.own]),
            },
            timeout=httpx.Timeout(_ANSWER_S + call.wait_s, connect=CONNECT_S),
        )

    async def _body(
        self, call: Outgoing, hop: Neighbour, response: httpx.Response
    ) -> AsyncIterator[bytes]:
        try:
            async for part in response.aiter_raw():
                count(hop.site, "received", kind_of(call.target), len(part))
                yield part
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise self._unavailable(call.site, error) from error
        finally:
            await response.aclose()

    def _unavailable(self, site: str, error: Exception) -> UnavailableError:
        reason = str(error) or type(error).__name__
        return UnavailableError(f"the site {site} does not answer: {reason}")

    def _silent(self, site: str) -> UnavailableError:
        known = self._neighbours.get(site)
        if known is None or known.heard is None:
            since = "has not answered since this agent started"
        else:
            heard = datetime.fromtimestamp(known.heard / 1000, UTC).isoformat(timespec="seconds")
            since = f"is silent since {heard}"
        return UnavailableError(
            f"the site {site} {since}, and no other site reaches it", hint="Try again later."
        )


def error_of(status: int, data: bytes) -> Exception:
    """Return the error that another agent answered."""
    try:
        body = httpx.Response(status, content=data).json()
    except ValueError:
        body = data[:500].decode(errors="replace")
    return from_body(status, body)


def kind_of(target: bytes) -> str:
    """Return under which kind the bytes of a path are counted."""
    path = target.partition(b"?")[0]
    stream = f"/streams/{METADATA}".encode()
    if path == stream or path.startswith(stream + b"/"):
        return "metadata"
    return "replication" if path.startswith(b"/replication/") else "relay"


def count(site: str, direction: Direction, kind: str, size: int) -> None:
    """Count bytes that crossed to or from a site."""
    metrics.LINK_BYTES.labels(site, direction, kind).inc(size)


async def counted(
    parts: AsyncIterable[bytes], site: str, direction: Direction, kind: str
) -> AsyncIterator[bytes]:
    """Pass on the parts of a body, counting them."""
    async for part in parts:
        count(site, direction, kind, len(part))
        yield part


def passed_by(header: str | None) -> tuple[str, ...]:
    """Return the sites of a ``Mistbow-Via``."""
    return tuple(site.strip() for site in (header or "").split(",") if site.strip())


def site_of(via: Sequence[str], neighbours: Neighbours) -> str:
    """Return the site from which a request came, as a label: one of those that are known."""
    return via[-1] if neighbours.get(via[-1]) is not None else "unknown"
