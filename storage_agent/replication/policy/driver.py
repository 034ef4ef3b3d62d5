"""Runs the replication policy every few seconds, and applies the policy's decisions."""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from mistbow.client.operation_model import ReadRate
from mistbow.clock import Clock
from mistbow.fabric import Site
from mistbow.runtime.periodic import PeriodicTask, Schedule
from mistbow.streams.schemas import RAW
from storage_agent.decay import stability
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.replication.facts import health_of, replica_facts
from storage_agent.replication.follower.follower import Follower
from storage_agent.replication.policy.fragile_first import is_fragile
from storage_agent.replication.policy.insight_readers import InsightReaders
from storage_agent.replication.policy.read_counts import ReadCounts
from storage_agent.replication.policy.stability import StabilityMonitor
from storage_agent.replication.policy.view import Policy, SiteView, View
from storage_agent.replication.restrictions import SiteRestrictions
from storage_agent.replication.source.copies import Copies
from storage_agent.replication.source.requests import CopyRequest
from storage_agent.streams.maintenance import StorageLimit
from storage_agent.streams.streams import RECORD_PREFIX, Streams
from storage_agent.work_threads import upkeep_beside

_BUSY_S = 30.0
"""The time constant (s) of the exponential average of the share of busy time."""


@dataclass(frozen=True, slots=True)
class PolicyInputs:
    """The components from which the driver builds the policy's view."""

    copies: Copies
    follower: Follower
    reads: ReadCounts
    insights: InsightReaders
    restrictions: SiteRestrictions
    stability: StabilityMonitor


@dataclass(frozen=True, slots=True)
class _LoadSample:
    """Measurements at one moment; the load is computed from two samples.

    ``at``: the moment, on a monotonic clock (s). ``worked``: the CPU time that this thread has used
    (s). ``head``: the head of the stream ``raw``.
    """

    at: float
    worked: float
    head: int


class PolicyDriver:
    """Measures this site's load, publishes this site's health, and applies the policy's decisions.

    ``policy``: None if no policy decides about copies. ``every_ms``: the interval between decisions
    (ms).
    """

    def __init__(
        self,
        membership: FabricMembership,
        inputs: PolicyInputs,
        policy: Policy | None,
        every_ms: int,
        clock: Clock,
    ) -> None:
        self._membership = membership
        self._inputs = inputs
        self._policy = policy
        self._every_s = every_ms / 1000
        self._clock = clock
        self._last_sample: _LoadSample | None = None
        self._load = 0.0
        self._busy = 0.0
        self._had_workers = clock()

    async def run(self, streams: Streams, limit: Callable[[], StorageLimit]) -> None:
        """Call the policy periodically, and apply its decisions, until cancelled.

        ``limit``: returns the limit for the total size of all streams. If the policy raises an
        error, the earlier decisions stay in force.
        """

        async def decide() -> None:
            await self._decide(streams, limit().max_bytes)

        await PeriodicTask(decide, Schedule("replication_policy", self._every_s)).run()

    async def _decide(self, streams: Streams, max_bytes: int | None) -> None:
        raw = await streams.get(RAW)
        inputs = self._inputs
        inputs.stability.update()
        self._measure(raw.log.head)
        free_bytes = await upkeep_beside(inputs.follower.free_bytes)
        inputs.stability.publish(free_bytes, self._load)
        inputs.copies.refresh()
        names = [stream.name for stream in streams.all()]
        view = self.view(
            stored_bytes=raw.log.index.bytes,
            used_bytes=sum(stream.log.index.bytes for stream in streams.all()),
            max_bytes=max_bytes,
            record_streams=[name for name in names if name.startswith(RECORD_PREFIX)],
        )
        inputs.copies.fragile = is_fragile(view)
        if self._policy is not None:
            decisions = self._policy.decide(view)
            inputs.copies.apply_decisions(CopyRequest.of(decision) for decision in decisions)

    def view(
        self,
        stored_bytes: int = 0,
        used_bytes: int = 0,
        max_bytes: int | None = None,
        record_streams: Iterable[str] = (),
    ) -> View:
        """Return the present view of the fabric.

        The parameters are the values of the fields of ``View`` that have the same names.
        """
        sites = {site.name: site for site in self._membership.fabric().sites}
        if sites[self._membership.site].workers:
            self._had_workers = self._clock()
        others = (site for name, site in sites.items() if name != self._membership.site)
        return View(
            now=self._clock(),
            here=self._site_view(sites[self._membership.site]),
            others=tuple(map(self._site_view, others)),
            reads=tuple(self._read_rates()),
            insights=tuple(self._inputs.insights.current()),
            load=self._load,
            busy=self._busy,
            stored_bytes=stored_bytes,
            used_bytes=used_bytes,
            max_bytes=max_bytes,
            workerless_ms=self._clock() - self._had_workers,
            copies=self._inputs.copies.all(),
            restrictions=self._inputs.restrictions.all(),
            record_streams=tuple(record_streams),
        )

    def _site_view(self, site: Site) -> SiteView:
        now, monitor = self._clock(), self._inputs.stability
        peer = self._membership.peers.get(site.name)
        health = health_of(self._membership.facts_of(site.name))
        is_own = site.name == self._membership.site
        instability = (
            monitor.own_instability(now) if is_own else monitor.instability(site.name, now)
        )
        return SiteView(
            name=site.name,
            region=site.region,
            labels=site.labels,
            reachable=site.reachable,
            stability=stability(instability),
            latency_ms=None if peer is None else peer.latency_ms,
            usual_latency_ms=monitor.usual_latency_ms(site.name),
            losses=monitor.losses(site.name, now),
            free_bytes=None if health is None else health.free_bytes,
            load=0.0 if health is None else health.load,
            workers=len(site.workers),
        )

    def _read_rates(self) -> Iterator[ReadRate]:
        for by, series_filter, per_minute in self._inputs.reads.per_minute():
            yield ReadRate(by, series_filter, per_minute)
        # Reads that a replica answers do not arrive here, but are the reason for that replica.
        # Of a copy that was not requested, a stolen site could state reads to receive it.
        requested = {(each.target, each.id): each.filter for each in self._inputs.copies.all()}
        for peer in self._membership.peers:
            for replica in replica_facts(self._membership.facts_of(peer.site)):
                is_own = replica.source == self._membership.site
                copied = requested.get((peer.site, replica.id))
                if is_own and replica.stream == RAW and replica.reads and copied is not None:
                    yield ReadRate(peer.site, copied, replica.reads)

    def _measure(self, head: int) -> None:
        # This thread also answers requests: more work than fills its time is not possible.
        now = _LoadSample(time.monotonic(), time.thread_time(), head)
        if (last := self._last_sample) is not None and (passed := now.at - last.at) > 0:
            self._load = (head - last.head) / passed
            weight = 1 - math.exp(-passed / _BUSY_S)
            self._busy += weight * ((now.worked - last.worked) / passed - self._busy)
        self._last_sample = now
