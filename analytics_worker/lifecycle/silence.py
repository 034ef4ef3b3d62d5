"""The explanation of silent insights, which have no recent values."""

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from analytics.plan.expressions import (
    And,
    Attribute,
    Comparison,
    Expression,
    Literal,
    Measure,
    Membership,
    Scalar,
    Value,
    rewrite,
    walk,
)
from analytics.plan.fragments import Fragment, Merge, Partial, StreamLocation, Whole
from analytics.plan.nodes import Insight, Pane, Plan, Window
from analytics.plan.resumption import windows_of
from analytics.plan.text import expression_text
from analytics.values_seen import Kind, kind_of, values_seen
from analytics_worker.panes.predicates import mask, parse_attributes
from analytics_worker.panes.routing import COLUMNS, key_of
from grammar.units import in_words
from mistbow.client.agent import AgentClient
from mistbow.errors import NotFoundError, UnavailableError
from mistbow.first_names import first_names
from mistbow.streams.schemas import RAW
from mistbow.telemetry import get_logger

log = get_logger(__name__)

SILENT_INTERVALS = 3
"""The number of intervals without a value after which an insight is silent."""

_MIN_SILENT_MS = 10_000
"""The minimum time (ms) without a value after which an insight without EVERY is silent.

The interval of such an insight is only a step; points may arrive at much longer intervals.
"""

_CHECK_S = 10.0
_MAX_SPAN_MS = 300_000
"""The longest span (ms) of points that are read to explain why an insight is silent."""

_MAX_UIDS = 100
_MAX_EXPLAINED = 5
"""The number of silent insights that one check explains; the next check explains others."""

_MAX_SHOWN = 5


@dataclass(slots=True, eq=False)
class SilenceMonitor:
    """Finds the silent insights of one fragment, and explains them from the stored points.

    ``reasons``: uid of a silent insight -> why it has no value.
    """

    agent: AgentClient
    reasons: Mapping[str, str] = field(default_factory=dict)
    _newest: dict[str, int] = field(default_factory=dict)
    """Uid -> the newest tick (ms) that is known to have a result."""
    _explained_at: dict[str, float] = field(default_factory=dict)
    _next_check: float = 0.0

    def check(self, fragment: Fragment, frontier: int) -> None:
        """Update ``reasons`` if the last check was long ago; ``frontier``: of the results (ms)."""
        now = time.monotonic()
        if isinstance(fragment, Partial) or now < self._next_check:
            return
        self._next_check = now + _CHECK_S
        silent = {insight.uid: insight for insight in self._silent(fragment, frontier)}
        order = sorted(silent, key=lambda uid: self._explained_at.get(uid, 0.0))
        reasons = {uid: reason for uid, reason in self.reasons.items() if uid in silent}
        for uid in order[:_MAX_EXPLAINED]:
            self._explained_at[uid] = now
            reason = _Explanation(self.agent, fragment, silent[uid], frontier).text_or_unknown()
            if uid not in reasons:
                log.info("insight_silent", insight=uid, reason=reason)
            reasons[uid] = reason
        self.reasons = reasons
        uids = {insight.uid for insight in fragment.plan.insights}
        self._explained_at = {uid: at for uid, at in self._explained_at.items() if uid in silent}
        self._newest = {uid: ts for uid, ts in self._newest.items() if uid in uids}

    def _silent(self, fragment: Whole | Merge, frontier: int) -> Iterator[Insight]:
        """Yield the insights without a result in the last intervals up to the frontier (ms)."""
        candidates: dict[int, list[Insight]] = defaultdict(list)  # by the time without a value
        for insight in fragment.plan.insights:
            newest = max(self._newest.get(insight.uid, 0), insight.since)
            silent_ms = _silent_ms(insight)
            if frontier - newest >= silent_ms:
                candidates[silent_ms].append(insight)
        for silent_ms, insights in candidates.items():
            after = frontier - silent_ms
            for first in range(0, len(insights), _MAX_UIDS):
                some = insights[first : first + _MAX_UIDS]
                found = self._newest_results(fragment.target, [one.uid for one in some], after)
                self._newest.update(found)
                yield from (one for one in some if one.uid not in found)

    def _newest_results(
        self, target: StreamLocation, uids: Sequence[str], after: int
    ) -> dict[str, int]:
        """Return uid -> the newest tick (ms) with a result, of the ticks later than ``after``."""
        results = self.agent.at(target.site)
        rows = results.read(
            target.stream,
            results.seek(target.stream, after),
            match={"insight": list(uids)},
            columns=["insight", "ts"],
            min_ts=after + 1,
        ).table
        named = rows.set_column(0, "insight", rows["insight"].cast(pa.string()))
        newest = named.group_by("insight", use_threads=False).aggregate([("ts", "max")])
        return dict(zip(newest["insight"].to_pylist(), newest["ts_max"].to_pylist(), strict=True))


