"""The JSON bodies of streams' answers: the storage agent encodes them, its clients decode them."""

from typing import Any

import msgspec


class StreamField(msgspec.Struct, frozen=True):
    """A column of a stream; ``type`` is the name of an Arrow type."""

    name: str
    type: str


class StreamInfo(msgspec.Struct, frozen=True):
    """The state of a stream that has the positions from ``first`` to before ``head``.

    ``late``: the number of late rows. ``lateness_ms``: the allowed delay of points; None: only the
    writer moves the frontier. ``bytes``: the stored size of all appends since the agent started.
    ``segments``, ``rows``, ``stored_bytes``: the amounts that are stored at present.
    ``retention_ms``: the retention; None: rows do not expire.
    """

    name: str
    fields: list[StreamField]
    first: int
    head: int
    frontier: int
    epoch: int
    attributes: dict[str, Any]
    late: int
    lateness_ms: int | None
    bytes: int = 0
    segments: int = 0
    rows: int = 0
    stored_bytes: int = 0
    retention_ms: int | None = None


class WriterState(msgspec.Struct, frozen=True):
    """The part of a stream's state that writers need: epoch, head, frontier and attributes.

    ``bytes``: the stored size of all appends since the agent started.
    """

    epoch: int
    head: int
    frontier: int
    attributes: dict[str, Any]
    bytes: int = 0


class Appended(msgspec.Struct, frozen=True):
    """The result of an append: the positions of the rows, from ``first`` to before ``next``.

    ``frontier``: the frontier of the stream after the append.
    """

    first: int
    next: int
    frontier: int


class Offset(msgspec.Struct, frozen=True):
    """The end of a batch of rows: the position after the last row, and the frontier at this
    position.

    ``head``: the present head of the stream.
    """

    next: int
    frontier: int
    head: int
