"""Measures the bandwidth of the direct links to peers, by small and rare transfers.

A link is probed soon after it is up, and then every ``MISTBOW_LINK_PROBE_S``. A probe sends up to
208 KiB, in parts of growing size: a part that takes long enough beyond the round trip is the last
one, so that a slow link is busy for a moment only. One link is probed at a time, and only while no
other transfer uses it. So the traffic of an agent is bounded, however many peers it has.
"""

import asyncio
import os
import time

import httpx

from mistbow.client.bounded_answers import at_most
from mistbow.errors import MistbowError, UnavailableError, from_answer
from mistbow.runtime.periodic import PeriodicTask, Schedule
from mistbow.telemetry import get_logger
from storage_agent import metrics
from storage_agent.membership.answer_time import CONNECT_S, answer_time_of
from storage_agent.membership.network import PeerNetwork, count_bytes
from storage_agent.membership.peer import Peer
from storage_agent.membership.peers import Peers

log = get_logger(__name__)

PART_BYTES = (8 * 1024, 32 * 1024, 64 * 1024)
"""The sizes of the parts of a probe."""

_MIN_SECONDS = 0.1
"""The time of a transfer, without the round trip, that is long enough to be measured."""

_PAUSE_S = 5.0
"""The pause between two probes of an agent."""

_IDLE_S = 1.0
_MAX_IDLE_BYTES = 32 * 1024
"""An idle link transfers at most this number of bytes in ``_IDLE_S``."""

_BUSY_S = 60.0
"""The time after which a busy link is tried again."""

_ANSWER_S = 10.0
_MAX_ANSWER_BYTES = 64 * 2**10
_HEARTBEAT = "heartbeat"


class LinkProber:
    """Probes the links to ``peers``, and records their bandwidth.

    ``interval_s``: the time between two probes of a link; 0: no link is probed.
    """

    def __init__(self, peers: Peers, network: PeerNetwork, interval_s: float) -> None:
        self._peers = peers
        self._network = network
        self._interval_s = interval_s
        self._due_at: dict[str, float] = {}
        self._content = os.urandom(max(PART_BYTES))

    @property
    def is_enabled(self) -> bool:
        """Whether links are probed."""
        return self._interval_s > 0

    async def run(self) -> None:
        """Probe one link after the other until cancelled; return at once if no link is probed."""
        if self.is_enabled:
            schedule = Schedule("link_probe", _PAUSE_S, delay_s=_PAUSE_S, max_retry_s=60.0)
            await PeriodicTask(self._probe_next, schedule).run()

    async def _probe_next(self) -> None:
        """Probe the link whose turn it is, if the link is idle."""
        peer = self._next_peer()
        if peer is None:
            return
        before = _transferred_bytes(peer.site)
        await asyncio.sleep(_IDLE_S)
        is_idle = _transferred_bytes(peer.site) - before <= _MAX_IDLE_BYTES
        # A busy link is tried again, but after the other links.
        self._due_at[peer.site] = time.monotonic() + (self._interval_s if is_idle else _BUSY_S)
        if is_idle:
            await self._probe(peer)

    def _next_peer(self) -> Peer | None:
        linked = self._peers.linked()
        due_at = {peer.site: self._due_at.get(peer.site, 0.0) for peer in linked}
        self._due_at = due_at
        reached = [peer for peer in linked if peer.latency_ms is not None]
        peer = min(reached, key=lambda peer: due_at[peer.site], default=None)
        return peer if peer is not None and due_at[peer.site] <= time.monotonic() else None

    async def _probe(self, peer: Peer) -> None:
        """Send parts of growing size, and record the bandwidth that the last one shows."""
        for size in PART_BYTES:
            try:
                seconds = await self._transfer(peer, size)
                round_trip_s = 2 * (peer.latency_ms or 0.0) / 1000
                is_last = size == PART_BYTES[-1] or seconds - round_trip_s >= _MIN_SECONDS
                if is_last:
                    # One of the two processes may have been busy, or the connection was new.
                    seconds = min(seconds, await self._transfer(peer, size))
                    is_last = size == PART_BYTES[-1] or seconds - round_trip_s >= _MIN_SECONDS
            except (httpx.HTTPError, RuntimeError, MistbowError) as error:
                log.info("link_probe_interrupted", site=peer.site, bytes=size, error=str(error))
                return
            if is_last:
                # What remains without the round trip is the time of the transfer. If little
                # remains, the link has at least this bandwidth.
                transfer_s = max(seconds - round_trip_s, seconds / 10)
                peer.bandwidth_mbps = 8 * size / transfer_s / 1e6
                return

    async def _transfer(self, peer: Peer, size: int) -> float:
        """Send a part, and return the time (s) until the answer."""
        if peer.address is None:
            raise UnavailableError(f"the site {peer.site} is not reachable any more")
        began = time.perf_counter()
        await self._send(peer.site, peer.address, self._content[:size])
        count_bytes(peer.site, "sent", "probe", size)
        return time.perf_counter() - began

    async def _send(self, site: str, address: str, content: bytes) -> None:
        answer = self._network.client(address).post(
            "/fabric/probe",
            content=content,
            headers={"Content-Type": "application/octet-stream"},
            timeout=httpx.Timeout(_ANSWER_S, connect=CONNECT_S),
            extensions=at_most(_MAX_ANSWER_BYTES),
        )
        response = await answer_time_of(site, len(content), _ANSWER_S).wait(answer)
        if not response.is_success:
            raise from_answer(response.status_code, response.content)


def _transferred_bytes(site: str) -> float:
    """Return the bytes that were sent to and received from a site, without heartbeats."""
    return sum(
        sample.value
        for metric in metrics.LINK_BYTES.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
        and sample.labels["site"] == site
        and sample.labels["kind"] != _HEARTBEAT
    )
