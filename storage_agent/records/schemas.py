"""The JSON Schemas of application data, which are stored as events in a stream.

When records are put, the value of each record that names a schema is validated.
"""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import jsonschema_rs
import msgspec
import pyarrow as pa

from mistbow.clock import Clock
from mistbow.errors import InvalidRequestError, NotFoundError, TooLargeError
from mistbow.streams.events import REMOVED, event_rows, events_of
from mistbow.streams.schemas import EVENTS
from storage_agent.http.decode import MAX_DEPTH, check_depth, decode_beside
from storage_agent.records.bodies import RecordItem, SchemaBody
from storage_agent.records.schema_cost import check_cost
from storage_agent.streams import subscription
from storage_agent.streams.consumer import SegmentConsumer
from storage_agent.streams.index import IndexEntry
from storage_agent.streams.segments import Segment
from storage_agent.streams.streams import RECORD_PREFIX, Stream, Streams
from storage_agent.streams.subscription import RowSelection, RowSelector

STREAM = f"{RECORD_PREFIX}schemas"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MAX_SCHEMA_BYTES = 64 * 2**10
_MAX_SCHEMAS = 1000
_MAX_DEPTH = 64
"""The maximum nesting of a schema; two levels of a schema describe one level of a value."""
_MAX_PROBLEM_LENGTH = 300
_VAL, _SCHEMA = attrgetter("val"), attrgetter("schema")
_PART = 200
"""The number of records that are checked before other bodies may be decoded."""

_ITEM_BYTES = 512
"""The number of bytes that take as long to validate as a small value with a costly schema."""


class SchemaDescription(msgspec.Struct, frozen=True):
    """A schema in a response; ``indexed``: the names of the indexed fields."""

    name: str
    schema: msgspec.Raw
    indexed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _RegisteredSchema:
    description: SchemaDescription
    validator: jsonschema_rs.Validator


class Schemas:
    """The registered schemas of this site.

    ``on_change``: called with the name of each schema that is registered, replaced or removed.
    """

    def __init__(self, streams: Streams, clock: Clock, on_change: Callable[[str], None]) -> None:
        self._streams = streams
        self._clock = clock
        self._on_change = on_change
        self._schemas: dict[str, _RegisteredSchema] = {}
        self._stream: Stream | None = None
        self._lock = asyncio.Lock()

    async def recover(self) -> None:
        """Read the registered schemas from the stream; call this once, before the other methods."""
        if STREAM not in [stream.name for stream in self._streams.all()]:
            return
        stream = await self._open()
        async for chunk in subscription.read(stream.log, RowSelector(stream, RowSelection()), 0):
            self._apply(chunk.rows)

    def all(self) -> list[SchemaDescription]:
        """Return all schemas, sorted by name."""
        return [schema.description for _, schema in sorted(self._schemas.items())]

    def get(self, name: str) -> SchemaDescription:
        """Return the schema ``name``; raises ``NotFoundError`` if there is no such schema."""
        if name not in self._schemas:
            raise NotFoundError(
                f"there is no schema {name}", hint="PUT /app/schemas/{name} registers one."
            )
        return self._schemas[name].description

    async def put(self, name: str, body: SchemaBody) -> bool:
        """Register or replace a schema; return whether the name is new.

        Raises ``InvalidRequestError`` for an invalid name or schema, and ``TooLargeError`` for a
        schema that is too large, or if there are too many schemas.
        """
        if not _NAME.fullmatch(name):
            raise InvalidRequestError(
                f"{name!r} is not a valid name of a schema",
                hint="Begin with a letter or digit; use 1 to 100 letters, digits, '.', '_', '-'.",
            )
        _check_text(body.schema)
        await asyncio.to_thread(_check_schema, body)
        event = msgspec.json.encode(body).decode()
        is_new = name not in self._schemas
        if is_new and len(self._schemas) >= _MAX_SCHEMAS:
            raise TooLargeError(
                f"the maximum of {_MAX_SCHEMAS} schemas is reached",
                hint="DELETE /app/schemas/NAME deletes a schema that is no longer needed.",
            )
        await self._append(name, event)
        return is_new

    async def delete(self, name: str) -> None:
        """Remove a schema, but not the records that name the schema.

        Raises ``NotFoundError`` if there is no such schema.
        """
        self.get(name)
        await self._append(name, REMOVED)

    async def check(self, items: Sequence[RecordItem], where: str) -> None:
        """Raise ``InvalidRequestError`` if an item names a schema and does not match the schema.

        ``where``: the name of the list of items, for the message.
        """
        if set(map(_SCHEMA, items)) <= {None}:
            return
        # A copy, since schemas may change while a thread reads it.
        schemas = self._schemas.copy()
        # In parts: other bodies wait for the same thread.
        for begin in range(0, len(items), _PART):
            part = items[begin : begin + _PART]
            size = sum(map(len, map(_VAL, part))) + _ITEM_BYTES * len(part)
            await decode_beside(size, partial(_check, part, begin, where, schemas))

    async def _append(self, name: str, event: str) -> None:
        async with self._lock:
            if self._stream is None:
                await self._streams.create(STREAM, EVENTS)
            stream = self._stream or await self._open()
            rows = event_rows(self._clock(), {name: event})
            await stream.writer.append(rows, epoch=stream.log.epoch)

    async def _open(self) -> Stream:
        self._stream = await self._streams.get(STREAM)
        self._stream.log.attach(SegmentConsumer(self._follow))
        return self._stream

    async def _follow(self, segment: Segment, _: IndexEntry) -> None:
        self._apply(segment.rows)

    def _apply(self, rows: pa.RecordBatch) -> None:
        for _, name, event in events_of(rows):
            self._on_change(name)
            if event == REMOVED:
                self._schemas.pop(name, None)
                continue
            body = msgspec.json.decode(event, type=SchemaBody)
            description = SchemaDescription(name, body.schema, body.indexed)
            self._schemas[name] = _RegisteredSchema(description, _validator(body))


