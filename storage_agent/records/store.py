"""The store of an agent's records: analytics, application data, schemas, and routing tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from mistbow.clock import Clock
from mistbow.errors import InvalidRequestError, NotFoundError, TooLargeError, UnavailableError
from mistbow.runtime.collection import release
from mistbow.runtime.periodic import PeriodicTask, Schedule
from storage_agent.http.deletions import check_deletion_scope
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.scatter_gather import ScatterAnswers, ScatterRequest, scatter
from storage_agent.records.bodies import (
    KeyValues,
    RecordDeleteBody,
    RecordItem,
    RecordQueryBody,
    RecordReadBody,
    SchemaBody,
)
from storage_agent.records.collector import collect_routes
from storage_agent.records.kind import RecordKind
from storage_agent.records.query import RecordQuery
from storage_agent.records.routing import RoutingTableStore
from storage_agent.records.schemas import Schemas
from storage_agent.request_key import RequestKey
from storage_agent.settings import AgentSettings
from storage_agent.streams.streams import Streams
from storage_agent.timeseries.point_queries import name_set, parse_time_range
from storage_agent.work_threads import in_thread_if_many

_EXPIRY_INTERVAL_S = 5.0
_KINDS = ("analytics", "application")

_RecordsByKind = dict[str, list[KeyValues]]
_RECORDS_BY_KIND = msgspec.json.Decoder(_RecordsByKind)


@dataclass(frozen=True, slots=True)
class _OpenStore:
    kinds: dict[str, RecordKind]
    schemas: Schemas
    routing: RoutingTableStore
    tasks: tuple[PeriodicTask, ...]


class RecordStore:
    """Stores records of all kinds; calls before ``open`` raise ``UnavailableError``."""

    def __init__(self, settings: AgentSettings, membership: FabricMembership, clock: Clock) -> None:
        self._settings = settings
        self._membership = membership
        self._clock = clock
        self._opened: _OpenStore | None = None

    async def open(self, streams: Streams) -> None:
        """Read the stored records, and start the tasks that expire records and collect routes."""
        kinds = {name: RecordKind(name, streams) for name in _KINDS}
        schemas = Schemas(streams, self._clock, kinds["application"].latest.drop_indexes)
        routing = RoutingTableStore(
            RecordKind("routing", streams), self._settings.node, self._membership, self._clock
        )
        await schemas.recover()
        for kind in (*kinds.values(), routing.kind):
            await kind.recover()
        tasks = [_expiry(kind) for kind in (*kinds.values(), routing.kind)]
        if self._settings.collect_routes:
            tasks.append(collect_routes(routing))
        for task in tasks:
            task.start()
        self._opened = _OpenStore(kinds, schemas, routing, tuple(tasks))

    async def close(self) -> None:
        """Stop the tasks that expire records and collect routes."""
        if self._opened is not None:
            for task in self._opened.tasks:
                await task.close()

    @property
    def schemas(self) -> Schemas:
        """The schemas of application data."""
        return self._ready().schemas

    @property
    def routing(self) -> RoutingTableStore:
        """The store of routing tables."""
        return self._ready().routing

    async def register(self, name: str, body: SchemaBody) -> bool:
        """Register or replace a schema; return whether the name is new.

        ``Schemas.put`` describes the errors.
        """
        return await self._ready().schemas.put(name, body)

    async def unregister(self, name: str) -> None:
        """Remove a schema; raises ``NotFoundError`` if there is no such schema."""
        await self._ready().schemas.delete(name)

    async def put(
        self, kind_name: str, items: Sequence[RecordItem], key: RequestKey | None
    ) -> None:
        """Store all given records of a kind, or none of them.

        ``key``: the idempotency key, or None. Raises ``InvalidRequestError`` for an invalid record,
        and ``TooLargeError`` for too many records.
        """
        ready = self._ready()
        limit = self._settings.max_points
        if len(items) > limit:
            raise TooLargeError(
                f"the body has {len(items)} records, and at most {limit} are allowed",
                hint="Send fewer records per request.",
            )
        await ready.schemas.check(items, kind_name)
        if items:
            await ready.kinds[kind_name].put(items, key, kind_name)

    async def delete(self, kind_name: str, body: RecordDeleteBody) -> None:
        """Delete the records of a kind that a body selects.

        Raises ``InvalidRequestError`` if the body is invalid, for example if it has no key.
        """
        check_deletion_scope(body.nodes, body.latest)
        keys = name_set(body.key)
        if not keys:
            raise InvalidRequestError(
                "key: a deletion needs at least one key", hint='For example {"key": ["load"]}.'
            )
        times = parse_time_range(body.since, body.until, None)
        await self._ready().kinds[kind_name].delete(keys, *(times or (None, None)))

    async def get(self, kind_name: str, body: RecordReadBody) -> bytes:
        """Return the JSON answer with the records of a kind that a body selects."""
        if body.nodes is None:
            return await self._read(kind_name, body)
        local_body = msgspec.structs.replace(body, nodes=None)
        path = "/analytics/get" if kind_name == "analytics" else "/app/get"

        async def here() -> bytes:
            return await self.get(kind_name, local_body)

        request = ScatterRequest(
            path, msgspec.json.encode(local_body), here, _RECORDS_BY_KIND.decode
        )
        latest = parse_time_range(body.since, body.until, body.latest) is None
        return await self._scatter(kind_name, body.nodes, request, latest, body.limit)

    async def query(self, body: RecordQueryBody) -> bytes:
        """Return the JSON answer with the latest application records that a body selects.

        Raises ``NotFoundError`` if the schema does not exist.
        """
        if body.nodes is None:
            ready = self._ready()
            query = RecordQuery.of(body, ready.schemas.get(body.schema).indexed)
            await ready.kinds["application"].settle_deletions()
            latest = ready.kinds["application"].latest
            return await query.run(partial(_encode, "application"), latest)
        RecordQuery.of(body, ())  # reject an invalid query before it is sent on
        local_body = msgspec.structs.replace(body, nodes=None)

        async def here() -> bytes:
            return await self.query(local_body)

        content = msgspec.json.encode(local_body)
        request = ScatterRequest(
            "/app/query", content, here, _RECORDS_BY_KIND.decode, allow_not_found=True
        )
        return await self._scatter("application", body.nodes, request, True, body.limit)

    async def _read(self, kind_name: str, body: RecordReadBody) -> bytes:
        kind = self._ready().kinds[kind_name]
        encode = partial(_encode, kind_name)
        keys = name_set(body.key)
        times = parse_time_range(body.since, body.until, body.latest)
        if times is None:
            return await kind.read_latest(encode, keys, body.start or "", body.limit)
        return await kind.read_past(encode, keys, *times, body.start or "", body.limit)

    async def _scatter(
        self,
        kind_name: str,
        nodes: frozenset[str] | str | None,
        request: ScatterRequest[_RecordsByKind],
        latest: bool,
        limit: int | None,
    ) -> bytes:
        answers = await scatter(name_set(nodes), self._membership, request)
        if answers.not_found and not answers.found:
            raise _not_found(answers)
        parts = [part.get(kind_name, []) for part in answers.found]
        missing = {"missing": answers.missing} if answers.missing else {}
        return await in_thread_if_many(
            sum(map(len, parts)),
            lambda: msgspec.json.encode(
                {kind_name: merge_records(parts, latest)[:limit], **missing}
            ),
        )

    def _ready(self) -> _OpenStore:
        if self._opened is None:
            raise UnavailableError(
                "the agent is starting", hint="/readyz reports what it waits for."
            )
        return self._opened


def _encode(kind_name: str, records: list[KeyValues]) -> bytes:
    """Return the JSON answer with records, and release the records in the same thread."""
    answer = msgspec.json.encode({kind_name: records})
    release(records)
    return answer


def _expiry(kind: RecordKind) -> PeriodicTask:
    schedule = Schedule("record_expiry", _EXPIRY_INTERVAL_S, fields={"kind": kind.name})
    return PeriodicTask(kind.expire, schedule)


def _not_found(answers: ScatterAnswers[_RecordsByKind]) -> NotFoundError:
    """Return the error for a query whose schema exists at none of the nodes that answered."""
    first = answers.not_found[0]
    details = {"missing": msgspec.to_builtins(answers.missing)} if answers.missing else None
    return NotFoundError(first.message, hint=first.hint, details=details)


def merge_records(parts: Sequence[list[KeyValues]], latest: bool) -> list[KeyValues]:
    """Merge the records of several nodes; return the records sorted by key and time.

    ``latest``: True to return only the latest record of each key.
    """
    by_key: dict[str, list[KeyValues]] = {}
    for part in parts:
        for each in part:
            by_key.setdefault(each.key, []).append(each)
    answer = []
    for key in sorted(by_key):
        values = [value for each in by_key[key] for value in each.values]
        values.sort(key=lambda value: value.timestamp)
        answer.append(KeyValues(key, values[-1:] if latest else values))
    return answer
