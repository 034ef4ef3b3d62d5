"""The schemas of application data: registered, kept as events in a stream, checked on write."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jsonschema_rs
import msgspec

from mistbow.clock import Clock
from mistbow.errors import InvalidRequestError, NotFoundError, TooLargeError
from mistbow.streams.events import event_rows, events_of
from mistbow.streams.schemas import EVENTS
from storage_agent.monitoring.bodies import check_depth
from storage_agent.records.bodies import Item, SchemaBody
from storage_agent.streams import reading
from storage_agent.streams.reading import Selection, Selector
from storage_agent.streams.streams import RECORDS, Stream, Streams

STREAM = f"{RECORDS}schemas"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MOST_BYTES = 64 * 2**10
_MOST = 1000
_DEEPEST = 64
"""Two levels of a schema describe one of a value."""
_MOST_TOLD = 300
_GONE = "null"


class Described(msgspec.Struct, frozen=True):
    """A schema as it is answered."""

    name: str
    schema: msgspec.Raw
    indexed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Known:
    told: Described
    validator: jsonschema_rs.Validator


class Schemas:
    """The schemas of this site, by name."""

    def __init__(self, streams: Streams, clock: Clock) -> None:
        self._streams = streams
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._stream: Stream | None = None
        self._lock = asyncio.Lock()

    async def recover(self) -> None:
        """Read what was registered before; to be called once."""
        if STREAM not in [stream.name for stream in self._streams.all()]:
            return
        stream = await self._streams.get(STREAM)
        async for chunk in reading.read(stream.log, Selector(stream, Selection()), 0):
            for _, name, event in events_of(chunk.rows):
                self._learn(name, event)

    def all(self) -> list[Described]:
        """Return them by name."""
        return [known.told for _, known in sorted(self._known.items())]

    def get(self, name: str) -> Described:
        """Return one; raises ``NotFoundError``."""
        if name not in self._known:
            raise NotFoundError(
                f"there is no schema {name}", hint="PUT /app/schemas/{name} makes one."
            )
        return self._known[name].told

    async def put(self, name: str, body: SchemaBody) -> bool:
        """Register a schema in place of one before; returns whether there was none."""
        if not _NAME.fullmatch(name):
            raise InvalidRequestError(
                f"{name!r} is no name for a schema",
                hint="Letters, digits and . _ - only, the first a letter or digit; at most 100.",
            )
        _check(body.schema)
        _validator(body)
        event = msgspec.json.encode(body).decode()
        new = name not in self._known
        if new and len(self._known) >= _MOST:
            raise TooLargeError(f"there are {_MOST} schemas already", hint="DELETE some of them.")
        await self._tell(name, event)
        return new

    async def delete(self, name: str) -> None:
        """Remove a schema; records that name it stay. Raises ``NotFoundError``."""
        self.get(name)
        await self._tell(name, _GONE)

    def check(self, items: Sequence[Item], where: str) -> None:
        """Raise ``InvalidRequestError`` for an item that is not as the schema it names says."""
        for number, item in enumerate(items):
            if item.schema is None:
                continue
            known = self._known.get(item.schema)
            if known is None:
                raise InvalidRequestError(
                    f"{where}[{number}].schema: there is no schema {item.schema}",
                    hint="PUT /app/schemas/{name} makes one.",
                )
            try:
                value = msgspec.json.decode(item.val)
                if known.validator.is_valid(value):
                    continue
                problem = next(known.validator.iter_errors(value))
            except (msgspec.DecodeError, RecursionError, ValueError) as error:
                raise InvalidRequestError(f"{where}[{number}].val: {error}") from error
            steps = problem.instance_path
            path = "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in steps)
            raise InvalidRequestError(
                f"{where}[{number}].val{path}: {problem.message[:_MOST_TOLD]}",
                hint=f"GET /app/schemas/{item.schema} shows what it should be.",
            )

    async def _tell(self, name: str, event: str) -> None:
        async with self._lock:
            if self._stream is None:
                await self._streams.create(STREAM, EVENTS)
                self._stream = await self._streams.get(STREAM)
            await self._stream.writer.append(
                event_rows(self._clock(), {name: event}), epoch=self._stream.log.epoch
            )
            self._learn(name, event)

    def _learn(self, name: str, event: str) -> None:
        if event == _GONE:
            self._known.pop(name, None)
            return
        body = msgspec.json.decode(event, type=SchemaBody)
        told = Described(name, body.schema, body.indexed)
        self._known[name] = _Known(told, _validator(body))


def _check(schema: msgspec.Raw) -> None:
    """Refuse what would be a schema, but can be neither kept nor read where the stack is short."""
    if len(schema) > _MOST_BYTES:
        raise TooLargeError(
            f"schema: it takes more than {_MOST_BYTES} bytes", hint="Split it into several."
        )
    try:
        text = str(schema, "utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequestError("schema: it is not valid UTF-8") from error
    check_depth(text, "schema", _DEEPEST)


def _validator(body: SchemaBody) -> jsonschema_rs.Validator:
    try:
        schema: Any = msgspec.json.decode(body.schema)
        return jsonschema_rs.validator_for(
            schema,
            # Whoever registers a schema shall not make this agent fetch anything, nor have its
            # patterns take longer than the text that they look at.
            offline=True,
            pattern_options=jsonschema_rs.RegexOptions(),
        )
    except (ValueError, jsonschema_rs.ReferencingError, RecursionError) as error:
        what = getattr(error, "message", str(error))
        raise InvalidRequestError(
            f"schema: it is no JSON Schema that can be used here: {what[:_MOST_TOLD]}",
            hint="Its references must be within it; patterns have no look-around.",
        ) from error
