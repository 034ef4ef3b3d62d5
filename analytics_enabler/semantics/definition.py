"""What an insight computes, apart from when it was deployed."""

import msgspec

from mistbow.plan.expressions import Expression
from mistbow.plan.nodes import Insight, fingerprint

DEFAULT_SCHEDULER = "fair"


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """A checked insight: its name, its canonical ``text`` and what that means."""

    name: str
    text: str
    expression: Expression
    by: tuple[str, ...]
    every_ms: int
    filter: Expression | None = None
    scheduler: str = DEFAULT_SCHEDULER

    @property
    def meaning(self) -> str:
        """A name for what is computed: equal for two definitions that yield the same rows
        and are placed by the same scheduler.
        """
        return fingerprint((self.expression, self.by, self.every_ms, self.filter, self.scheduler))

    def deployed(self, uid: str, since: int) -> Insight:
        """Return the plan's insight that starts after ``since``, ms since the epoch."""
        return Insight(
            uid=uid,
            expression=self.expression,
            by=self.by,
            every_ms=self.every_ms,
            since=since,
            filter=self.filter,
        )
