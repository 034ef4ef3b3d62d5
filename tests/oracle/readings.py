"""The SQL of the points in windows, whose ends are ticks or times of points."""

# ruff: noqa: S608 - the texts are drawn in tests
from collections.abc import Mapping
from dataclasses import dataclass, field

from grammar import ast
from tests.oracle.columns import (
    attribute_column,
    by_metric,
    key_column,
    key_columns,
    of_point,
    same_keys,
)
from tests.oracle.conditions import holds, leaves

CURRENT_MS = 60_000
"""The maximum age (ms) of the value of a metric without a function.

The age is rounded up to a multiple of the interval of EVERY.
"""


@dataclass(frozen=True, slots=True)
class EvaluationContext:
    """The context of the values in a part of an insight.

    ``conditions`` apply to all points that the part reads. ``allowed`` are conditions of ALLOW, in
    which a metric's name stands for its value. ``span_ms`` is the length of windows without a
    length of their own. If ``sampled``, some functions have bounds. ``shift_ms``: how far in the
    past the values are computed. ``hold_ms``: if not 0, windows end at its last multiple.
    ``latest``: the metric at whose latest points attributes in ALLOW are read.
    """

    by: tuple[str, ...]
    span_ms: int
    conditions: tuple[ast.Condition, ...] = ()
    allowed: tuple[ast.Condition, ...] = ()
    outliers: tuple[float, ...] = ()
    sampled: bool = False
    shift_ms: int = 0
    hold_ms: int = 0
    latest: ast.MetricStream | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """Builds the SQL of the points that an insight reads.

    If ``every_ms`` is None, the insight has a value at each ``nth`` point. In this case, ``read``
    collects the SQL of all points that the insight reads, with the attributes of their keys.
    """

    streams: Mapping[str, ast.StreamDefinition]
    metrics: frozenset[str]
    every_ms: int | None
    ticks: list[int]
    since: int
    nth: int = 1
    read: list[tuple[tuple[str, ...], str]] = field(default_factory=list)
    moments: dict[tuple[str, ...], str] = field(default_factory=dict)

    def times(self, by: tuple[str, ...]) -> list[str]:
        """Return the table expressions of the times at which the keys of an insight have values."""
        if self.every_ms:
            return [f"ticks as (select unnest({self.ticks}::bigint[]) as t)"]
        return [self._passing(by), *map(self._moments, self.moments)]

    def window(
        self, stream: ast.MetricStream, node: ast.SyntaxNode, context: EvaluationContext
    ) -> str:
        """Return the SQL of the points in each window.

        The columns are the end t of the window, the attributes of the key, and the columns of the
        point.
        """
        size, offset = context.span_ms, 0
        if not isinstance(node, ast.FunctionCall):  # a metric by itself
            size = -(-CURRENT_MS // size) * size
        else:
            size = node.window.millis if node.window else size
            offset = node.offset.millis if node.offset else 0
        if self.every_ms is None and isinstance(node, ast.FunctionCall) and not node.window:
            within = "ts > previous and ts <= t and t > horizon"
            return self._within(within, stream, context, moments=True)
        offset += context.shift_ms
        hold = context.hold_ms
        end = f"(t // {hold} * {hold})" if hold else "t"
        within = f"ts > {end} - {size + offset} and ts <= {end} - {offset} and t > horizon"
        return self._within(within, stream, context, moments=not offset)

    def so_far(self, stream: ast.MetricStream, context: EvaluationContext) -> str:
        """Return the SQL of all points from ``since`` to each time t, without late points."""
        step = self.every_ms or 1
        at = f"(ts + {step - 1}) // {step} * {step}"
        within = f"ts > {self.since} and ts <= t and {at} > horizon"
        return self._within(within, stream, context, moments=True)

    def _within(
        self, within: str, stream: ast.MetricStream, context: EvaluationContext, *, moments: bool
    ) -> str:
        """Return the SQL of the points that satisfy the condition ``within`` at each time t.

        ``moments``: whether the insight can have values at the times of these points.
        """
        keys = "".join(f", {attribute_column(name)} as {key_column(name)}" for name in context.by)
        conditions = [*context.conditions, *([stream.when] if stream.when else [])]
        chosen = [
            f"metric = '{stream.metric}'",
            *(holds(each, of_point) for each in conditions),
            *(self._allowed(each, stream.metric) for each in context.allowed),
        ]
        if stream.members:
            chosen.append(f"({' or '.join(map(self._member, stream.members))})")
        columns = f"rowid as id, ts, entity, value, attributes, horizon{keys}"
        points = f"select {columns} from points where {' and '.join(chosen)}"
        if self.every_ms:
            return f"select * from ticks join ({points}) on {within}"
        if moments:
            self.read.append((context.by, points))
        times = self.moments.setdefault(context.by, f"moments{len(self.moments)}")
        same = " and ".join([within, *same_keys(context.by, times, "p")])
        mine = "".join(f", {times}.{key_column(name)}" for name in context.by)
        point_columns = f"t{mine}, ts, entity, value, attributes"
        return f"select {point_columns} from {times} join ({points}) p on {same}"

    def _allowed(self, term: ast.Condition, metric: str) -> str:
        """Return the SQL of a term of ALLOW.

        If the term names metrics, but not ``metric``, each point of ``metric`` satisfies the term.
        """
        names = {leaf.name for leaf in leaves(term) if isinstance(leaf, ast.Name)}
        condition = holds(term, lambda node: by_metric(node, metric))
        others = " and ".join(f"'{name}' not in (select metric from points)" for name in names)
        return condition if metric in names else f"({condition} or not ({others}))"

    def _member(self, name: str) -> str:
        definition = self.streams.get(name)
        if definition is None:
            return f"entity = '{name}'"
        if definition.provider == "stream":  # all points there are of it
            return "true"
        terms = tuple(ast.ListMembership(ast.Name(each.key), each.values)
                      for each in definition.settings)  # fmt: skip
        return holds(ast.AndCondition(terms), of_point) if terms else "true"

    def _passing(self, by: tuple[str, ...]) -> str:
        """Return the SQL of the times at which a key's point count passes a multiple of ``nth``.

        The result contains each time once.
        """
        keys = key_columns(by)
        all_read = [
            f"select id, ts as t{keys} from ({points}) where ts > {self.since}"
            for others, points in self.read
            if set(by) <= set(others)
        ]
        parts = ", ".join(["0", *map(key_column, by)])
        counted = (
            f"select t{keys}, sum(count(*)) over (partition by {parts} "
            f"order by t) as n, count(*) as new from ({' union '.join(all_read)}) group by t{keys}"
        )
        passed = f"n // {self.nth} > (n - new) // {self.nth}"
        return f"passing as (select t{keys} from ({counted}) where {passed})"

    def _moments(self, by: tuple[str, ...]) -> str:
        """Return the SQL of the times of ``_passing``, for keys of the attributes ``by`` only.

        The column ``previous`` is the time before; for the first time, the start of the insight.
        """
        parts = ", ".join(["0", *map(key_column, by)])
        lag = f"lag(t, 1, {self.since}) over (partition by {parts} order by t) as previous"
        times = f"select distinct t{key_columns(by)} from passing"
        return f"{self.moments[by]} as (select *, {lag} from ({times}))"