def _silent_ms(insight: Insight) -> int:
    """Return the time (ms) without a value after which an insight is silent."""
    intervals_ms = SILENT_INTERVALS * insight.every_ms
    return max(intervals_ms, _MIN_SILENT_MS) if insight.each_point else intervals_ms


@dataclass(frozen=True, slots=True)
class _Explanation:
    """The explanation of one silent insight, from the points before the frontier (ms)."""

    agent: AgentClient
    fragment: Whole | Merge
    insight: Insight
    frontier: int

    @property
    def _span_ms(self) -> int:
        return min(max(SILENT_INTERVALS * self.insight.every_ms, 10_000), _MAX_SPAN_MS)

    def text_or_unknown(self) -> str:
        """Return why the insight has no value, or that this is unknown."""
        try:
            return self.text()
        except (TypeError, ValueError, pa.ArrowException) as error:
            # For example a condition of a kind that cannot be evaluated here.
            return f"the reason is unknown ({error})"

    def text(self) -> str:
        """Return why the insight has no value."""
        if isinstance(self.fragment, Whole) and self.fragment.source.feed is not msgspec.UNSET:
            return f"no row of the stream `{self.fragment.source.stream}` gives a value"
        used = windows_of(self.insight)
        windows = [window for window in self.fragment.plan.windows if window.id in used]
        panes = {pane.id: pane for pane in self.fragment.plan.panes}
        keys: dict[tuple[str, ...], list[set[str]]] = defaultdict(list)
        counts: dict[str, int] = {}
        for window in windows:
            pane = panes[window.pane]
            rows = list(self._points(pane.source.metric, window))
            count = sum(batch.num_rows for batch in rows)
            problem = _problem_of(pane, rows, count, self._words(window))
            if problem is not None:
                return problem
            counts[pane.source.metric] = count
            keys[pane.by].append(_keys(rows, pane.by))
            unsatisfied = _first_unsatisfied(_key_conditions(self.insight), rows)
            if unsatisfied is not None:
                return f"{_came_in(count, pane.source.metric, self._words(window))}, {unsatisfied}"
        came = " and ".join(
            f"{_points_words(count)} of `{metric}`" for metric, count in sorted(counts.items())
        )
        came = f"{came} came in within {in_words(self._span_ms).lower()}"
        for by, sets in keys.items():
            if by and len(sets) > 1 and not set.intersection(*sets):
                return f"{came}, but no value of {', '.join(by)} has points for all operands"
        if self.insight.filter is not None:
            condition = expression_text(_with_metrics(self.insight.filter, self.fragment.plan))
            return f"{came}, but its condition was true for none of its values: {condition}"
        return f"{came}, but give no value: too few for its function, or a division by zero"

    def _words(self, window: Window) -> str:
        ago = f" {in_words(window.offset_ms).lower()} ago" if window.offset_ms else ""
        return f"{in_words(self._span_ms).lower()}{ago}"

    def _points(self, metric: str, window: Window) -> Iterator[pa.RecordBatch]:
        """Yield the points of a metric at all sites that answer."""
        last = self.frontier - window.offset_ms
        for site in _sites(self.fragment):
            agent = self.agent.at(site)
            try:
                rows = agent.read(
                    RAW,
                    agent.seek(RAW, last - self._span_ms),
                    match={"metric": [metric]},
                    columns=COLUMNS,
                    min_ts=last - self._span_ms + 1,
                    max_ts=last,
                ).table
            except (NotFoundError, UnavailableError):
                continue
            yield from (each for each in rows.unify_dictionaries().to_batches() if each.num_rows)


def _sites(fragment: Whole | Merge) -> Collection[str]:
    if isinstance(fragment, Whole):
        return (fragment.source.site,)
    return tuple(source.data_site for source in fragment.sources)


