"""Sends requests to peers: selects the next hop of each request, and counts bytes per link.

Before the first request to an address, the agent there proves that it belongs to the fog.
"""

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

import httpx

from mistbow.auth.authentication import caller_headers
from mistbow.auth.callers import current_caller
from mistbow.auth.credential import Credential
from mistbow.auth.identity import Proof
from mistbow.client.answer_time import AnswerTime
from mistbow.client.bounded_answers import IN_PARTS
from mistbow.client.credentials import ServiceCredentials, UnverifiedServiceError
from mistbow.client.service_client import async_service_client
from mistbow.errors import NotFoundError, UnavailableError, from_answer
from mistbow.name_resolver import NAMES, NameResolver
from mistbow.streams.schemas import METADATA
from mistbow.streams.wire import Chunk, ChunkDecoder
from mistbow.tls import TlsFiles, client_context
from storage_agent import metrics
from storage_agent.membership.answer_time import ANSWER_S, CONNECT_S, answer_time_of
from storage_agent.membership.peer import Peer
from storage_agent.membership.peers import Peers

VIA = "Mistbow-Via"
"""The header with the sites that have sent or proxied a request, separated by commas."""

_READ_S = 27.0
_MAX_HOPS = 2
_MAX_ANSWER_BYTES = 128 * 2**20
"""The maximum size of an answer that is read as a whole: a site's part of a read over sites."""

_MAX_CHUNK_BYTES = 64 * 2**20
"""The maximum size of a chunk of another site.

Chunks have at most 4 MiB, or are a single segment; chunks of earlier versions are longer. A replica
stores a chunk as one segment, which has at most 7 MiB after compression.
"""

_INLINE_BYTES = 2**20
"""The size of a message (bytes) up to which it is decoded in the event loop."""

_LIMITS = httpx.Limits(max_connections=500, max_keepalive_connections=20)

Direction = Literal["sent", "received"]


@dataclass(frozen=True, slots=True)
class PeerRequest:
    """A request to the agent of another site.

    ``content`` is the whole body, since the request is signed. ``target``: the path and the query
    of the URL. ``via``: the sites that have sent or proxied the request. ``wait_s``: the time that
    the handler may take, in addition to the usual timeout.
    """

    site: str
    method: str
    target: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes = b""
    via: tuple[str, ...] = ()
    wait_s: float = 0.0


def post_request(site: str, path: str, body: bytes) -> PeerRequest:
    """Return a POST request with the JSON ``body``, which reads data at a site."""
    target = f"{path}?site={site}".encode()
    headers = {"Content-Type": "application/json"}
    return PeerRequest(site, "POST", target, headers=headers, content=body, wait_s=_READ_S)


@dataclass(frozen=True, slots=True)
class PeerResponse:
    """A response whose ``body`` is not yet read; ``response`` must be closed afterwards.

    ``body``: each part may take the time of an answer, as in a stream that is followed. ``time``:
    the time of a body that ends.
    """

    response: httpx.Response
    body: AsyncIterator[bytes]
    time: AnswerTime

    async def finite_body(self) -> AsyncGenerator[bytes, None]:
        """Yield the parts of a body that ends; raises ``UnavailableError`` if it is too slow."""
        while (part := await self.time.wait(anext(self.body, None))) is not None:
            self.time.add(len(part))
            yield part

    async def read(self, max_bytes: int = _MAX_ANSWER_BYTES) -> bytes:
        """Return the entire body.

        Raises a ``MistbowError`` if the response is an error, is too large or too slow.
        """
        data = bytearray()
        try:
            async for part in self.finite_body():
                data += part
                if len(data) > max_bytes:
                    raise UnavailableError(
                        f"the answer of a site has more than {max_bytes} bytes",
                        hint="Request less at once: fewer series, or a shorter time.",
                    )
        finally:
            await self.response.aclose()
        if self.response.is_success:
            return bytes(data)
        raise from_answer(self.response.status_code, bytes(data))


