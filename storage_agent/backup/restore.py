"""Restores a backup to an Ignite without data, while no agent runs.

Each part becomes a run with its positions, so rows are late or not as before. No position after the
cut is used again: a stream continues ``GAP`` positions later. Rows that were stored after the cut,
and that other sites have read, therefore never get the position of another row. The facts of the
site are stored again there, so that other sites read them again.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa

from mistbow.clock import Clock
from mistbow.errors import ConflictError, UnavailableError
from mistbow.streams.events import event_rows
from mistbow.streams.schemas import METADATA as METADATA_STREAM
from mistbow.streams.schemas import RAW
from storage_agent.backup.archive import Archive, BackupContents, BackupStream, PartFile
from storage_agent.backup.copy import Report
from storage_agent.backup.parts import Part, decode_part
from storage_agent.ignite.client import METADATA, IgniteClient
from storage_agent.ignite.keys import CONFIG_KEY, RESTORED_SITE_KEY, RESTORING_KEY
from storage_agent.ignite.text_cell import TextCell
from storage_agent.membership.facts import Facts, apply_events
from storage_agent.membership.journal import fact_batches
from storage_agent.streams import runs
from storage_agent.streams.index import time_range
from storage_agent.streams.manifest import Manifest, manifest_key
from storage_agent.streams.runs import Run
from storage_agent.streams.segment_store import FUTURE_POINTS, SEGMENT_TABLE, SegmentStore
from storage_agent.streams.segments import Segment, SegmentHeader, empty_batch, encode_segment
from storage_agent.streams.state import State, state_key
from storage_agent.streams.stream_record import (
    STREAM_PREFIX,
    StreamRecord,
    encode_record,
    log_key,
)

GAP = 2**40
"""The number of positions between the cut and the first position after the restoration."""

_EPOCH_STEP = 2**20
"""The number by which epochs rise, so that no writer from before has an epoch of a later writer."""

_RETRY_S = 30.0
_MAX_SERIES = 1000
_MAX_SERIES_BYTES = 2**20
"""The size of series' metadata (bytes) that one segment exceeds only by its last series."""


async def restore(
    archive: Archive, ignite: IgniteClient, clock: Clock, report: Report = lambda _: None
) -> BackupContents:
    """Restore a backup to an Ignite without streams, and return the contents of the backup.

    After an error, the function may be called again; until it succeeds, no agent starts with this
    Ignite. Raises ``ConflictError`` if Ignite has streams, and ``MistbowError`` if a file of the
    backup is damaged: nothing is stored if the contents are damaged, or a file is missing.
    """
    contents = archive.contents()
    archive.check_files(contents)
    await _begin(ignite, contents)
    restoration = _Restoration(archive, ignite, clock, contents)
    for stream in contents.streams:
        await restoration.restore(stream)
        report(stream.cut.name)
    if contents.configuration:
        text = msgspec.json.encode(contents.configuration, order="deterministic").decode()
        await _store_text(ignite, CONFIG_KEY, text)
    await _store_text(ignite, RESTORED_SITE_KEY, contents.site)
    await ignite.retry(lambda: ignite.remove_all(METADATA, [RESTORING_KEY]), _RETRY_S)
    return contents


async def _begin(ignite: IgniteClient, contents: BackupContents) -> None:
    stored = await ignite.scan(METADATA)
    names = [key for key in stored if key.startswith(STREAM_PREFIX)]
    if names and RESTORING_KEY not in stored:
        raise ConflictError(
            f"Ignite at {ignite.name} has {len(names)} streams; a backup is restored only to an "
            f"empty site",
            hint="Choose another --home, or move the folder ignite/ of this one away.",
        )
    if stored.get(RESTORING_KEY, contents.id) != contents.id:
        raise ConflictError(
            f"the restoration of another backup, {stored[RESTORING_KEY]}, was interrupted here",
            hint="Restore that backup, or move the folder ignite/ away.",
        )
    await _store_text(ignite, RESTORING_KEY, contents.id)


