"""Making the next segment of a stream out of what waits for it; nothing here does I/O."""

import itertools
import secrets
from asyncio import Future
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from storage_agent.streams.columns import Columns, as_batch
from storage_agent.streams.index import time_range
from storage_agent.streams.segments import Appended, Header, Segment, no_rows

# A nonce of its own for each commit of each run of an agent.
_RUN = secrets.token_hex(8)
_NUMBERS = itertools.count()


@dataclass(frozen=True, slots=True)
class Append:
    """Rows that wait to be stored, and the future that is told what became of them.

    ``series``: metadata of series that are new or changed. ``frontier``: how far event time is
    with these rows, stored with them or not at all.
    """

    rows: pa.RecordBatch | Columns
    epoch: int | None
    key: str | None
    done: Future[Appended]
    series: Sequence[dict[str, Any]] = field(default=())
    frontier: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """Where the next segment goes and what it inherits.

    ``limit``: rows with a greater ``ts`` are ahead of the clock; None if that does not matter.
    """

    stream: str
    schema: pa.Schema
    first: int
    epoch: int
    horizon: int
    frontier: int
    created: int
    released: int
    limit: int | None = None


def segment_of_appends(place: Place, appends: Sequence[Append]) -> tuple[Segment, list[Appended]]:
    """Return one segment with the rows of all appends, and what it makes of each."""
    parts = [append.rows for append in appends]
    rows = as_batch(parts)
    ahead = no_rows(place.schema)
    counts = [part.num_rows for part in parts]
    place = replace(place, frontier=max(place.frontier, *(one.frontier for one in appends)))
    limit = place.limit
    if limit is not None and rows.num_rows and time_range(rows)[1] > limit:
        counts = [_up_to(as_batch([part]), limit).num_rows for part in parts]
        ahead = rows.filter(pc.greater(rows["ts"], limit))
        rows = _up_to(rows, limit)
    answers = _numbered(place, counts)
    keyed = {
        append.key: answer
        for append, answer in zip(appends, answers, strict=True)
        if append.key is not None
    }
    series = [series for append in appends for series in append.series]
    header = _header(place, max(1, rows.num_rows), keys=keyed, series=series)
    return Segment(header, rows, ahead), answers


def segment_of_released(place: Place, due: Sequence[pa.RecordBatch]) -> Segment:
    """Return the segment whose rows are points that were ahead, and are not any more."""
    rows = pa.concat_batches(due)
    return Segment(_header(place, max(1, rows.num_rows)), rows, no_rows(place.schema))


def segment_of_claim(place: Place) -> Segment:
    """Return the segment that tells of a new epoch: a number without a row."""
    return Segment(_header(place, 1), no_rows(place.schema), no_rows(place.schema))


def _header(place: Place, count: int, **more: Any) -> Header:
    return Header(
        stream=place.stream,
        first=place.first,
        count=count,
        epoch=place.epoch,
        nonce=f"{_RUN}-{next(_NUMBERS)}",
        frontier=place.frontier,
        horizon=place.horizon,
        created=place.created,
        released=place.released,
        **more,
    )


def _numbered(place: Place, counts: Sequence[int]) -> list[Appended]:
    answers = []
    first = place.first
    for count in counts:
        answers.append(Appended(first, first + count, place.frontier))
        first += count
    return answers


def _up_to(rows: pa.RecordBatch, limit: int) -> pa.RecordBatch:
    return rows.filter(pc.less_equal(rows["ts"], limit))