def _problem_of(pane: Pane, rows: Sequence[pa.RecordBatch], count: int, span: str) -> str | None:
    """Return why a pane has no point; None: it has points, or no single condition is the cause."""
    source = pane.source
    if not count:
        return f"no point of `{source.metric}` came in within {span}"
    came = _came_in(count, source.metric, span)
    if source.entities:
        entities = {name for batch in rows for name in batch.column("entity").to_pylist()}
        if not entities & set(source.entities):
            return (
                f"{came}, none belongs to {first_names(sorted(source.entities), _MAX_SHOWN)}; "
                f"entities seen: {first_names(sorted(entities), _MAX_SHOWN)}"
            )
    if source.predicate is None:
        return None
    unsatisfied = _first_unsatisfied(_conjuncts(source.predicate), rows)
    if unsatisfied is not None:
        return f"{came}, {unsatisfied}"
    if not _any(source.predicate, rows):
        return f"{came}, none satisfies all of: {expression_text(source.predicate)}"
    return None


def _first_unsatisfied(
    conditions: Iterable[Expression], rows: Sequence[pa.RecordBatch]
) -> str | None:
    """Return a text about the first condition that no point satisfies."""
    for condition in conditions:
        if not _any(condition, rows):
            return f"none satisfies {expression_text(condition)}; {_seen(condition, rows)}"
    return None


def _any(condition: Expression, rows: Sequence[pa.RecordBatch]) -> bool:
    return any(pc.any(mask(condition, batch, parse_attributes(batch))).as_py() for batch in rows)


def _seen(condition: Expression, rows: Sequence[pa.RecordBatch]) -> str:
    """Return the values that the points have instead of those in a condition."""
    name = _compared_attribute(condition)
    if name is not None:
        # Not a set: in Python, the number 1 and true are equal.
        found = [one.get(name) for batch in rows for one in _attributes(batch)]
        seen = [each for each in found if each is not None]
        if not seen:
            return f"no point has the attribute {name}"
        return values_seen(seen, {*_compared_kinds(condition)})
    if any(isinstance(node, Value) for node in walk(condition)):
        values = pa.chunked_array([batch.column("value") for batch in rows])
        bounds = pc.min_max(values).as_py()
        return f"values seen: {bounds['min']:g} to {bounds['max']:g}"
    return "its operands have other values"


def _compared_attribute(condition: Expression) -> str | None:
    match condition:
        case Comparison(_, Attribute(name), _) | Comparison(_, _, Attribute(name)):
            return name
        case Membership(Attribute(name), _):
            return name
        case _:
            return None


def _compared_kinds(condition: Expression) -> Iterator[Kind]:
    """Yield the types of the values that a condition compares an attribute with."""
    for node in walk(condition):
        match node:
            case Literal(value):
                yield kind_of(value)
            case Membership(_, options):
                yield from map(kind_of, options)
            case Value():
                yield "numbers"


def _attributes(batch: pa.RecordBatch) -> Iterator[Mapping[str, Scalar]]:
    """Yield the attributes of the points of a batch; each set of attributes once."""
    attributes = parse_attributes(batch)
    for index in batch.column("attributes").indices.unique().to_pylist():
        yield attributes[index]


def _keys(rows: Sequence[pa.RecordBatch], by: Sequence[str]) -> set[str]:
    return {key_of(attributes, by) for batch in rows for attributes in _attributes(batch)}


def _conjuncts(condition: Expression) -> Iterator[Expression]:
    if isinstance(condition, And):
        yield from _conjuncts(condition.left)
        yield from _conjuncts(condition.right)
    else:
        yield condition


def _key_conditions(insight: Insight) -> Iterator[Expression]:
    """Yield the conditions on keys that are part of the condition on results."""
    if insight.filter is None:
        return
    for condition in _conjuncts(insight.filter):
        nodes = list(walk(condition))
        if any(isinstance(node, Attribute) for node in nodes) and not any(
            isinstance(node, Measure) for node in nodes
        ):
            yield condition


def _with_metrics(condition: Expression, plan: Plan) -> Expression:
    """Return a condition in which metrics replace the ids of windows, for people."""
    panes = {pane.id: pane.source.metric for pane in plan.panes}
    metrics = {window.id: panes[window.pane] for window in plan.windows}

    def named(node: Expression) -> Expression:
        if not isinstance(node, Measure):
            return node
        other = None if node.other is None else metrics[node.other]
        return msgspec.structs.replace(node, window=metrics[node.window], other=other)

    return rewrite(condition, named)


def _came_in(count: int, metric: str, span: str) -> str:
    return f"{_points_words(count)} of `{metric}` came in within {span}"


def _points_words(count: int) -> str:
    return "1 point" if count == 1 else f"{count} points"
