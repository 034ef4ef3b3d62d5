"""The answers of an agent about a backup."""

from typing import Any

import msgspec


class StreamCut(msgspec.Struct, frozen=True, kw_only=True):
    """A stream at the cut of a backup.

    ``schema``: the stream's schema, as an Arrow IPC message. ``incarnation``: the number of earlier
    streams with the same name. ``head``: the position after the last row of the backup.
    ``frontier``, ``epoch``, ``attributes``: the stream's state. ``released``: future points up to
    this time (ms) are rows of the stream.
    """

    name: str
    schema: bytes
    head: int
    frontier: int
    epoch: int
    released: int = 0
    incarnation: int = 0
    attributes: dict[str, Any] = msgspec.field(default_factory=dict)


class BackupCut(msgspec.Struct, frozen=True, kw_only=True):
    """The state of all streams of a site at one moment, the cut, at which a backup ends.

    ``cut``: the time of the cut (ms). ``configuration``: the changes of the agent's configuration,
    by field.
    """

    id: str
    site: str
    node: str
    cut: int
    streams: tuple[StreamCut, ...]
    configuration: dict[str, Any] = msgspec.field(default_factory=dict)


class StreamDeletions(msgspec.Struct, frozen=True, kw_only=True):
    """The tombstones of a stream; ``last``: the greatest id that a tombstone has had."""

    last: int
    tombstones: tuple[dict[str, Any], ...] = ()
