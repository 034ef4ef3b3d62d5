"""The storage of routing tables, which are records with the name of a node as the key.

Any agent can store the table of any node. Therefore a read that names nodes is sent to all agents.
"""

from collections.abc import Sequence

import msgspec

from mistbow.client.agent_model import Missing
from mistbow.client.record_model import Route, RoutingTable
from mistbow.clock import Clock
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.scatter_gather import ScatterRequest, scatter
from storage_agent.records.bodies import KeyValues, RecordItem, RoutingReadBody
from storage_agent.records.kind import RecordKind
from storage_agent.request_key import RequestKey
from storage_agent.timeseries.point_queries import name_set, parse_time_range


class _TableAtTime(msgspec.Struct, frozen=True):
    timestamp: int
    routes: msgspec.Raw


class _StoredTables(msgspec.Struct, frozen=True):
    node: str
    values: list[_TableAtTime]


class _RoutingAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    routing: list[_StoredTables]
    missing: tuple[Missing, ...] = ()


_ANSWER = msgspec.json.Decoder(_RoutingAnswer)


class RoutingTableStore:
    """Stores routing tables at this agent, and reads the tables of this and other agents."""

    def __init__(
        self, kind: RecordKind, node: str, membership: FabricMembership, clock: Clock
    ) -> None:
        self.kind = kind
        self._node = node
        self._membership = membership
        self._clock = clock

    async def put(self, tables: Sequence[RoutingTable], key: RequestKey | None = None) -> None:
        """Store all given routing tables, or none of them; ``key``: the idempotency key or None."""
        items = [
            RecordItem(
                table.node or self._node,
                msgspec.Raw(msgspec.json.encode(table.routes)),
                self._clock() if table.timestamp is None else table.timestamp,
            )
            for table in tables
        ]
        if items:
            await self.kind.put(items, key, "routing")

    async def put_own(self, routes: list[Route]) -> bool:
        """Store the routing table of this node if the table has changed; return whether it has."""
        before = self.kind.latest.get(self._node)
        if before is not None and before.val == msgspec.json.encode(routes):
            return False
        await self.put([RoutingTable(routes)])
        return True

    async def get(self, body: RoutingReadBody) -> bytes:
        """Return the routing tables that a body selects, as JSON.

        If the body names no nodes, returns the tables that this agent stores.
        """
        if body.nodes is None:
            return msgspec.json.encode(_RoutingAnswer(await self._read(body)))
        alone = msgspec.structs.replace(body, nodes=None)

        async def here() -> bytes:
            return msgspec.json.encode(_RoutingAnswer(await self._read(alone)))

        # Any agent may store the table of any node.
        question = ScatterRequest("/routing/get", msgspec.json.encode(alone), here, _ANSWER.decode)
        answers = await scatter(frozenset(), self._membership, question)
        # The name of a site stands for the node of its agent.
        agents = {site.name: site.node for site in self._membership.fabric().sites}
        names = {agents.get(name, name) for name in name_set(body.nodes)}
        found = [each for part in answers.found for each in part.routing]
        tables = [each for each in found if not names or each.node in names]
        unknown = names - {each.node for each in tables}
        unreachable = tuple(each for each in answers.missing if not names or unknown)
        without_table = (
            Missing(name, "no agent has a routing table of this node")
            for name in sorted(unknown - {each.node for each in unreachable})
        )
        return msgspec.json.encode(_RoutingAnswer(tables, (*unreachable, *without_table)))

    async def _read(self, body: RoutingReadBody) -> list[_StoredTables]:
        times = parse_time_range(body.since, body.until, body.latest)
        if times is None:
            return await self.kind.read_latest(_to_tables, ())
        return await self.kind.read_past(_to_tables, (), *times)


def _to_tables(records: list[KeyValues]) -> list[_StoredTables]:
    return [
        _StoredTables(
            each.key, [_TableAtTime(value.timestamp, value.value) for value in each.values]
        )
        for each in records
    ]
