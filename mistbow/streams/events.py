"""Converts events to rows of streams with the schema ``EVENTS``, and rows to events."""

from collections.abc import Iterator, Mapping

import pyarrow as pa

from mistbow.streams.schemas import EVENTS

REMOVED = "null"
"""The event (JSON) that removes a key."""


def event_rows(ts: int, events: Mapping[str, str]) -> pa.RecordBatch:
    """Return a row for each of ``events`` (key → event), all with the time ``ts`` (ms)."""
    columns = [
        pa.array([ts] * len(events), pa.int64()),
        pa.array(events.keys(), pa.string()),
        pa.array(events.values(), pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=EVENTS)


def events_of(rows: pa.Table | pa.RecordBatch) -> Iterator[tuple[int, str, str]]:
    """Yield (time in ms, key, event) for each row."""
    columns = (rows[name].to_pylist() for name in EVENTS.names)
    yield from zip(*columns, strict=True)
