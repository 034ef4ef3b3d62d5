"""The oracle: what a text of the insight language comes to over some points, by DuckDB.

It follows ``docs/language.md`` alone: from the syntax tree to SQL, without our planner, optimizer
or operators (but that FORECAST is the library's, for which SQL has nothing, and that PEWMA is our
operator over all points at once). Of samples it knows those that leave nothing out, and counts.
"""

# ruff: noqa: S608 - the texts are drawn in tests
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import pyarrow as pa

from grammar import ast, parse
from mistbow.plan.attributes import canonical
from tests.oracle.columns import (
    arithmetic,
    attribute_column,
    by_metric,
    key_column,
    key_columns,
    met,
    of_point,
    same_keys,
)
from tests.oracle.conditions import Operand, attribute, holds, leaves
from tests.oracle.expansion import insights_of
from tests.oracle.functions import (
    ACCUMULATED,
    BOUNDED,
    CORRELATION,
    FORMULAS,
    SINGLE,
    Formula,
    forecast_of_lists,
    geohash_of,
    pewma_of_list,
)
from tests.oracle.ticks import every_of, ticks_of

POINTS = pa.schema(
    [
        pa.field("metric", pa.string()),
        pa.field("entity", pa.string()),
        pa.field("attributes", pa.string()),
        pa.field("ts", pa.int64()),
        pa.field("value", pa.float64()),
        pa.field("horizon", pa.int64()),
    ]
)
"""A point counts at ticks after its horizon: before, windows were closed when it came."""

CURRENT_MS = 60_000
"""How old the value of a metric by itself may be, in whole EVERY intervals."""

_NO_LISTS = "null::double[] as vals, null::double as low, null::double as high"

Identity = tuple[str, str, int]
"""(insight, key as JSON, tick)"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said at a tick; ``size`` is how large what was rounded on the way may have been."""

    value: float
    size: float
    values: tuple[float, ...] | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class _Rows:
    """A table expression: tick t, its keys, value v, size m, and the lists of a function."""

    name: str
    by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Constant:
    """SQL of a value that is the same everywhere."""

    sql: str


@dataclass(frozen=True, slots=True)
class _Place:
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


