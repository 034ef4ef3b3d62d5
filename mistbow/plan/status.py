"""What a worker says about a fragment that it runs."""

from typing import Literal

import msgspec

State = Literal["starting", "running", "failed", "fenced", "shed"]


class FragmentStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How far a fragment is.

    ``fingerprint`` names the newest version that was accepted, ``active`` the one that runs now,
    if any; ``frontier`` is the time, in milliseconds since the epoch, up to which its results are
    complete. A fragment that ``failed`` some times in a row is tried again all the same; one that
    was ``fenced`` off by another writer rests until it is asked for anew, and one that is ``shed``
    until its worker has room for it. The oldest result that is due and not there is ``lag_ms``
    overdue; ``lagging_since`` and ``shed_since`` tell since when, ms since the epoch. ``queries``
    counts the Spark queries that run now; ``batches``, ``rows_dropped`` (by Spark's watermark,
    which merges have none of; never above 0 when all is well), and the rows and ``bytes_written``
    to the target count since the worker's start, and so does ``spent_ms``: the time in the phases
    of micro-batches, as Spark names them. ``troubles`` tell, by the uid of an insight, what its
    newest results lack because an operator of another package gave no answer.
    """

    id: str
    fingerprint: str
    state: State
    active: str | None = None
    frontier: int
    error: str | None = None
    lag_ms: int = 0
    lagging_since: int | None = None
    shed_since: int | None = None
    queries: int = 0
    batches: int = 0
    rows_dropped: int = 0
    rows_written: int = 0
    bytes_written: int = 0
    spent_ms: dict[str, int] = msgspec.field(default_factory=dict)
    troubles: dict[str, str] = msgspec.field(default_factory=dict)
