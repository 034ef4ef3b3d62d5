"""How this site's Ignite is: its nodes, the copies of all, and whether some are still made."""

from typing import Any

import msgspec

from storage_agent import metrics
from storage_agent.ignite_client import IgniteClient

_NODES = "SELECT CONSISTENT_ID, ONLINE FROM SYS.BASELINE_NODES ORDER BY CONSISTENT_ID"
_SERVERS = "SELECT COUNT(*) FROM SYS.NODES WHERE IS_CLIENT = FALSE"
_PRIMARY = (
    "SELECT COUNT(DISTINCT P.NODE_ID) FROM SYS.PARTITION_STATES P "
    "JOIN SYS.CACHE_GROUPS G ON P.CACHE_GROUP_ID = G.CACHE_GROUP_ID "
    "WHERE G.CACHE_GROUP_NAME = 'mistbow' AND P.IS_PRIMARY = TRUE"
)
# The system's own partitions come and go with its own affairs.
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


class Node(msgspec.Struct, frozen=True):
    """A node that holds a part of the data, or would if it were there."""

    name: str
    online: bool


class Topology(msgspec.Struct, frozen=True):
    """How many ``copies`` there are of each part at least, and how many parts are ``lost``.

    ``rebalancing``: a node is being brought up to date. Another failure before that has ended may
    lose data.
    """

    nodes: tuple[Node, ...]
    backups: int
    partitions: int
    copies: int
    rebalancing: bool
    lost: int

    @property
    def tolerates_a_failure(self) -> bool:
        """Whether any one node may fail now, without anything that was acknowledged being lost."""
        return self.copies >= 2 and not self.rebalancing and all(node.online for node in self.nodes)


async def topology(ignite: IgniteClient) -> Topology:
    """Ask Ignite; raises ``UnavailableError``."""
    nodes = tuple(Node(name, online) for name, online in await ignite.ask(_NODES))
    servers = (await ignite.ask(_SERVERS))[0][0]
    if not nodes:  # one that keeps nothing on disk has no baseline
        nodes = tuple(Node(f"node {number}", online=True) for number in range(1, servers + 1))
    backups, partitions = (await ignite.ask(_BACKUPS))[0]
    states = {state: count for state, count, _ in await ignite.ask(_STATES)}
    online = sum(node.online for node in nodes)
    leading = (await ignite.ask(_PRIMARY))[0][0]
    owned, wanted = states.get("OWNING", 0), min(backups + 1, online) * partitions
    found = Topology(
        nodes=nodes,
        backups=backups,
        partitions=partitions,
        copies=owned // partitions if partitions else 0,
        # Between a node's coming and the first word of what it lacks, all is said to be owned. But
        # nothing is led by a node before it is up to date.
        rebalancing=states.get("MOVING", 0) > 0 or owned < wanted or leading < online,
        lost=states.get("LOST", 0),
    )
    metrics.NODES.set(online)
    metrics.COPIES.set(found.copies)
    metrics.REBALANCING.set(found.rebalancing)
    return found


async def keeps_on_disk(ignite: IgniteClient) -> tuple[bool, bool]:
    """Return whether Ignite keeps data on disk, and whether they outlive a power cut there."""
    configured: dict[str, Any] = dict(await ignite.ask(_CONFIGURED))
    return configured[_PERSISTENT] == "true", configured[_WAL_MODE] == "FSYNC"
