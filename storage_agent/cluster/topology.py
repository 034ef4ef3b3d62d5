"""The topology of this site's Ignite cluster: nodes, copies of partitions, rebalancing."""

from typing import Any

import msgspec

from mistbow.client.operation_model import IgniteNode
from storage_agent import metrics
from storage_agent.ignite.client import IgniteClient

_NODES = "SELECT CONSISTENT_ID, ONLINE FROM SYS.BASELINE_NODES ORDER BY CONSISTENT_ID"
_SERVERS = "SELECT COUNT(*) FROM SYS.NODES WHERE IS_CLIENT = FALSE"
_PRIMARY = (
    "SELECT COUNT(DISTINCT P.NODE_ID) FROM SYS.PARTITION_STATES P "
    "JOIN SYS.CACHE_GROUPS G ON P.CACHE_GROUP_ID = G.CACHE_GROUP_ID "
    "WHERE G.CACHE_GROUP_NAME = 'mistbow' AND P.IS_PRIMARY = TRUE"
)
# Partitions of Ignite's own caches are of no interest.
_STATES = (
    "SELECT P.STATE, COUNT(*), COUNT(DISTINCT P.NODE_ID) FROM SYS.PARTITION_STATES P "
    "JOIN SYS.CACHE_GROUPS G ON P.CACHE_GROUP_ID = G.CACHE_GROUP_ID "
    "WHERE G.CACHE_GROUP_NAME = 'mistbow' GROUP BY P.STATE"
)
_BACKUPS = (
    "SELECT BACKUPS, PARTITIONS_COUNT FROM SYS.CACHE_GROUPS WHERE CACHE_GROUP_NAME = 'mistbow'"
)
_CONFIGURED = "SELECT * FROM SYS.CONFIGURATION WHERE NAME LIKE 'DataStorageConfiguration.%'"
_PERSISTENT = "DataStorageConfiguration.DefaultDataRegionConfiguration.PersistenceEnabled"
_WAL_MODE = "DataStorageConfiguration.WalMode"


class Topology(msgspec.Struct, frozen=True):
    """The nodes of a site's Ignite cluster, and the partitions of its caches.

    ``backups``: the configured number of backup copies of a partition. ``partitions``: the number
    of partitions. ``copies``: the average number of up-to-date copies of a partition, rounded down.
    ``lost``: the number of lost partitions. ``rebalancing``: whether a node is still receiving data
    from other nodes; the failure of another node may then lose data.
    """

    nodes: tuple[IgniteNode, ...]
    backups: int
    partitions: int
    copies: int
    rebalancing: bool
    lost: int

    @property
    def expected_copies(self) -> int:
        """The number of copies of a partition while all nodes run."""
        return min(self.backups + 1, len(self.nodes))

    @property
    def tolerates_a_failure(self) -> bool:
        """Whether Ignite would retain all acknowledged data if any one of the nodes failed now."""
        return self.copies >= 2 and not self.rebalancing and all(node.online for node in self.nodes)


async def read_topology(ignite: IgniteClient) -> Topology:
    """Return the topology that Ignite reports, and update the metrics of Ignite's nodes.

    Raises ``UnavailableError`` while Ignite is unavailable.
    """
    nodes = tuple(IgniteNode(name, online) for name, online in await ignite.query(_NODES))
    servers = (await ignite.query(_SERVERS))[0][0]
    if not nodes:  # without persistence, Ignite has no baseline
        nodes = tuple(IgniteNode(f"node {number}", online=True) for number in range(1, servers + 1))
    backups, partitions = (await ignite.query(_BACKUPS))[0]
    states = {state: count for state, count, _ in await ignite.query(_STATES)}
    online = sum(node.online for node in nodes)
    leading = (await ignite.query(_PRIMARY))[0][0]
    owned, expected = states.get("OWNING", 0), min(backups + 1, online) * partitions
    found = Topology(
        nodes=nodes,
        backups=backups,
        partitions=partitions,
        copies=owned // partitions if partitions else 0,
        # After a node has joined, and before Ignite reports what it lacks, all partitions are
        # OWNING. But a node is primary of no partition before it is up to date.
        rebalancing=states.get("MOVING", 0) > 0 or owned < expected or leading < online,
        lost=states.get("LOST", 0),
    )
    metrics.NODES.set(online)
    metrics.COPIES.set(found.copies)
    metrics.EXPECTED_COPIES.set(found.expected_copies)
    metrics.REBALANCING.set(found.rebalancing)
    return found


async def read_durability(ignite: IgniteClient) -> tuple[bool, bool]:
    """Return whether Ignite stores data on disk, and whether the data survives a power cut."""
    configured: dict[str, Any] = dict(await ignite.query(_CONFIGURED))
    return configured[_PERSISTENT] == "true", configured[_WAL_MODE] == "FSYNC"
