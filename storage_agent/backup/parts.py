"""A part of a backup: the visible rows of adjacent segments or of one run, as an Arrow IPC stream.

The rows have a last column with their positions. The metadata of the Arrow schema contains the
header of the part, with the table of its segments: so the restored rows have the same positions,
and are late or not as before. A second batch, if any, contains the future points.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pyarrow as pa

from mistbow.errors import MistbowError
from storage_agent.streams import runs
from storage_agent.streams.extents import Extent, segment_table_of
from storage_agent.streams.index import IndexEntry
from storage_agent.streams.log import StreamLog
from storage_agent.streams.runs import Int64s, SegmentTable
from storage_agent.streams.segments import AppendResult, empty_batch

_HEADER = b"mistbow.part"
_POSITION = pa.field(runs.POSITION, pa.int64(), nullable=False)
_MAX_SEGMENTS = 256
_MAX_ROWS = 2**16
_MAX_BYTES = 4 * 2**20


class PartHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The header of a part; times are milliseconds.

    ``segments``: the encoded table of the segments, with their recent idempotency keys. ``level``:
    the level of the run. ``last_tombstone``: tombstones with ids up to this id are applied. The
    other fields are those of ``Run``.
    """

    first: int
    count: int
    level: int
    late: int
    frontier: int
    oldest: int
    created: int
    epoch: int
    last_tombstone: int
    segments: bytes

    @property
    def next(self) -> int:
        """The position after the part."""
        return self.first + self.count


@dataclass(frozen=True, slots=True)
class Part:
    """The header, rows, positions of the rows, and future points of a part."""

    header: PartHeader
    rows: pa.RecordBatch
    positions: Int64s
    future_points: pa.RecordBatch


async def read_part(log: StreamLog, start: int, stop: int, released: int) -> Part | None:
    """Return the part of a stream that begins at ``start``; None: no rows are stored from there.

    ``stop``: the position at which the backup ends, which is the end of a segment. ``released``:
    points up to this time (ms) were rows of the stream at the cut. Raises ``UnavailableError`` if
    the rows were evicted or compacted meanwhile.
    """
    entries = _next_entries(log, start, stop)
    if not entries:
        return None
    tombstone = log.manifest.current.last_tombstone
    extents, table, keys, epoch = await _load(log, entries)
    future_points = await log.pending_points(entries, released)

    def build() -> Part:
        first, last = entries[0], entries[-1]
        selected = [each.select(first.first, last.next) for each in extents]
        positions = np.concatenate([each.positions for each in selected])
        counts = np.bincount(table.find_all(positions), minlength=len(table))
        segments = runs.encode_segment_table(replace(table, rows=counts), keys)
        header = PartHeader(
            first=first.first,
            count=last.next - first.first,
            level=log.run_of(first).level if first.blocks else 1,
            late=sum(entry.late for entry in entries),
            frontier=last.frontier,
            oldest=first.oldest,
            created=last.created,
            epoch=epoch,
            last_tombstone=tombstone,
            segments=segments,
        )
        rows = pa.concat_batches([each.batch for each in selected])
        return Part(header, rows, positions, _concat(future_points, log.schema))

    return await asyncio.to_thread(build)


def _next_entries(log: StreamLog, start: int, stop: int) -> list[IndexEntry]:
    entries: list[IndexEntry] = []
    rows = size = 0
    for entry in log.index.entries_from(start):
        full = len(entries) == _MAX_SEGMENTS or rows >= _MAX_ROWS or size + entry.bytes > _MAX_BYTES
        if entry.next > stop or (entries and (entry.blocks or full)):
            break
        entries.append(entry)
        if entry.blocks:
            break
        rows += entry.rows
        size += entry.bytes
    return entries


async def _load(
    log: StreamLog, entries: Sequence[IndexEntry]
) -> tuple[list[Extent], SegmentTable, dict[str, AppendResult], int]:
    """Return the extents of index entries, their segments, idempotency keys and last epoch."""
    if entries[0].blocks:
        run = log.run_of(entries[0])
        table, keys = await log.store.segment_table(log.key, run.id)
        return await log.extents(entries), table, keys, run.epoch
    segments = await log.segments(entries)
    visibility = log.visibility(None)
    # A tombstone applies to all rows of an extent, or to none.
    parts = [[each] for each in segments] if visibility.tombstones else [segments]
    extents = [Extent.of(part, visibility) for part in parts]
    keys = {key: result for each in segments for key, result in each.header.keys.items()}
    return extents, segment_table_of(segments), keys, segments[-1].header.epoch


def encode_part(part: Part) -> bytes:
    """Encode a part as an Arrow IPC stream."""
    header = msgspec.json.encode(part.header)
    schema = pa.schema([*part.rows.schema, _POSITION], metadata={_HEADER: header})
    batches = [_positioned(part.rows, part.positions, schema)]
    if count := part.future_points.num_rows:
        batches.append(_positioned(part.future_points, np.full(count, -1), schema))
    return runs.encode_rows(batches, schema)


def decode_part(data: bytes) -> Part:
    """Decode a part; raises ``MistbowError`` if it is damaged."""
    try:
        with pa.ipc.open_stream(data) as reader:
            batches = list(reader)
            schema = reader.schema
        for batch in batches:
            batch.validate(full=True)
        header = msgspec.json.decode((schema.metadata or {})[_HEADER], type=PartHeader)
        own = schema.remove_metadata().remove(len(schema) - 1)
        rows, *future = [
            pa.RecordBatch.from_arrays(batch.columns[:-1], schema=own) for batch in batches
        ]
        positions = batches[0].column(len(own)).to_numpy()
    except (pa.ArrowInvalid, OSError, KeyError, ValueError, msgspec.MsgspecError) as error:
        raise MistbowError("a part of the backup cannot be decoded", details=str(error)) from error
    return Part(header, rows, positions, _concat(future, own))


def _positioned(rows: pa.RecordBatch, positions: Int64s, schema: pa.Schema) -> pa.RecordBatch:
    columns = [*rows.columns, pa.array(positions, pa.int64())]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _concat(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    return pa.concat_batches(batches) if batches else empty_batch(schema)
