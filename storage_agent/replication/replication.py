"""The replication of one site: creates, starts and stops the parts of replication."""

from collections.abc import Callable

from mistbow.clock import Clock
from mistbow.errors import ConflictError
from mistbow.runtime.tasks import BackgroundTasks
from storage_agent.http.points import GetBody
from storage_agent.http.streams import RetentionLeaseBody
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.proxy import REQUESTING_SITE
from storage_agent.membership.scatter_gather import SiteFailover
from storage_agent.replication.facts import copies_of, replica_facts
from storage_agent.replication.failover.failover import FailoverReader, ReadFailover
from storage_agent.replication.follower.follower import Follower
from storage_agent.replication.follower.replica_server import ReplicaServer
from storage_agent.replication.offload.offloaded_points import OffloadedPoints
from storage_agent.replication.offload.offloader import Offloader
from storage_agent.replication.policy.driver import PolicyDriver, PolicyInputs
from storage_agent.replication.policy.insight_readers import InsightReaders
from storage_agent.replication.policy.read_counts import ReadCounts, requested_filter
from storage_agent.replication.policy.registry import load
from storage_agent.replication.policy.stability import StabilityMonitor
from storage_agent.replication.restrictions import SiteRestrictions
from storage_agent.replication.source.copies import Copies
from storage_agent.replication.source.copy_reader import CopyReader
from storage_agent.settings import AgentSettings
from storage_agent.streams.maintenance import StorageLimit
from storage_agent.streams.streams import Streams
from storage_agent.timeseries.catalogue import Catalogue

_MB = 2**20


class Replication:
    """Runs the parts of replication at one site: source, follower, failover, offload and policy.

    Writes of points never wait for these parts.
    """

    def __init__(self, settings: AgentSettings, membership: FabricMembership, clock: Clock) -> None:
        policy = load(settings.replication_policy) if settings.replication_policy else None
        self.membership = membership
        self.restrictions = SiteRestrictions(settings.restrictions, membership)
        self.offloaded = OffloadedPoints(membership)
        self.copies = Copies(membership, self.restrictions, self.offloaded, clock)
        self.copy_reader = CopyReader(self.copies)
        self.follower = Follower(
            membership,
            settings.home,
            settings.replica_free_mb * _MB,
            clock,
            replaces=settings.duplicates == "replace",
        )
        self.replica_server = ReplicaServer(self.follower, durable=settings.durability != "memory")
        self.failover_reader = FailoverReader(membership, self.follower, self.replica_server)
        self._reads = ReadCounts(clock)
        self._catalogue: Catalogue | None = None
        self._insights = InsightReaders(membership, clock)
        self._stability = StabilityMonitor(membership, clock)
        inputs = PolicyInputs(
            copies=self.copies,
            follower=self.follower,
            reads=self._reads,
            insights=self._insights,
            restrictions=self.restrictions,
            stability=self._stability,
        )
        every_ms = settings.replication_every_ms
        self.policy_driver = PolicyDriver(membership, inputs, policy, every_ms, clock)
        min_age_ms = settings.move_after_s * 1000
        self._offloader = Offloader(membership, self.copies, self.offloaded, min_age_ms, clock)
        self._every_s = every_ms / 1000
        self.tasks = BackgroundTasks()
        self._is_open = False

    def open(
        self, streams: Streams, catalogue: Catalogue, limit: Callable[[], StorageLimit]
    ) -> None:
        """Recover the stored state of each part, and start the tasks of replication.

        The membership must be open. ``limit``: returns the limit for the total size of all streams.
        """
        self._catalogue = catalogue
        self.restrictions.open()
        self._stability.open()
        self.copies.open(streams)
        self.copy_reader.open(streams, catalogue)
        self.follower.open(streams)
        self.tasks.spawn("replicas of other sites", self.follower.run())
        self.tasks.spawn("replication policy", self.policy_driver.run(streams, limit))
        self.tasks.spawn("offloads", self._offloader.run(streams, self._every_s))
        self._is_open = True

    @property
    def is_open(self) -> bool:
        """Whether ``open`` has started the tasks of replication."""
        return self._is_open

    async def close(self) -> None:
        """Stop the follower, the policy driver and the offloader."""
        await self.tasks.close()

    def check_unused(self, site: str) -> None:
        """Raise ``ConflictError`` if replicas or copies still need the site ``site``.

        A replica needs its source site. A copy needs its target site if a user requested the copy,
        or if the copy has offloaded points. Only replicas and copies of this site and of reachable
        sites count.
        """
        peers = self.membership.peers
        # Facts of unreachable sites do not count: they may be gone as well.
        reachable = (peer.site for peer in peers if peers.reachable(peer.site))
        for at in (self.membership.site, *reachable):
            facts = self.membership.facts_of(at)
            for replica in replica_facts(facts):
                if replica.source == site:
                    raise ConflictError(
                        f"the site {at} stores a replica of the site {site}; after the removal of "
                        f"{site}, nobody could read this replica",
                        hint=f"DELETE /replication/replicas/{site}/{replica.id}?site={at}"
                        "&force=true deletes the replica.",
                    )
            for copy in copies_of(facts):
                if copy.target == site and (copy.manual or copy.offloaded_to is not None):
                    raise ConflictError(
                        f"the site {at} has a copy with the target {site}",
                        hint=f"DELETE /replication/copies/{copy.id}?site={at}&target={site}"
                        "&force=true withdraws the copy.",
                    )

    async def count_read(self, body: GetBody) -> None:
        """Count a read of this site's points by the site that sent the present request.

        ``body``: the filters and times of the read.
        """
        if self._catalogue is None:
            return
        requested = await requested_filter(body, self._catalogue)
        if requested is not None:
            self._reads.count(REQUESTING_SITE.get() or self.membership.site, requested)

    def record_insight(self, body: RetentionLeaseBody) -> None:
        """Record that the holder of a retention lease, a fragment, reads this site's points.

        ``body``: the request for the retention lease.
        """
        site = REQUESTING_SITE.get() or self.membership.site
        self._insights.record(body.holder, site, body.for_ms, body.metrics)

    def failover(self, body: GetBody) -> SiteFailover:
        """Return the object that answers a /get or a /query from replicas of unreachable sites."""
        return ReadFailover(self.failover_reader, body)