@contextmanager
def opened(points: pa.Table) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database of points (``POINTS``)."""
    # Threads help nothing over so few points, and wait for each other.
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.create_function(
            "forecast", forecast_of_lists, ["BIGINT[]", "DOUBLE[]", "INTEGER"], "DOUBLE",
            null_handling="special",
        )  # fmt: skip
        connection.create_function(
            "geohash",
            geohash_of,
            ["DOUBLE", "DOUBLE", "INTEGER"],
            "DOUBLE",
            null_handling="special",
        )
        connection.create_function("pewma", pewma_of_list, ["DOUBLE[]", "DOUBLE"], "DOUBLE")
        connection.register("given", points)
        connection.execute("create table points as select * from given")
        yield connection


def answers(
    text: str, connection: duckdb.DuckDBPyConnection, since: int, until: int
) -> dict[Identity, Answer]:
    """Return what each insight of a text, deployed at a time, says up to a tick (both ms)."""
    script = parse(text)
    insights = insights_of(script)
    streams = {
        each.name: each for each in script.statements if isinstance(each, ast.StreamDefinition)
    }
    found: dict[Identity, Answer] = {}
    known = connection.execute("select distinct metric from points").fetchall()
    metrics = frozenset(name for (name,) in known)
    for name, insight in insights.items():
        nth = insight.every.count if isinstance(insight.every, ast.Points) else 1
        ticks = ticks_of(insight, until)
        made = _Query(insights, streams, metrics, every_of(insight), ticks, since, nth)
        query, by = made.of(insight)
        rows = connection.execute(query).fetchall()
        found |= {(name, *where): answer for where, answer in _read(rows, by)}
    return found


def _read(
    rows: list[tuple[Any, ...]], by: tuple[str, ...]
) -> Iterator[tuple[tuple[str, int], Answer]]:
    for t, value, size, values, low, high, *key in rows:
        parts = [None if part is None else json.loads(part) for part in key]
        known = json.dumps(dict(zip(by, parts, strict=True)), sort_keys=True)
        several = None if values is None else tuple(values)
        yield (known, t), Answer(value, size, several, low, high)


def _terms(when: ast.Condition | None) -> tuple[ast.Condition, ...]:
    return () if when is None else when.terms if isinstance(when, ast.And) else (when,)


@dataclass(slots=True)
class _Query:
    """Builds the SQL of one insight; ``parts`` are its table expressions.

    Without ``every_ms``, it has values at the ``nth`` points that it reads: ``read`` is SQL of
    those, with the attributes of the keys there.
    """

    insights: Mapping[str, ast.Insight]
    streams: Mapping[str, ast.StreamDefinition]
    metrics: frozenset[str]
    every_ms: int | None
    ticks: list[int]
    since: int
    nth: int = 1
    parts: list[str] = field(default_factory=list)
    read: list[tuple[tuple[str, ...], str]] = field(default_factory=list)
    moments: dict[tuple[str, ...], str] = field(default_factory=dict)

    def of(self, insight: ast.Insight) -> tuple[str, tuple[str, ...]]:
        """Return SQL of an insight's results, less ``with``, and the attributes of their keys."""
        rows = self._insight(insight)
        keys = "".join(f", {key_column(name)}" for name in rows.by)
        told = f"select t, v, m, vals, low, high{keys} from {rows.name} where t > {self.since}"
        if self.every_ms:
            times = [self._times()]
        else:
            times = [self._passing(rows.by), *map(self._moments, self.moments)]
        return f"with {', '.join([*times, *self.parts])} {told}", rows.by

    def _times(self) -> str:
        return f"ticks as (select unnest({self.ticks}::bigint[]) as t)"

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

    def _insight(self, insight: ast.Insight) -> _Rows:
        by = tuple(sorted({canonical(name) for name in insight.by}))
        place = _Place(by, every_of(insight) or CURRENT_MS)
        results: list[ast.Condition] = []
        for option in insight.options:
            match option:
                case ast.Outliers():
                    place = replace(place, outliers=(float(option.k or 0), option.r or 0.0))
                case ast.Sample() | ast.Accuracy():
                    place = replace(place, sampled=True)
                case ast.Allow(when):
                    for term in _terms(when):
                        if all(isinstance(leaf, ast.Name) for leaf in leaves(term)):
                            place = replace(place, allowed=(*place.allowed, term))
                        else:
                            results.append(term)
        return self._held(insight.expression, insight.when, results, place)

    def _held(
        self, node: ast.Expression, when: ast.Condition | None, more: list[ast.Condition],
        place: _Place,
    ) -> _Rows:  # fmt: skip
        """Return the values of an expression over the points, and where the results, satisfy."""
        keys = {*place.by, *self._inner_keys(node)}
        results = list(more)
        for term in _terms(when):
            names = {leaf.name for leaf in leaves(term) if isinstance(leaf, ast.Name)}
            if any(canonical(name) not in keys for name in names - self.metrics):
                place = replace(place, conditions=(*place.conditions, term))
            else:
                results.append(term)
        rows = self._value(node, place)
        assert isinstance(rows, _Rows), node
        for term in results:
            # The elided side is what the condition is attached to: no other term changes that.
            rows = self._filtered(rows, term, place)
        return rows

    def _inner_keys(self, node: ast.Expression) -> Iterator[str]:
        match node:
            case ast.Scoped():
                yield from map(canonical, node.by)
                yield from self._inner_keys(node.expression)
            case ast.Binary():
                yield from self._inner_keys(node.left)
                yield from self._inner_keys(node.right)
            case ast.Negate(operand):
                yield from self._inner_keys(operand)
            case ast.Call("GEOHASH", (latitude, longitude)):
                yield from self._inner_keys(latitude)
                yield from self._inner_keys(longitude)
            case ast.Call(function, arguments) if function in SINGLE:
                yield from self._inner_keys(arguments[0])
            case ast.InsightReference(name):
                other = self.insights[name]
                yield from map(canonical, other.by)
                yield from self._inner_keys(other.expression)
            case _:
                return

    def _value(self, node: ast.Expression, place: _Place) -> _Rows | _Constant:
        match node:
            case ast.Number(value):
                return _Constant(f"({value!r})::double")
            case ast.Name(name):
                return self._of_points("LATEST", ast.MetricStream(name), node, (), place)
            case ast.MetricStream():
                return self._of_points("LATEST", node, node, (), place)
            case ast.Scoped():
                by = tuple(sorted({*place.by, *map(canonical, node.by)}))
                return self._held(node.expression, node.when, [], replace(place, by=by))
            case ast.InsightReference(name):
                return self._insight(self.insights[name])
            case ast.Negate(operand):
                return self._mapped(self._value(operand, place), "-v", "m")
            case ast.Binary():
                sides = self._value(node.left, place), self._value(node.right, place)
                return self._calculated(node.operator, *sides)
            case ast.Call("GEOHASH", (latitude, longitude), (ast.Number(n),)):
                sides = self._value(latitude, place), self._value(longitude, place)
                return self._calculated(f"GEOHASH[{n:.0f}]", *sides)
            case ast.Call(function, arguments) if function in SINGLE:
                return self._mapped(self._value(arguments[0], place), *SINGLE[function])
            case ast.Call():
                return self._function(node, place)
            case _:
                raise AssertionError(node)

    def _function(self, call: ast.Call, place: _Place) -> _Rows:
        streams = [
            ast.MetricStream(each.name) if isinstance(each, ast.Name) else each
            for each in call.arguments
            if isinstance(each, ast.Name | ast.MetricStream)
        ]
        parameters = tuple(each.value for each in call.parameters if isinstance(each, ast.Number))
        if call.function == "OUTLIER_DETECTION":
            parameters = place.outliers
        if call.function == "CORRELATION":
            return self._correlation(call, streams, place)
        if streams:
            return self._of_points(call.function, streams[0], call, parameters, place)
        operand = self._value(call.arguments[0], place)
        assert isinstance(operand, _Rows), call
        formula = FORMULAS[call.function](parameters)
        keys = key_columns(place.by)
        return self._finished(
            f"select t{keys}, list(v order by v) as l, max(m) as mm, count(*) as n "
            f"from {operand.name} group by t{keys}",
            formula,
            place.by,
        )

    def _of_points(
        self, function: str, stream: ast.MetricStream, node: ast.Node,
        parameters: tuple[float, ...], place: _Place,
    ) -> _Rows:  # fmt: skip
        keys = key_columns(place.by)
        formula = FORMULAS[function](parameters)
        if place.sampled and function in BOUNDED:
            formula = replace(formula, low=formula.value, high=formula.value)
        window, new = self._window(stream, node, place), ""
        if function in ACCUMULATED:
            window = self._so_far(stream, place)
            new = f"having max(ts) > t - {self.every_ms or 1}"
        points = (
            ", list(struct_pack(ts, value, entity) order by ts, entity, value) as p"
            if formula.of_points
            else ""
        )
        return self._finished(
            f"select t{keys}, list(value order by value) as l, max(abs(value)) as mm, "
            f"count(*) as n{points} from ({window}) group by t{keys} {new}",
            formula,
            place.by,
        )

    def _correlation(self, call: ast.Call, streams: list[ast.MetricStream], place: _Place) -> _Rows:
        one, other = (self._window(stream, call, place) for stream in streams)
        keys = "".join(f", a.{key_column(name)}" for name in place.by)
        return self._made(
            f"select a.t{keys}, {CORRELATION} as v, 1 as m, {_NO_LISTS} "
            f"from ({one}) a join ({other}) b "
            f"on a.ts = b.ts and a.entity = b.entity and {met(place.by, 'a', 'b')} "
            f"group by a.t{keys}",
            place.by,
        )

    def _window(self, stream: ast.MetricStream, node: ast.Node, place: _Place) -> str:
        """Return SQL of the points in a window at each tick: t, keys, ts, entity, value."""
        size, offset = place.span_ms, 0
        if not isinstance(node, ast.Call):  # a metric by itself
            size = -(-CURRENT_MS // size) * size
        else:
            size = node.window.millis if node.window else size
            offset = node.offset.millis if node.offset else 0
        within = f"ts > t - {size + offset} and ts <= t - {offset} and t > horizon"
        return self._within(within, stream, place, moments=not offset)

    def _so_far(self, stream: ast.MetricStream, place: _Place) -> str:
        """Do as ``_window`` for all points so far that were there at the first tick after them."""
        step = self.every_ms or 1
        at = f"(ts + {step - 1}) // {step} * {step}"
        within = f"ts > {self.since} and ts <= t and {at} > horizon"
        return self._within(within, stream, place, moments=True)

    def _within(
        self, within: str, stream: ast.MetricStream, place: _Place, *, moments: bool
    ) -> str:
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
        columns = f"rowid as id, ts, entity, value, horizon{keys}"
        points = f"select {columns} from points where {' and '.join(chosen)}"
        if self.every_ms:
            return f"select * from ticks join ({points}) on {within}"
        if moments:
            self.read.append((place.by, points))
        times = self.moments.setdefault(place.by, f"moments{len(self.moments)}")
        same = " and ".join([within, *same_keys(place.by, times, "p")])
        mine = "".join(f", {times}.{key_column(name)}" for name in place.by)
        return f"select t{mine}, ts, entity, value from {times} join ({points}) p on {same}"

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
        terms = tuple(ast.Membership(ast.Name(each.key), each.values)
                      for each in definition.settings)  # fmt: skip
        return holds(ast.And(terms), of_point) if terms else "true"

    def _mapped(self, operand: _Rows | _Constant, value: str, size: str) -> _Rows | _Constant:
        if isinstance(operand, _Constant):
            return _Constant(f"(select {value} from (select {operand.sql} as v))")
        return self._made(
            f"select t{key_columns(operand.by)}, {value} as v, {size} as m, {_NO_LISTS} "
            f"from {operand.name}",
            operand.by,
        )

    def _calculated(
        self, operator: str, left: _Rows | _Constant, right: _Rows | _Constant
    ) -> _Rows | _Constant:
        match left, right:
            case _Constant(), _Constant():
                return _Constant(arithmetic(operator, left.sql, right.sql))
            case _Rows(), _Constant():
                tables, by = f"{left.name} a", left.by
                sides = ("a.v", right.sql), ("a.m", f"abs({right.sql})")
            case _Constant(), _Rows():
                tables, by = f"{right.name} a", right.by
                sides = (left.sql, "a.v"), (f"abs({left.sql})", "a.m")
            case _Rows(), _Rows():
                wide, narrow = (left, right) if set(right.by) <= set(left.by) else (right, left)
                on = met(narrow.by, "a", "b")
                tables, by = f"{wide.name} a join {narrow.name} b on {on}", wide.by
                one, other = ("a", "b") if wide is left else ("b", "a")
                sides = (f"{one}.v", f"{other}.v"), (f"{one}.m", f"{other}.m")
            case _:
                raise AssertionError(left, right)
        (lv, rv), (lm, rm) = sides
        size = {
            "*": f"({lm}) * ({rm})",
            "/": f"({lm}) / abs({rv}) * (1 + ({rm}) / abs({rv}))",
        }.get(operator, f"({lm}) + ({rm})")
        keys = "".join(f", a.{key_column(name)}" for name in by)
        return self._made(
            f"select a.t{keys}, {arithmetic(operator, lv, rv)} as v, {size} as m, {_NO_LISTS} "
            f"from {tables}",
            by,
        )

    def _filtered(self, rows: _Rows, condition: ast.Condition, place: _Place) -> _Rows:
        joins: list[str] = []

        def meaning(node: ast.Expression) -> Operand:
            match node:
                case ast.Elided():
                    return Operand(number="base.v")
                case ast.Name(name) if name not in self.metrics:
                    return attribute(f"base.{key_column(canonical(name))}")
            found = self._value(node, place)
            if isinstance(found, _Constant):
                return Operand(number=found.sql)
            alias = f"j{len(joins)}"
            on = met(found.by, "base", alias)
            joins.append(f"left join {found.name} {alias} on {on}")
            return Operand(number=f"{alias}.v")

        said = holds(condition, meaning)
        return self._made(
            f"select base.* from {rows.name} base {' '.join(joins)} where {said}", rows.by
        )

    def _finished(self, grouped: str, formula: Formula, by: tuple[str, ...]) -> _Rows:
        return self._made(
            f"select t{key_columns(by)}, ({formula.value})::double as v, {formula.size} as m, "
            f"{formula.values} as vals, {formula.low} as low, {formula.high} as high "
            f"from ({grouped})",
            by,
        )

    def _made(self, sql: str, by: tuple[str, ...]) -> _Rows:
        """Add a table expression; what has no value is no row of it."""
        name = f"r{len(self.parts)}"
        self.parts.append(f"{name} as (select * from ({sql}) where isfinite(v))")
        return _Rows(name, by)