class _Restoration:
    """Stores the streams of one backup."""

    def __init__(
        self, archive: Archive, ignite: IgniteClient, clock: Clock, contents: BackupContents
    ) -> None:
        self._archive = archive
        self._ignite = ignite
        self._store = SegmentStore(ignite)
        self._clock = clock
        self._contents = contents

    async def restore(self, stream: BackupStream) -> None:
        """Store a stream: its rows, then its manifest and its state, and at last its record."""
        cut = stream.cut
        record = StreamRecord(cut.schema, cut.incarnation)
        log = _Log(stream, log_key(cut.name, cut.incarnation), stream.schema())
        # Compaction retains the last event of each fact only, so only these are stored again.
        built = () if cut.name == METADATA_STREAM else await self._runs(log)
        # Rows before the cut that were evicted during the backup leave a gap, too.
        begin = built[-1].next if built else cut.head
        tail = _Tail(log, begin, self._contents.id, self._clock())
        for segment in self._segments(log, tail):
            data = encode_segment(segment)
            await self._retry(partial(self._store.put, segment, data))
        manifest = Manifest(
            first=built[0].first if built else cut.head,
            runs=tuple(built),
            tombstones=tuple(stream.tombstones()),
            last_tombstone=stream.deletions.last,
        )
        attributes = cut.attributes
        state = State(epoch=log.epoch, frontier=cut.frontier, attributes=attributes)
        await _store_text(self._ignite, manifest_key(log.key), _json(manifest))
        await _store_text(self._ignite, state_key(log.key), _json(state))
        await _store_text(self._ignite, STREAM_PREFIX + cut.name, encode_record(record))

    async def _runs(self, log: "_Log") -> Sequence[Run]:
        return [await self._run(log, file) for file in log.stream.parts]

    async def _run(self, log: "_Log", file: PartFile) -> Run:
        part = decode_part(self._archive.read(file))
        header = part.header
        name = f"{header.first}-{header.next}-{self._contents.id[:8]}"
        values = list(_values(part, log.schema))
        for key, data in values:
            await self._retry(partial(self._store.put_run_value, log.key, name, key, data))
        min_ts, max_ts = time_range(part.rows)
        future_min_ts, future_max_ts = time_range(part.future_points)
        return Run(
            id=name,
            level=header.level,
            first=header.first,
            count=header.count,
            rows=part.rows.num_rows,
            late=header.late,
            min_ts=min_ts,
            max_ts=max_ts,
            frontier=header.frontier,
            oldest=header.oldest,
            created=header.created,
            future_min_ts=future_min_ts,
            future_max_ts=future_max_ts,
            blocks=_block_count(part, log.schema),
            segments=len(runs.decode_segment_table(header.segments)[0]),
            bytes=sum(len(data) for _, data in values),
            epoch=header.epoch,
            released=log.stream.cut.released,
            last_tombstone=header.last_tombstone,
        )

    def _segments(self, log: "_Log", tail: "_Tail") -> Iterator[Segment]:
        yield tail.next(count=log.stream.cut.head + GAP - tail.position)
        if log.stream.cut.name == METADATA_STREAM:
            for events in fact_batches(self._facts(log)):
                yield tail.next(event_rows(self._clock(), events))
        if log.stream.cut.name == RAW:
            for series in self._series():
                yield tail.next(series=series)

    def _facts(self, log: "_Log") -> Iterator[tuple[str, str]]:
        facts = Facts()
        for file in log.stream.parts:
            apply_events(facts, decode_part(self._archive.read(file)).rows)
        yield from facts.items()

    def _series(self) -> Iterator[list[dict[str, Any]]]:
        """Yield the metadata of the series, in lists of bounded size."""
        found: list[dict[str, Any]] = []
        size = 0
        for line in self._archive.read(self._contents.series).splitlines():
            found.append(msgspec.json.decode(line))
            size += len(line)
            if len(found) == _MAX_SERIES or size > _MAX_SERIES_BYTES:
                yield found
                found, size = [], 0
        if found:
            yield found

    async def _retry(self, operation: Callable[[], Awaitable[Any]]) -> None:
        await self._ignite.retry(operation, _RETRY_S)


class _Log:
    """A stream to restore, with the key of its log and its schema."""

    def __init__(self, stream: BackupStream, key: str, schema: pa.Schema) -> None:
        self.stream = stream
        self.key = key
        self.schema = schema
        # A stream that was never claimed stays so.
        self.epoch = stream.cut.epoch and stream.cut.epoch + _EPOCH_STEP


class _Tail:
    """Makes the segments that follow the restored runs of a stream, from ``position`` on."""

    def __init__(self, log: _Log, position: int, backup: str, created: int) -> None:
        self.position = position
        self._log = log
        self._backup = backup
        self._created = created

    def next(
        self,
        rows: pa.RecordBatch | None = None,
        count: int = 1,
        series: Sequence[dict[str, Any]] = (),
    ) -> Segment:
        """Return the next segment; without rows, it takes ``count`` positions."""
        log, cut = self._log, self._log.stream.cut
        if rows is None:
            rows = empty_batch(log.schema)
        header = SegmentHeader(
            stream=log.key,
            first=self.position,
            count=rows.num_rows or count,
            epoch=log.epoch,
            nonce=f"{self._backup}-{self.position}",
            frontier=cut.frontier,
            frontier_before=cut.frontier,
            created=self._created,
            released=cut.released,
            series=list(series),
        )
        self.position += header.count
        return Segment(header, rows, empty_batch(log.schema))


def _values(part: Part, schema: pa.Schema) -> Iterator[tuple[str, bytes]]:
    """Yield (name, encoded value) of each value of the run that a part becomes."""
    if runs.is_sorted(schema):
        table = runs.append_positions(part.rows, part.positions)
        blocks = runs.split_into_blocks(table, _block_count(part, schema))
        for number, block in enumerate(blocks):
            yield str(number), runs.encode_points(block)
    else:
        rows = runs.append_position_deltas(part.rows, part.positions)
        yield "0", runs.encode_rows([rows], rows.schema)
    if part.future_points.num_rows:
        yield FUTURE_POINTS, runs.encode_rows([part.future_points], schema)
    yield SEGMENT_TABLE, part.header.segments


def _block_count(part: Part, schema: pa.Schema) -> int:
    return runs.block_count(part.rows.num_rows, schema)


def _json(value: object) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()


async def _store_text(ignite: IgniteClient, key: str, text: str) -> None:
    """Store a text; it replaces the text of an interrupted restoration."""

    async def store() -> None:
        cell = TextCell(ignite, key)
        if await cell.load() != text and not await cell.swap(text):
            raise UnavailableError(f"{key} changed during the restoration; is an agent running?")

    await ignite.retry(store, _RETRY_S)
