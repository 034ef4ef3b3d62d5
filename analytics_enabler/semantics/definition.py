"""What an insight computes, apart from when it was deployed."""

import msgspec

from mistbow.fog.constraints import Cap, Confinement
from mistbow.fog.jobs import Setting
from mistbow.plan.expressions import Expression
from mistbow.plan.feeds import Feed
from mistbow.plan.nodes import Counted, Insight, fingerprint
from mistbow.plan.ticks import At, Ticks

DEFAULT_SCHEDULER = "fair"


class Options(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an insight's WITH says of how it is run and who reads its results.

    Only insights with the same run together: what is shed carries nothing that is not.
    ``settings`` of the scheduler, by their names.
    """

    settings: tuple[tuple[str, Setting], ...] = ()
    confined: Confinement | None = None
    cap: Cap | None = None
    signature: str | None = None
    salience: int = 0

    @property
    def alone(self) -> bool:
        """Whether the insight runs together with no other one.

        What others cost, or where they run, must not decide whether one with a cap runs.
        """
        return self.cap is not None or (self.confined is not None and self.confined.dedicated)


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """A checked insight: its name, its canonical ``text`` and what that means."""

    name: str
    text: str
    expression: Expression
    by: tuple[str, ...]
    every_ms: int
    filter: Expression | None = None
    each_point: bool = False
    counted: Counted | None = None
    at: At = msgspec.UNSET
    scheduler: str = DEFAULT_SCHEDULER
    options: Options = Options()
    feed: Feed | None = None

    @property
    def ticks(self) -> Ticks:
        """When it has values, unless that is at points."""
        return Ticks(self.every_ms, self.at)

    @property
    def meaning(self) -> str:
        """A name for what is computed: equal for two definitions that yield the same rows,
        are placed in the same way and may be read by the same people.
        """
        counted = () if self.counted is None else (self.counted,)
        computed = (self.expression, self.by, self.every_ms, self.filter, *counted)
        feed = () if self.feed is None else (self.feed,)
        return fingerprint((*computed, self.scheduler, self.options, *feed))

    def deployed(self, uid: str, since: int) -> Insight:
        """Return the plan's insight that starts after ``since``, ms since the epoch."""
        return Insight(
            uid=uid,
            expression=self.expression,
            by=self.by,
            every_ms=self.every_ms,
            since=since,
            filter=self.filter,
            each_point=self.each_point,
            counted=self.counted,
            at=self.at,
        )
