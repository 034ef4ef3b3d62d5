"""The opening of one stream several times, as by several agents."""

from dataclasses import dataclass

import pyarrow as pa

from mistbow.streams.schemas import POINTS
from storage_agent.ignite.client import IgniteClient
from storage_agent.streams.index import EARLIEST
from storage_agent.streams.log import StreamLog
from storage_agent.streams.segment_store import SegmentStore
from storage_agent.streams.state import State
from storage_agent.streams.streams import Stream
from storage_agent.streams.writer import Writer
from tests.storage_agent.conftest import ManualClock

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False)])


def rows(*times: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(times, pa.int64())], schema=SCHEMA)


def points(*times: int) -> pa.RecordBatch:
    words = pa.array(["w"] * len(times)).dictionary_encode()
    columns = [words, words, words, pa.array(times, pa.int64()), pa.array([1.0] * len(times))]
    return pa.RecordBatch.from_arrays(columns, schema=POINTS)


async def times(log: StreamLog) -> list[int]:
    segments = await log.segments(list(log.index.entries_from(0)))
    return [ts for segment in segments for ts in segment.rows["ts"].to_pylist()]


class Opener:
    """Opens the same stream several times, as agents on one Ignite would."""

    def __init__(self, ignite: IgniteClient, clock: ManualClock) -> None:
        self.ignite = ignite
        self.opened: list[Stream] = []
        self._clock = clock

    async def open(self, schema: pa.Schema = SCHEMA, lateness_ms: int | None = None) -> Stream:
        log = StreamLog("s", schema, SegmentStore(self.ignite))
        await log.recover()
        stream = Stream(log, Writer(log, self.ignite, self._clock, lateness_ms))
        stream.writer.start()
        self.opened.append(stream)
        return stream


@dataclass(frozen=True, slots=True)
class FixedPolicy:
    """Visibility by a fixed limit: rows from before the time ``expired`` (ms) have expired."""

    expired: int = EARLIEST
    latest_per_key: bool = False

    def retention_ms(self) -> int | None:
        return None

    def expired_before(self, state: State) -> int:
        return self.expired

    def is_full(self) -> bool:
        return False
