"""What a merge decided about its sources, as rows of a stream, and what follows from them.

A site that is silent leaves: ticks after that do without it. When it is back, ticks from some
moment on have it again. All queries of a group read the same decisions, so that a replay repeats
them, and each result can say who is missing in it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa

from mistbow.streams.events import event_rows, events_of


class Left(msgspec.Struct, frozen=True, tag="left"):
    """The ticks after ``ts`` (ms) do without the site."""


class Joined(msgspec.Struct, frozen=True, tag="joined"):
    """The ticks after ``ts`` (ms) have the site again."""


class Forgotten(msgspec.Struct, frozen=True, tag="forgotten"):
    """The ticks after ``ts`` (ms) do not miss the site any more: it is no source now."""


class LateSpan(msgspec.Struct, frozen=True):
    """Panes that came too late for windows: their ends from ``first`` to ``last``, in ms.

    Windows up to, and without, ``due`` were closed when they came.
    """

    pane: str
    first: int
    last: int
    due: int


class Late(msgspec.Struct, frozen=True, tag="late"):
    """Panes of the site that came late."""

    spans: tuple[LateSpan, ...]


Decision = Left | Joined | Forgotten | Late


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision about a site, at a time in ms."""

    ts: int
    site: str
    what: Decision


@dataclass(frozen=True, slots=True)
class Gap:
    """A site is missing in the ticks later than ``after`` up to ``until`` (ms; None: still)."""

    site: str
    after: int
    until: int | None


@dataclass(slots=True)
class Presence:
    """Who is missing when, by all decisions so far."""

    gaps: list[Gap] = field(default_factory=list)

    def learn(self, decided: Iterable[Decided]) -> None:
        """Take in further decisions; who has left cannot leave, who is there cannot join."""
        for one in decided:
            gap = self.open_gap(one.site)
            match one.what:
                case Left() if gap is None:
                    self.gaps.append(Gap(one.site, one.ts, None))
                case Joined() | Forgotten() if gap is not None:
                    closed = Gap(one.site, gap.after, max(one.ts, gap.after))
                    self.gaps[self.gaps.index(gap)] = closed

    def open_gap(self, site: str) -> Gap | None:
        """Return the gap of a site that has not joined again."""
        return next((gap for gap in self.open_gaps() if gap.site == site), None)

    def open_gaps(self) -> list[Gap]:
        """Return the gaps of all sites that have not joined again."""
        return [gap for gap in self.gaps if gap.until is None]

    def missing(self, tick: int) -> tuple[str, ...]:
        """Return the sites that a tick (ms) does without, by name."""
        return tuple(
            sorted(
                {
                    gap.site
                    for gap in self.gaps
                    if gap.after < tick and (gap.until is None or tick <= gap.until)
                }
            )
        )

    def next_change(self, tick: int) -> int | None:
        """Return the first tick's time (ms) from ``tick`` on at which somebody is back."""
        ends = [
            gap.until
            for gap in self.gaps
            if gap.until is not None and gap.after < tick <= gap.until
        ]
        return min(ends, default=None)


def as_row(decided: Decided) -> pa.RecordBatch:
    """Return a decision as a row of a stream; shape ``EVENTS``."""
    return event_rows(decided.ts, {decided.site: msgspec.json.encode(decided.what).decode()})


def from_rows(rows: pa.Table) -> Iterator[Decided]:
    """Yield the decisions that rows of a stream hold, in their order."""
    for ts, site, event in events_of(rows):
        yield Decided(ts, site, msgspec.json.decode(event, type=Decision))
