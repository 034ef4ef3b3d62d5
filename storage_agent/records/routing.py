"""Routing tables: a record a node, put by whoever knows it, read at any agent for any node."""

from collections.abc import Sequence

import msgspec

from mistbow.clock import Clock
from storage_agent.fabric.gathering import Missing, Question, ask
from storage_agent.fabric.member import Member
from storage_agent.monitoring.extraction import choice_of, times_between
from storage_agent.records.bodies import (
    Item,
    KeyValues,
    Route,
    RoutingReadBody,
    Table,
)
from storage_agent.records.kind import Kind


class _Tables(msgspec.Struct, frozen=True):
    timestamp: int
    routes: msgspec.Raw


class _Node(msgspec.Struct, frozen=True):
    node: str
    values: list[_Tables]


class _Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    routing: list[_Node]
    missing: tuple[Missing, ...] = ()


_ANSWER = msgspec.json.Decoder(_Answer)


class Routing:
    """The tables that this agent keeps, and the way to those of others."""

    def __init__(self, kind: Kind, node: str, member: Member, clock: Clock) -> None:
        self.kind = kind
        self._node = node
        self._member = member
        self._clock = clock

    async def put(self, tables: Sequence[Table], key: str | None = None) -> None:
        """Store tables, all or none."""
        items = [
            Item(
                table.node or self._node,
                msgspec.Raw(msgspec.json.encode(table.routes)),
                self._clock() if table.timestamp is None else table.timestamp,
            )
            for table in tables
        ]
        if items:
            await self.kind.put(items, key, "routing")

    async def put_own(self, routes: list[Route]) -> bool:
        """Store this node's table unless the last one was the same; returns whether it did."""
        known = self.kind.latest.get(self._node)
        if known is not None and known.val == msgspec.json.encode(routes):
            return False
        await self.put([Table(routes)])
        return True

    async def get(self, body: RoutingReadBody) -> bytes:
        """Return the tables that a body asks for, as JSON: without ``nodes``, all that are here."""
        if body.nodes is None:
            return msgspec.json.encode(_Answer(await self._read(body)))
        alone = msgspec.structs.replace(body, nodes=None)

        async def here() -> bytes:
            return msgspec.json.encode(_Answer(await self._read(alone)))

        # Any site may have been told of any node.
        question = Question("/routing/get", msgspec.json.encode(alone), here, _ANSWER.decode)
        answers = await ask(frozenset(), self._member, question)
        # A site's name stands for its agent's node.
        agents = {site.name: site.node for site in self._member.fabric().sites}
        names = {agents.get(name, name) for name in choice_of(body.nodes)}
        told = [each for part in answers.found for each in part.routing]
        tables = [each for each in told if not names or each.node in names]
        unknown = names - {each.node for each in tables}
        away = tuple(each for each in answers.missing if not names or unknown)
        nobody = (
            Missing(name, "no node of this name has told its routing table")
            for name in sorted(unknown - {each.node for each in away})
        )
        return msgspec.json.encode(_Answer(tables, (*away, *nobody)))

    async def _read(self, body: RoutingReadBody) -> list[_Node]:
        times = times_between(body.since, body.until, body.latest)
        if times is None:
            read: list[KeyValues] = self.kind.read_latest(())
        else:
            read = await self.kind.read_past((), *times)
        return [
            _Node(each.key, [_Tables(value.timestamp, value.val) for value in each.values])
            for each in read
        ]
