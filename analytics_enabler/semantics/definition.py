"""The definition of an insight: the expressions that it computes, and its options."""

import msgspec

from analytics.plan.expressions import Aggregate, Expression, rewrite
from analytics.plan.feeds import Feed
from analytics.plan.nodes import Counted, Insight, expressions_of, fingerprint
from analytics.plan.point_aggregates import at_step, has_state
from analytics.plan.ticks import At, Ticks
from analytics_enabler.scheduling.model.constraints import Constraint, CostCap
from analytics_enabler.scheduling.model.jobs import Setting

DEFAULT_SCHEDULER = "fair"


class Options(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The options of WITH that determine how an insight runs, and who may read the results.

    Only insights with equal options run in one query. Therefore load shedding, which pauses whole
    queries, pauses only insights with the same salience. ``settings``: (name, value) of each
    setting of the scheduler. ``confined``: the nodes that may run the insight; None: all nodes.
    ``cap``: the maximum cost; None: no maximum. ``signature``: the access right that a reader's
    token must contain; None: no access right is necessary.
    """

    settings: tuple[tuple[str, Setting], ...] = ()
    confined: Constraint | None = None
    cap: CostCap | None = None
    signature: str | None = None
    salience: int = 0

    @property
    def alone(self) -> bool:
        """Whether the insight must be the only insight in its group.

        A cost cap must not include the cost of other insights. Dedicated nodes must not run tasks
        of other insights.
        """
        return self.cap is not None or (self.confined is not None and self.confined.dedicated)


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """An insight without errors, in the form that is stored.

    ``text``: the canonical text. ``expression``: the values to compute. ``by``: the attributes of
    the keys. ``every_ms``: the interval between ticks or, with ``each_point``, between evaluations.
    ``filter``: the condition that results must satisfy. ``each_point``: whether the insight has
    values at points instead of ticks. ``counted``: the points to count for EVERY n POINTS; None:
    the EVERY counts no points. ``at``: the time of day of the ticks. ``feed``: the stream whose
    rows the insight reads as points; None: the insight reads storage.
    """

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
        """The ticks of the insight; unused if the insight has values at points."""
        return Ticks(self.every_ms, self.at)

    @property
    def meaning(self) -> str:
        """A fingerprint of the results, the placement and the access rights.

        Insights with the same fingerprint have the same results, are placed in the same way, and
        require the same signature in a reader's token.
        """
        counted = () if self.counted is None else (self.counted,)
        computed = (self.expression, self.by, self.every_ms, self.filter, *counted)
        feed = () if self.feed is None else (self.feed,)
        return fingerprint((*computed, self.scheduler, self.options, *feed))

    def continued(self, later: "Definition") -> "Definition | None":
        """Return the definition with which the insight continues if ``later`` replaces this one.

        None: ``later`` has another meaning. An insight with states at points retains its step: with
        another step, it would not find its states. The step does not change the values.
        """
        if self.each_point and self._has_states and later.each_point:
            later = later.with_step(self.every_ms)
        return later if self.meaning == later.meaning else None

    @property
    def _has_states(self) -> bool:
        return any(isinstance(node, Aggregate) and has_state(node) for node in expressions_of(self))

    def with_step(self, step_ms: int) -> "Definition":
        """Return the definition with evaluations at intervals of ``step_ms``."""
        change = at_step(step_ms)
        return msgspec.structs.replace(
            self,
            expression=rewrite(self.expression, change),
            every_ms=step_ms,
            filter=None if self.filter is None else rewrite(self.filter, change),
            counted=None if self.counted is None else self.counted.rewritten(change),
        )

    def deployed(self, uid: str, since: int) -> Insight:
        """Return the insight in the form that plans contain.

        ``uid``: the unique id of the insight. ``since``: the time (ms) after which the values of
        the insight begin.
        """
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
