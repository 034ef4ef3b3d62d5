"""Everything that an agent keeps by key: records of analytics and applications, and schemas."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from mistbow.clock import Clock
from mistbow.errors import InvalidRequestError, NotFoundError, TooLargeError, UnavailableError
from mistbow.settings import AgentSettings
from mistbow.tasks import end
from mistbow.telemetry import get_logger
from storage_agent.fabric.gathering import Answers, Missing, Question, ask
from storage_agent.fabric.member import Member
from storage_agent.monitoring.bodies import check_deletion_bounds
from storage_agent.monitoring.extraction import choice_of, times_between
from storage_agent.records import collector
from storage_agent.records.bodies import (
    DeleteBody,
    Item,
    KeyValues,
    QueryBody,
    ReadBody,
    SchemaBody,
)
from storage_agent.records.kind import Kind
from storage_agent.records.query import Query
from storage_agent.records.routing import Routing
from storage_agent.records.schemas import Schemas
from storage_agent.streams.streams import Streams

log = get_logger(__name__)

_LOOK_S = 5.0
_KINDS = ("analytics", "application")

_Parts = dict[str, list[KeyValues]]
_PARTS = msgspec.json.Decoder(_Parts)


@dataclass(frozen=True, slots=True)
class _Open:
    kinds: dict[str, Kind]
    schemas: Schemas
    routing: Routing
    tasks: tuple[asyncio.Task[None], ...]


class RecordStore:
    """Raises ``UnavailableError`` before it is open."""

    def __init__(self, settings: AgentSettings, member: Member, clock: Clock) -> None:
        self._settings = settings
        self._member = member
        self._clock = clock
        self._opened: _Open | None = None

    async def open(self, streams: Streams) -> None:
        """Recover what was put before, and begin to collect this host's routes."""
        kinds = {name: Kind(name, streams) for name in _KINDS}
        schemas = Schemas(streams, self._clock)
        routing = Routing(Kind("routing", streams), self._settings.node, self._member, self._clock)
        await schemas.recover()
        for kind in (*kinds.values(), routing.kind):
            await kind.recover()
        tasks = [_keep((*kinds.values(), routing.kind))]
        if self._settings.collect_routes:
            tasks.append(collector.collect(routing))
        running = tuple(asyncio.create_task(task, name="records") for task in tasks)
        self._opened = _Open(kinds, schemas, routing, running)

    async def close(self) -> None:
        """Stop keeping things in order and collecting."""
        if self._opened is not None:
            await end(self._opened.tasks)

    @property
    def schemas(self) -> Schemas:
        """The schemas of application data."""
        return self._ready().schemas

    @property
    def routing(self) -> Routing:
        """The routing tables."""
        return self._ready().routing

    async def register(self, name: str, body: SchemaBody) -> bool:
        """Register a schema in place of one before; returns whether there was none."""
        ready = self._ready()
        made = await ready.schemas.put(name, body)
        ready.kinds["application"].latest.forget_indexes(name)
        return made

    async def unregister(self, name: str) -> None:
        """Remove a schema; raises ``NotFoundError``."""
        ready = self._ready()
        await ready.schemas.delete(name)
        ready.kinds["application"].latest.forget_indexes(name)

    async def put(self, word: str, items: Sequence[Item], key: str | None) -> None:
        """Store the records of one kind, all or none."""
        ready = self._ready()
        most = self._settings.max_points
        if len(items) > most:
            raise TooLargeError(
                f"the body has more than {most} records", hint="Send fewer at once."
            )
        ready.schemas.check(items, word)
        if items:
            await ready.kinds[word].put(items, key, word)

    async def delete(self, word: str, body: DeleteBody) -> None:
        """Delete the records of one kind that a body names; raises ``InvalidRequestError``."""
        check_deletion_bounds(body.nodes, body.latest)
        keys = choice_of(body.key)
        if not keys:
            raise InvalidRequestError("key: it names nothing", hint='Say which: {"key": ["load"]}.')
        times = times_between(body.since, body.until, None)
        await self._ready().kinds[word].delete(keys, *(times or (None, None)))

    async def get(self, word: str, body: ReadBody) -> bytes:
        """Return the records of one kind that a body asks for, as JSON."""
        if body.nodes is None:
            return msgspec.json.encode({word: await self._read(word, body)})
        alone = msgspec.structs.replace(body, nodes=None)
        path = "/analytics/get" if word == "analytics" else "/app/get"

        async def here() -> bytes:
            return await self.get(word, alone)

        question = Question(path, msgspec.json.encode(alone), here, _PARTS.decode)
        latest = times_between(body.since, body.until, body.latest) is None
        return await self._gathered(word, body.nodes, question, latest, body.limit)

    async def query(self, body: QueryBody) -> bytes:
        """Return the latest records of applications that are as a body says, as JSON."""
        if body.nodes is None:
            ready = self._ready()
            query = Query.of(body, ready.schemas.get(body.schema).indexed)
            return msgspec.json.encode(
                {"application": await query.run(ready.kinds["application"].latest)}
            )
        Query.of(body, ())  # only what can be asked is sent on
        alone = msgspec.structs.replace(body, nodes=None)

        async def here() -> bytes:
            return await self.query(alone)

        content = msgspec.json.encode(alone)
        question = Question("/app/query", content, here, _PARTS.decode, may_lack=True)
        return await self._gathered("application", body.nodes, question, True, body.limit)

    async def _read(self, word: str, body: ReadBody) -> list[KeyValues]:
        kind = self._ready().kinds[word]
        keys = choice_of(body.key)
        times = times_between(body.since, body.until, body.latest)
        if times is None:
            return kind.read_latest(keys, body.start or "", body.limit)
        return await kind.read_past(keys, *times, body.start or "", body.limit)

    async def _gathered(
        self,
        word: str,
        nodes: frozenset[str] | str | None,
        question: Question[_Parts],
        latest: bool,
        limit: int | None,
    ) -> bytes:
        answers = await ask(nodes, self._member, question)
        if answers.lacking and not answers.found:
            raise _nowhere(answers)
        parts = [part.get(word, []) for part in answers.found]
        answer: dict[str, list[KeyValues] | tuple[Missing, ...]] = {
            word: merged(parts, latest)[:limit]
        }
        if answers.missing:
            answer["missing"] = answers.missing
        return msgspec.json.encode(answer)

    def _ready(self) -> _Open:
        if self._opened is None:
            raise UnavailableError("the agent is starting", hint="/readyz says what it waits for.")
        return self._opened


async def _keep(kinds: Sequence[Kind]) -> None:
    """Forget what has expired, for ever."""
    while True:
        await asyncio.sleep(_LOOK_S)
        for kind in kinds:
            try:
                await kind.expire()
            except UnavailableError:
                continue  # the client of Ignite has told
            except Exception as error:
                log.error("records not kept in order", kind=kind.name, exc_info=error)


def _nowhere(answers: Answers[_Parts]) -> NotFoundError:
    """Return the error where nobody who answered knows what was asked about."""
    first = answers.lacking[0]
    details = {"missing": msgspec.to_builtins(answers.missing)} if answers.missing else None
    return NotFoundError(first.message, hint=first.hint, details=details)


def merged(parts: Sequence[list[KeyValues]], latest: bool) -> list[KeyValues]:
    """Return what several nodes have of each key, by time; with ``latest`` only the last of it."""
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
