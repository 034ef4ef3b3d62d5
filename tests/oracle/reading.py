"""Which points are read where: those of windows at ticks, and at the points themselves."""

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
"""How old the value of a metric by itself may be, in whole EVERY intervals."""


@dataclass(frozen=True, slots=True)
class Place:
    """What holds for all that is computed in a part of an insight.

    ``conditions`` are on all points read there, ``allowed`` such of ALLOW, which know the metric's
    name; ``span_ms`` is the window of what names none. Of a sample, some functions have bounds.
    """

    by: tuple[str, ...]
    span_ms: int
    conditions: tuple[ast.Condition, ...] = ()
    allowed: tuple[ast.Condition, ...] = ()
    outliers: tuple[float, ...] = ()
    sampled: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """Builds the SQL of the points that an insight reads.

    Without ``every_ms``, it has values at the ``nth`` points that it reads: ``read`` is SQL of
    those, with the attributes of the keys there.
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
        """Return table expressions of when an insight has values, at keys of these attributes."""
        if self.every_ms:
            return [f"ticks as (select unnest({self.ticks}::bigint[]) as t)"]
        return [self._passing(by), *map(self._moments, self.moments)]

    def window(self, stream: ast.MetricStream, node: ast.Node, place: Place) -> str:
        """Return SQL of the points in a window at each tick: t, keys, what points have."""
        size, offset = place.span_ms, 0
        if not isinstance(node, ast.Call):  # a metric by itself
            size = -(-CURRENT_MS // size) * size
        else:
            size = node.window.millis if node.window else size
            offset = node.offset.millis if node.offset else 0
        within = f"ts > t - {size + offset} and ts <= t - {offset} and t > horizon"
        return self._within(within, stream, place, moments=not offset)

    def so_far(self, stream: ast.MetricStream, place: Place) -> str:
        """Do as ``window`` for all points so far that were there at the first tick after them."""
        step = self.every_ms or 1
        at = f"(ts + {step - 1}) // {step} * {step}"
        within = f"ts > {self.since} and ts <= t and {at} > horizon"
        return self._within(within, stream, place, moments=True)

    def _within(self, within: str, stream: ast.MetricStream, place: Place, *, moments: bool) -> str:
        """Return SQL of the points for which a condition holds at t; there are moments at them."""
        keys = "".join(f", {attribute_column(name)} as {key_column(name)}" for name in place.by)
        conditions = [*place.conditions, *([stream.when] if stream.when else [])]
        chosen = [
            f"metric = '{stream.metric}'",
            *(holds(each, of_point) for each in conditions),
            *(self._allowed(each, stream.metric) for each in place.allowed),
        ]
        if stream.members:
            chosen.append(f"({' or '.join(map(self._member, stream.members))})")
        columns = f"rowid as id, ts, entity, value, attributes, horizon{keys}"
        points = f"select {columns} from points where {' and '.join(chosen)}"
        if self.every_ms:
            return f"select * from ticks join ({points}) on {within}"
        if moments:
            self.read.append((place.by, points))
        times = self.moments.setdefault(place.by, f"moments{len(self.moments)}")
        same = " and ".join([within, *same_keys(place.by, times, "p")])
        mine = "".join(f", {times}.{key_column(name)}" for name in place.by)
        told = f"t{mine}, ts, entity, value, attributes"
        return f"select {told} from {times} join ({points}) p on {same}"

    def _allowed(self, term: ast.Condition, metric: str) -> str:
        """Return SQL of a term of ALLOW; it holds for points of metrics that it is not about."""
        names = {leaf.name for leaf in leaves(term) if isinstance(leaf, ast.Name)}
        said = holds(term, lambda node: by_metric(node, metric))
        others = " and ".join(f"'{name}' not in (select metric from points)" for name in names)
        return said if metric in names else f"({said} or not ({others}))"

    def _member(self, name: str) -> str:
        definition = self.streams.get(name)
        if definition is None:
            return f"entity = '{name}'"
        if definition.provider == "stream":  # all points there are of it
            return "true"
        terms = tuple(ast.Membership(ast.Name(each.key), each.values)
                      for each in definition.settings)  # fmt: skip
        return holds(ast.And(terms), of_point) if terms else "true"

    def _passing(self, by: tuple[str, ...]) -> str:
        """Return the times at which the points of a key, each counted once, pass a multiple."""
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
        """Return these times by some of the attributes of the keys."""
        return f"{self.moments[by]} as (select distinct t{key_columns(by)} from passing)"