class PeerNetwork:
    """Sends requests to peers, directly or through another peer that reaches the target.

    ``own``: the name of this site. ``names``: resolves the names in the peers' addresses.
    """

    def __init__(
        self,
        own: str,
        peers: Peers,
        proof: Proof,
        tls: TlsFiles | None = None,
        names: NameResolver = NAMES,
    ) -> None:
        self.own = own
        self._names = names
        self._peers = peers
        self._proof = proof or ""
        self._tls = client_context(tls)
        self._clients: dict[str, httpx.AsyncClient] = {}
        self._credentials: dict[str, ServiceCredentials] = {}
        self._proven: dict[str, Credential] = {}
        """Site -> the credential that its agent has last proven at its own address."""

    @property
    def has_token(self) -> bool:
        """Whether agents authenticate each other, and sign requests and answers."""
        return bool(self._proof)

    def check_site(self, address: str, site: str) -> None:
        """Raise ``UnverifiedServiceError`` if the agent at an address proved that it is of another
        site than ``site``.
        """
        peer = self._credentials[address].peer if address in self._credentials else None
        if peer is not None and peer.site != site:
            raise UnverifiedServiceError(
                f"the agent at {address} claims to be of {site}, but its identity is of {peer.site}"
            )
        if peer is not None:
            self._proven[site] = peer

    def proven(self, site: str) -> Credential | None:
        """Return the credential that a site's agent has last proven at its own address.

        Returns None if the agent has proven none since this agent started.
        """
        return self._proven.get(site)

    def proven_reach(self, address: str) -> frozenset[str] | None:
        """Return the sites at which the agent at an address has rights, as its identity proves.

        None: all sites, or the agent has proven no identity.
        """
        credentials = self._credentials.get(address)
        identity = None if credentials is None else credentials.peer
        if identity is None or identity.reaches_all:
            return None
        return frozenset(identity.reached_sites)

    def client(self, address: str) -> httpx.AsyncClient:
        """Return the HTTP client for an address; the first call creates the client."""
        if address not in self._clients:
            credentials = ServiceCredentials(address, self._proof, kind="agent")
            self._credentials[address] = credentials
            self._clients[address] = async_service_client(
                address, credentials, self._tls, _LIMITS, names=self._names
            )
        return self._clients[address]

    def is_connected(self, address: str) -> bool:
        """Return whether a client for an address exists, whose connections may be open."""
        return address in self._clients

    async def drop(self, address: str) -> None:
        """Close all connections to an address, so that pending requests fail at once."""
        self._credentials.pop(address, None)
        client = self._clients.pop(address, None)
        if client is not None:
            await client.aclose()

    async def close(self) -> None:
        """Close all connections."""
        for address in list(self._clients):
            await self.drop(address)

    async def send(self, call: PeerRequest) -> PeerResponse:
        """Send a request, and return the response once its headers are received.

        Raises ``NotFoundError`` if the site is unknown, and ``UnavailableError`` if the site is
        unreachable or too slow.
        """
        for hop in self._hops(call):
            if hop.address is None:
                continue  # the link was lost while an earlier hop was contacted
            client = self.client(hop.address)
            time = answer_time_of(call.site, len(call.content), call.wait_s)
            try:
                sent = client.send(self._request(call, hop, client), stream=True)
                response = await time.wait(sent)
            except (httpx.ConnectError, httpx.ConnectTimeout, UnverifiedServiceError):
                continue  # nothing of the request is sent yet
            except (httpx.HTTPError, RuntimeError) as error:
                raise self._interrupted(call.site, error) from error
            time.begin_body()
            return PeerResponse(response, self._body(call, hop, response), time)
        raise self._unreachable(call.site)

    async def read(self, call: PeerRequest, max_bytes: int = _MAX_ANSWER_BYTES) -> bytes:
        """Send a request, and return the entire body of the response.

        Raises a ``MistbowError`` if the request fails, or if the answer is too large or too slow.
        """
        return await (await self.send(call)).read(max_bytes)

    async def chunks(self, call: PeerRequest, *, follows: bool) -> AsyncGenerator[Chunk, None]:
        """Send a request, and yield the chunks of the response.

        ``follows``: whether the response is a stream without an end. Raises a ``MistbowError`` if
        the request fails.
        """
        answer = await self.send(call)
        if not answer.response.is_success:
            await answer.read()
        decoder = ChunkDecoder(_MAX_CHUNK_BYTES)
        try:
            async for data in answer.body if follows else answer.finite_body():
                for chunk in await _feed(decoder, data):
                    yield chunk
        finally:
            await answer.response.aclose()

    def _hops(self, call: PeerRequest) -> list[Peer]:
        if self._peers.get(call.site) is None:
            names = ", ".join(sorted([self.own, *(peer.site for peer in self._peers)]))
            raise NotFoundError(
                f"there is no site {call.site}", hint=f"The known sites are {names}."
            )
        if len(call.via) >= _MAX_HOPS or self.own in call.via:
            passed = ", ".join(call.via)
            raise UnavailableError(
                f"the request for the site {call.site} was forwarded too often (by the sites "
                f"{passed})"
            )
        # A request that was proxied once may only take its last hop; otherwise it could loop.
        hops = [
            hop
            for hop in self._peers.next_hops(call.site)
            if hop.site == call.site or (not call.via and self._may_pass_on(hop, call))
        ]
        if not hops:
            raise self._unreachable(call.site)
        return hops

    def _may_pass_on(self, hop: Peer, call: PeerRequest) -> bool:
        """Return whether a request for a site may be proxied by a peer.

        If an agent does not have the site in its reach, it may not proxy the request, because it
        could read the request and forge the answer. The metadata of a site can remove other sites,
        as its agent can. So only an agent with at least the reach of that agent may proxy the
        metadata.
        """
        credentials = self._credentials.get(hop.address or "")
        identity = None if credentials is None else credentials.peer
        if identity is None or identity.reaches_all:
            return True
        if traffic_kind(call.target) != "metadata":
            return identity.reaches(call.site)
        target = self.proven(call.site)
        return target is not None and identity.covers(target)

    def _request(self, call: PeerRequest, hop: Peer, client: httpx.AsyncClient) -> httpx.Request:
        kind = traffic_kind(call.target)
        count_bytes(hop.site, "sent", kind, len(call.content))
        base = client.base_url
        return client.build_request(
            call.method,
            base.copy_with(raw_path=base.raw_path.rstrip(b"/") + call.target),
            content=call.content or None,
            headers={
                **call.headers,
                **caller_headers(current_caller()),
                VIA: ",".join([*call.via, self.own]),
            },
            timeout=httpx.Timeout(ANSWER_S + call.wait_s, connect=CONNECT_S),
            extensions=IN_PARTS,
        )

    async def _body(
        self, call: PeerRequest, hop: Peer, response: httpx.Response
    ) -> AsyncIterator[bytes]:
        try:
            async for part in response.aiter_raw():
                count_bytes(hop.site, "received", traffic_kind(call.target), len(part))
                yield part
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise self._interrupted(call.site, error) from error
        finally:
            await response.aclose()

    def _interrupted(self, site: str, error: Exception) -> UnavailableError:
        reason = str(error) or type(error).__name__
        return UnavailableError(f"the site {site} does not answer: {reason}")

    def _unreachable(self, site: str) -> UnavailableError:
        peer = self._peers.get(site)
        if peer is None or peer.answered_at is None:
            since = "has not answered since this agent started"
        else:
            answered_at = datetime.fromtimestamp(peer.answered_at / 1000, UTC).isoformat(
                timespec="seconds"
            )
            since = f"has not answered since {answered_at}"
        message = f"the site {site} {since}, and no other site reaches it"
        unresolved = peer and self._names.problem(httpx.URL(peer.url).raw_host.decode())
        if unresolved:
            return UnavailableError(
                f"{message}: {unresolved}",
                hint="Check the name server, and the name in MISTBOW_AGENT_URL of that agent.",
            )
        return UnavailableError(message, hint="Try again later.")