def _check(
    items: Sequence[RecordItem],
    begin: int,
    where: str,
    schemas: Mapping[str, _RegisteredSchema],
) -> None:
    for number, item in enumerate(items, begin):
        if item.schema is None:
            continue
        registered = schemas.get(item.schema)
        if registered is None:
            raise InvalidRequestError(
                f"{where}[{number}].schema: there is no schema {item.schema}",
                hint="PUT /app/schemas/{name} registers one.",
            )
        try:
            value = msgspec.json.decode(item.val)
            # Ends at the first problem: all problems of a body could exhaust the memory.
            registered.validator.validate(value)
            continue
        except jsonschema_rs.ValidationError as error:
            problem = error
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            raise InvalidRequestError(f"{where}[{number}].val: {error}") from error
        steps = problem.instance_path
        path = "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in steps)
        raise InvalidRequestError(
            f"{where}[{number}].val{path}: {problem.message[:_MAX_PROBLEM_LENGTH]}",
            hint=f"GET /app/schemas/{item.schema} shows the schema.",
        )


def _check_text(schema: msgspec.Raw) -> None:
    """Raise an error if the text of a schema is invalid.

    The error is ``TooLargeError`` if the text is too large, and ``InvalidRequestError`` if it is
    not UTF-8 or is nested too deeply.
    """
    if len(schema) > _MAX_SCHEMA_BYTES:
        raise TooLargeError(
            f"schema: the text takes {len(schema)} bytes, and at most "
            f"{_MAX_SCHEMA_BYTES} are allowed",
            hint="Divide the schema into several schemas.",
        )
    try:
        text = str(schema, "utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequestError("schema: the text is not valid UTF-8") from error
    check_depth(text, "schema", _MAX_DEPTH)


def _check_schema(body: SchemaBody) -> None:
    """Raise ``InvalidRequestError`` if a schema is invalid, or too expensive to validate with."""
    _validator(body)
    try:
        check_cost(msgspec.json.decode(body.schema), MAX_DEPTH)
    except (RecursionError, ValueError) as error:
        raise InvalidRequestError(
            "schema: its references form a chain that is too long",
            hint="Let references name their definitions directly.",
        ) from error


def _validator(body: SchemaBody) -> jsonschema_rs.Validator:
    try:
        schema: Any = msgspec.json.decode(body.schema)
        return jsonschema_rs.validator_for(
            schema,
            # A schema must not make this agent fetch anything, and patterns must take linear time.
            offline=True,
            pattern_options=jsonschema_rs.RegexOptions(),
        )
    except (ValueError, jsonschema_rs.ReferencingError, RecursionError) as error:
        problem = getattr(error, "message", str(error))
        raise InvalidRequestError(
            f"schema: the value is not a usable JSON Schema: {problem[:_MAX_PROBLEM_LENGTH]}",
            hint="References must stay within the schema, and patterns have no look-around.",
        ) from error
