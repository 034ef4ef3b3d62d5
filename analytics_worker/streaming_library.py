"""The seam between a worker and the engine that computes: the specification's streaming library.

A library says of each logical operator (``mistbow.plan.operators``) whether it supports it, and
runs fragments as queries. It reads and writes streams itself; all else of a fragment's life, when
it starts, where it goes on, what is corrected, is the worker's. See docs/adr/0016.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from analytics_worker.accumulating.stored import Account
from analytics_worker.troubles import Trouble
from mistbow.plan.fragments import Fragment, Merge, Partial, Place, Whole
from mistbow.plan.nodes import Plan
from mistbow.plan.resumption import Resumption


@dataclass(frozen=True, slots=True)
class Counts:
    """What a query has done so far; ``spent_ms`` tells on what its batches spent their time."""

    batches: int = 0
    rows_dropped: int = 0
    spent_ms: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.batches + other.batches,
            self.rows_dropped + other.rows_dropped,
            self.spent_ms + other.spent_ms,
        )


class Query(Protocol):
    """A fragment that runs.

    ``frontier`` (ms) is complete, as of the last ``observe``; ``decided``: from this number on, the
    stream of a merge's decisions tells what it found late.
    """

    @property
    def fragment(self) -> Fragment:
        """What runs."""
        ...

    @property
    def decided(self) -> int:
        """The number of the first decision that is its own."""
        ...

    @property
    def frontier(self) -> int:
        """Up to when (ms) its rows are complete."""
        ...

    @property
    def counts(self) -> Counts:
        """What it has done."""
        ...

    @property
    def begun(self) -> bool:
        """Whether the worst of its start is over."""
        ...

    @property
    def error(self) -> str | None:
        """Why it has ended, None while it runs."""
        ...

    def observe(self) -> None:
        """Take in how far it is."""
        ...

    def read_to(self, frontier: int | None = None) -> Any:
        """Return up to which number of its source it has read, or had when it was at a frontier.

        Of a merge, by site. None where that is not known.
        """
        ...

    def stop(self) -> None:
        """End it, and forget its state: a later one replays."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStart:
    """Where a merge begins: the first number at each site, of the ``unsought`` when they answer.

    Its results stand up to ``since`` (ms), 0 for none; its decisions are written under ``epoch``
    from the number ``decided`` on.
    """

    starts: Mapping[str, int]
    unsought: Sequence[str]
    since: int
    epoch: int
    decided: int


class StreamingLibrary(Protocol):
    """An engine under one worker; ``epoch`` is that of the stream which a query writes."""

    @property
    def support(self) -> Mapping[str, str | None]:
        """Why each logical operator cannot be run, by its name, None where it can; total."""
        ...

    def warm_up(self) -> None:
        """Do once what makes the first query slow; raises what that fails of."""
        ...

    def is_alive(self) -> bool:
        """Return whether it can run anything still."""
        ...

    def stop(self) -> None:
        """End all that it runs, and itself."""
        ...

    def adopt_thread(self) -> None:
        """Make the calling thread one that may start queries and recompute."""
        ...

    def weigh(self, salience: int | None) -> None:
        """Give what the calling thread starts from now on this salience; None: below all others."""
        ...

    def troubles(self) -> Mapping[str, Trouble]:
        """Return what insights lack as of their newest ticks, by uid; of those that lacked some."""
        ...

    def run_whole(
        self,
        fragment: Whole,
        resumption: Resumption,
        start: int,
        epoch: int,
        account: Account | None,
    ) -> Query:
        """Run a whole fragment over what its source has from the number ``start`` on."""
        ...

    def run_partial(self, fragment: Partial, after: int, start: int, epoch: int) -> Query:
        """Run a partial fragment: its panes that close later than ``after`` (ms)."""
        ...

    def run_merge(
        self,
        fragment: Merge,
        resumption: Resumption,
        start: MergeStart,
        epoch: int,
        account: Account | None,
    ) -> Query:
        """Run a merge over its sites' panes."""
        ...

    def recompute_from_points(
        self,
        starts: Mapping[Place, int],
        plan: Plan,
        after: Mapping[str, int],
        times: tuple[int, int],
        account: Account | None,
    ) -> pa.Table:
        """Compute a plan's results again over stored points of one site or several.

        Reads each stream from a number on, and of that the ``times`` (ms, both inclusive). The
        states of ``account`` are read only. Shape ``RESULT_ROWS``; a row with neither a value nor
        a text says by ``missing`` why an insight lacks answers of operators.
        """
        ...

    def recompute_from_panes(
        self,
        sources: Sequence[Place],
        plan: Plan,
        after: Mapping[str, int],
        times: tuple[int, int],
        account: Account | None,
    ) -> pa.Table:
        """Do as ``recompute_from_points`` over stored panes with ends in ``times``."""
        ...