async def _feed(decoder: ChunkDecoder, data: bytes) -> Iterable[Chunk]:
    """Return the chunks that ``data`` completes; a thread decodes and validates large ones."""
    if decoder.pending + len(data) <= _INLINE_BYTES or not decoder.may_complete(data):
        return decoder.feed(data)
    return await asyncio.to_thread(list, decoder.feed(data))


def traffic_kind(target: bytes) -> str:
    """Return the kind of a request's traffic, for metrics: metadata, replication or proxy.

    ``target``: the path and the query of the URL.

    >>> traffic_kind(b"/streams/metadata/info?site=b"), traffic_kind(b"/get")
    ('metadata', 'proxy')
    """
    path = target.partition(b"?")[0]
    stream = f"/streams/{METADATA}".encode()
    if path == stream or path.startswith(stream + b"/"):
        return "metadata"
    return "replication" if path.startswith(b"/replication/") else "proxy"


def count_bytes(site: str, direction: Direction, kind: str, size: int) -> None:
    """Add ``size`` bytes to the metrics, as sent to or received from a site."""
    metrics.LINK_BYTES.labels(site, direction, kind).inc(size)


async def count_body(
    parts: AsyncIterable[bytes], site: str, direction: Direction, kind: str
) -> AsyncIterator[bytes]:
    """Yield the parts of a body, and add the size of each part to the metrics."""
    async for part in parts:
        count_bytes(site, direction, kind, len(part))
        yield part


def parse_via(header: str | None) -> tuple[str, ...]:
    """Return the sites in a header ``Mistbow-Via``; empty without a header."""
    return tuple(site.strip() for site in (header or "").split(",") if site.strip())


def sender_label(via: Sequence[str], peers: Peers) -> str:
    """Return the label of a request's last sender for metrics: its site, or ``unknown``."""
    return via[-1] if peers.get(via[-1]) is not None else "unknown"
