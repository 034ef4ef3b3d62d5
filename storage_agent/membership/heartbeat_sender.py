"""Sends a heartbeat to each peer every second; a slow peer does not delay the other peers."""

import asyncio
import contextlib
import time
from collections.abc import Callable

import httpx
import msgspec

from mistbow.client.bounded_answers import at_most
from mistbow.client.credentials import UnverifiedServiceError, check_answer
from mistbow.errors import ConflictError, MistbowError, from_answer
from mistbow.name_resolver import UnresolvedNameError
from mistbow.runtime.periodic import PeriodicTask, Schedule
from mistbow.runtime.tasks import cancel_and_wait
from mistbow.telemetry import get_logger
from storage_agent.membership.answer_time import CONNECT_S
from storage_agent.membership.clock_skew import ClockSkew
from storage_agent.membership.heartbeat import HEARTBEAT, Heartbeat, check_heartbeat
from storage_agent.membership.network import PeerNetwork, count_bytes
from storage_agent.membership.peers import HEARTBEAT_INTERVAL_S, Peers

log = get_logger(__name__)

_ANSWER_S = 2.0
_MAX_ANSWER_BYTES = 8 * 2**20
"""The maximum size of an answer, which is that of a heartbeat in a request."""


class HeartbeatSender:
    """Sends heartbeats, and records the answers in ``peers``.

    ``listener``: called after each answer and after each failure. ``skew``: receives the times of
    the peers.
    """

    def __init__(
        self,
        peers: Peers,
        network: PeerNetwork,
        listener: Callable[[], None],
        skew: ClockSkew,
    ) -> None:
        self._skew = skew
        self._peers = peers
        self._network = network
        self._listener = listener
        self._in_flight: dict[str, asyncio.Task[None]] = {}
        self._unverified: set[str] = set()

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        try:
            await PeriodicTask(
                self._send_all, Schedule("heartbeat_round", HEARTBEAT_INTERVAL_S)
            ).run()
        finally:
            await cancel_and_wait(self._in_flight.values())

    async def _send_all(self) -> None:
        for address in self._peers.begin_round():
            self.send(address)

    def send(self, address: str) -> None:
        """Send a heartbeat to an address now, unless an earlier heartbeat is still unanswered."""
        if address not in self._in_flight:
            task = asyncio.create_task(self._exchange(address), name=f"heartbeat to {address}")
            self._in_flight[address] = task
            task.add_done_callback(lambda _: self._in_flight.pop(address, None))

    async def _exchange(self, address: str) -> None:
        try:
            # The first round trip of a connection includes its handshakes.
            is_connected = self._network.is_connected(address)
            begin = time.perf_counter()
            async with asyncio.timeout(_ANSWER_S):
                answer = await self._post(address)
            trip_ms = (time.perf_counter() - begin) * 1000
            self._unverified.discard(address)
            reach = self._network.proven_reach(address)
            self._peers.record_answer(address, answer, trip_ms if is_connected else None, reach)
            if is_connected and answer.now and self._peers.get(answer.site) is not None:
                self._skew.record(answer.site, answer.now, trip_ms)
        except (httpx.HTTPError, RuntimeError, TimeoutError, MistbowError) as error:
            if isinstance(error, ConflictError):
                log.error("heartbeat_rejected", address=address, error=error.message)
            if isinstance(error, UnverifiedServiceError) and address not in self._unverified:
                self._unverified.add(address)
                log.error("peer_unverified", address=address, error=str(error))
            is_timeout = isinstance(
                error, TimeoutError | httpx.TimeoutException | UnresolvedNameError
            )
            self._peers.record_failure(address, is_timeout=is_timeout)
            if not self._peers.answers(address):
                with contextlib.suppress(Exception):
                    await self._network.drop(address)
        except Exception as error:
            log.error("heartbeat_failed", address=address, exc_info=error)
            self._peers.record_failure(address)
        self._listener()

    async def _post(self, address: str) -> Heartbeat:
        body = msgspec.json.encode(self._peers.heartbeat_to(address))
        response = await self._network.client(address).post(
            "/fabric/greet",
            content=body,
            headers={"Content-Type": "application/json"},
            timeout=httpx.Timeout(_ANSWER_S, connect=CONNECT_S),
            extensions=at_most(_MAX_ANSWER_BYTES),
        )
        if not response.is_success:
            raise from_answer(response.status_code, response.content)
        if self._network.has_token:
            check_answer(response)
        try:
            answer = HEARTBEAT.decode(response.content)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise MistbowError(f"the heartbeat of {address} cannot be decoded: {error}") from error
        check_heartbeat(answer)
        self._network.check_site(address, answer.site)
        if self._peers.get(answer.site) is not None:
            count_bytes(answer.site, "sent", "heartbeat", len(body))
            count_bytes(answer.site, "received", "heartbeat", len(response.content))
        return answer
