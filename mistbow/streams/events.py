"""Streams of events (shape ``EVENTS``): what changed when, and the change as JSON."""

from collections.abc import Iterator, Mapping

import pyarrow as pa

from mistbow.streams.schemas import EVENTS


def event_rows(ts: int, events: Mapping[str, str]) -> pa.RecordBatch:
    """Return events by their keys, all of one time in milliseconds, as rows."""
    columns = [
        pa.array([ts] * len(events), pa.int64()),
        pa.array(events.keys(), pa.string()),
        pa.array(events.values(), pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=EVENTS)


def events_of(rows: pa.Table | pa.RecordBatch) -> Iterator[tuple[int, str, str]]:
    """Yield the time, key and event of each row, in their order."""
    columns = (rows[name].to_pylist() for name in EVENTS.names)
    yield from zip(*columns, strict=True)
