"""The SQL of an insight: its expression, and its conditions on points and results."""

# ruff: noqa: S608 - the texts are drawn in tests
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from analytics.plan.attributes import canonical
from grammar import ast
from grammar.trees import map_children, walk
from tests.oracle.columns import attribute_column, attribute_text, key_column, key_columns, met
from tests.oracle.conditions import Operand, attribute, holds, leaves
from tests.oracle.functions import ACCUMULATED, BOUNDED, CORRELATION, FORMULAS, SINGLE
from tests.oracle.readings import CURRENT_MS, EvaluationContext, Reading
from tests.oracle.rows import NO_LISTS, Constant, Rows, Tables
from tests.oracle.ticks import every_of


def _terms(when: ast.Condition | None) -> tuple[ast.Condition, ...]:
    return () if when is None else when.terms if isinstance(when, ast.AndCondition) else (when,)


def _operand(rows: Rows, alias: str) -> Operand:
    if rows.texts:
        return Operand(text=f"to_json({alias}.v)::varchar")
    return Operand(number=f"{alias}.v")


@dataclass(frozen=True, slots=True)
class Query:
    """Builds the SQL of one insight, which may refer to the other ``insights``."""

    insights: Mapping[str, ast.InsightStatement]
    reading: Reading
    tables: Tables = field(default_factory=Tables)

    def of(self, insight: ast.InsightStatement) -> tuple[str, tuple[str, ...]]:
        """Return the SQL of an insight's results, and the attributes of their keys."""
        rows = self._insight(insight)
        keys = key_columns(rows.by)
        selected = f"select t, v, m, vals, low, high{keys} from {rows.name}"
        parts = [*self.reading.times(rows.by), *self.tables.parts]
        return f"with {', '.join(parts)} {selected} where t > {self.reading.since}", rows.by

    def _insight(self, insight: ast.InsightStatement, shift_ms: int = 0, hold_ms: int = 0) -> Rows:
        by = tuple(sorted({canonical(name) for name in insight.by}))
        # An insight without EVERY is evaluated at the ticks of the insight that refers to it.
        span_ms = every_of(insight) or self.reading.every_ms or CURRENT_MS
        context = EvaluationContext(by, span_ms, shift_ms=shift_ms, hold_ms=hold_ms)
        if insight.when is not None:
            insight = replace(insight, when=self._within_stream(insight.when, insight.expression))
        results: list[ast.Condition] = []
        for option in insight.options:
            match option:
                case ast.Outliers():
                    context = replace(context, outliers=(float(option.k or 0), option.r or 0.0))
                case ast.SampleOption() | ast.Accuracy():
                    context = replace(context, sampled=True)
                case ast.Allow(when):
                    for term in _terms(when):
                        if all(isinstance(leaf, ast.Name) for leaf in leaves(term)):
                            context = replace(context, allowed=(*context.allowed, term))
                        else:
                            results.append(self._within_stream(term, insight.expression))
        conditions = [*_terms(insight.when), *results]
        latest = self._latest_for(insight.expression, conditions or [*context.allowed])
        if latest is not None:
            latest = self._of_stream(insight.expression, latest)
        self._check_allowed(insight, context.allowed, latest)
        if results:
            read = latest or next(self._metrics_in(insight.expression), None)
            context = replace(context, latest=read)
        if latest is not None:
            refs = [leaf for each in conditions for leaf in leaves(each)]
            names = [leaf.name for leaf in refs if isinstance(leaf, ast.InsightReference)]
            further = {canonical(key) for name in names for key in self.insights[name].by}
            context = replace(context, by=tuple(sorted({*context.by, *further})))
        return self._filtered_values(insight.expression, insight.when, results, context, latest)

    def _check_allowed(
        self,
        insight: ast.InsightStatement,
        terms: tuple[ast.Condition, ...],
        latest: ast.MetricStream | None,
    ) -> None:
        """Raise ``ValueError`` if ALLOW names a metric that the insight does not read."""
        clauses = (insight.expression, *_terms(insight.when))
        nodes = [node for clause in clauses for node in walk(clause)]
        read = {each.metric for each in nodes if isinstance(each, ast.MetricStream)}
        read |= {each.name for each in nodes if isinstance(each, ast.Name)}
        read |= {latest.metric} if latest is not None else set()
        for leaf in (leaf for term in terms for leaf in leaves(term)):
            if isinstance(leaf, ast.Name) and leaf.name in self.reading.metrics - read:
                raise ValueError(f"ALLOW names {leaf.name}, which {insight.name} does not read")

    def _latest_for(
        self, node: ast.Expression, conditions: list[ast.Condition]
    ) -> ast.MetricStream | None:
        """Return the metric from whose latest points an insight takes the value of an attribute.

        An insight such as ``COMPUTE rack WHEN x > 0`` computes an attribute instead of a metric.
        The returned metric is the first metric in the conditions, or else the first metric of an
        insight in the conditions. Returns None for all other insights.
        """
        if not isinstance(node, ast.Name) or node.name in self.reading.metrics:
            return None
        if any(ast.Elided() in leaves(each) for each in conditions):
            return None
        found = [metric for each in conditions for metric in self._metrics_in(each)]
        if not found:
            names = [leaf for each in conditions for leaf in leaves(each)]
            for leaf in names:
                if isinstance(leaf, ast.InsightReference):
                    found += self._metrics_in(self.insights[leaf.name].expression)
        return next(iter(found), None)

    def _metrics_in(self, node: ast.Condition | ast.Expression) -> Iterator[ast.MetricStream]:
        for leaf in leaves(node):
            match leaf:
                case ast.Name(name) if name in self.reading.metrics:
                    yield ast.MetricStream(name)
                case ast.MetricStream():
                    yield leaf
                case ast.FunctionCall(_, arguments):
                    for argument in arguments:
                        yield from self._metrics_in(argument)
                case ast.Scoped(expression):
                    yield from self._metrics_in(expression)

    def _filtered_values(
        self, node: ast.Expression, when: ast.Condition | None, more: list[ast.Condition],
        context: EvaluationContext, latest: ast.MetricStream | None = None,
    ) -> Rows:  # fmt: skip
        """Return the values of an expression, restricted by the conditions ``when`` and ``more``.

        The terms of ``when`` about points select points; the terms about results, and ``more``,
        select values. If ``latest`` is given, the expression is an attribute, and its values are
        those at the latest points of the metric ``latest``.
        """
        keys = {*context.by, *self._inner_keys(node)}
        results = list(more)
        for term in _terms(when):
            names = {leaf.name for leaf in leaves(term) if isinstance(leaf, ast.Name)}
            if any(canonical(name) not in keys for name in names - self.reading.metrics):
                context = replace(context, conditions=(*context.conditions, term))
            else:
                results.append(term)
        if latest is None:
            rows = self._value(node, context)
        else:
            assert isinstance(node, ast.Name), node
            rows = self._at_latest(node.name, latest, context)
        assert isinstance(rows, Rows), node
        for term in results:
            # The elided side is the unfiltered value, for every term.
            rows = self._filtered(rows, term, context)
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
            case ast.FunctionCall("GEOHASH", (latitude, longitude)):
                yield from self._inner_keys(latitude)
                yield from self._inner_keys(longitude)
            case ast.FunctionCall(function, arguments) if function in SINGLE:
                yield from self._inner_keys(arguments[0])
            case ast.InsightReference(name):
                other = self.insights[name]
                yield from map(canonical, other.by)
                yield from self._inner_keys(other.expression)
            case _:
                return

    def _value(self, node: ast.Expression, context: EvaluationContext) -> Rows | Constant:
        match node:
            case ast.Number(value):
                return Constant(f"({value!r})::double")
            case ast.Name(name):
                return self._of_points("LATEST", ast.MetricStream(name), node, (), context)
            case ast.MetricStream():
                return self._of_points("LATEST", node, node, (), context)
            case ast.Scoped():
                by = tuple(sorted({*context.by, *map(canonical, node.by)}))
                return self._filtered_values(
                    node.expression, node.when, [], replace(context, by=by)
                )
            case ast.InsightReference(name):
                other = self.insights[name]
                every, own = every_of(other), self.reading.every_ms
                hold = every if every and own and own % every else 0
                return self._insight(other, context.shift_ms, hold or context.hold_ms)
            case ast.Negate(operand):
                return self.tables.mapped(self._value(operand, context), "-v", "m")
            case ast.Binary():
                sides = self._value(node.left, context), self._value(node.right, context)
                return self.tables.calculated(node.operator, *sides)
            case ast.FunctionCall("GEOHASH", (position,), (ast.Number(n),)):
                return self._position(position, n, context)
            case ast.FunctionCall("GEOHASH", (latitude, longitude), (ast.Number(n),)):
                sides = self._value(latitude, context), self._value(longitude, context)
                return self.tables.calculated(f"GEOHASH[{n:.0f}]", *sides)
            case ast.FunctionCall(function, arguments) if function in SINGLE:
                return self.tables.mapped(self._value(arguments[0], context), *SINGLE[function])
            case ast.FunctionCall():
                return self._function(node, context)
            case _:
                raise AssertionError(node)

    def _at_latest(self, name: str, latest: ast.MetricStream, context: EvaluationContext) -> Rows:
        """Return the value of a stream, or of an attribute, at the latest points of a metric."""
        if name not in self.reading.streams:
            return self._attribute(canonical(name), latest, context)
        return self._of_points("LATEST", latest, latest, (), context)

    def _within_stream(self, when: ast.Condition, node: ast.Expression) -> ast.Condition:
        """Restrict all metrics in a condition to the stream ``node``, if COMPUTE names one."""
        if not isinstance(node, ast.Name) or node.name not in (
            self.reading.streams.keys() - self.reading.metrics
        ):
            return when

        def restricted(each: ast.SyntaxNode) -> ast.SyntaxNode:
            match each:
                case ast.Name(name) if name in self.reading.metrics:
                    return self._of_stream(node, ast.MetricStream(name))
                case ast.MetricStream():
                    return self._of_stream(node, each)
            return map_children(each, restricted)

        return map_children(when, restricted)

    def _of_stream(self, node: ast.Expression, latest: ast.MetricStream) -> ast.MetricStream:
        """Return the points of a metric that belong to the stream that COMPUTE names, if any."""
        stream = self.reading.streams.get(node.name) if isinstance(node, ast.Name) else None
        if stream is None:
            return latest
        terms = [ast.ListMembership(ast.Name(each.key), each.values) for each in stream.settings]
        return replace(latest, when=ast.AndCondition((*_terms(latest.when), *terms)))

    def _position(
        self, argument: ast.Expression, characters: float, context: EvaluationContext
    ) -> Rows:
        """Return the geohashes of positions that are texts of a metric, or two attributes."""
        assert isinstance(argument, ast.Name | ast.MetricStream), argument
        is_name = isinstance(argument, ast.Name)
        latest = ast.MetricStream(argument.name) if is_name else argument
        definition = self.reading.streams.get(latest.metric)
        if definition is not None:
            given = {each.key: each.values[0].value for each in definition.settings}
            latest = replace(latest, metric=str(given["metric"]))
            texts = [attribute_text(str(given[name])) for name in ("latitude", "longitude")]
            text = " || ',' || ".join(f"({each})" for each in texts)
        else:
            text = attribute_text(latest.metric)
        rows = self._at_latest_point(text, latest, context)
        parts = [f"split_part(trim(v, '[] '), ',', {part})" for part in (1, 2)]
        degrees = [f"try_cast(trim({part}) as double)" for part in parts]
        return self.tables.made(
            f"select t{key_columns(rows.by)}, "
            f"geohash({', '.join(degrees)}, {characters:.0f}) as v, 1 as m, {NO_LISTS} "
            f"from {rows.name}",
            rows.by,
            texts=True,
        )

    def _attribute(
        self,
        name: str,
        latest: ast.MetricStream,
        context: EvaluationContext,
        form: Callable[[str], str] = attribute_text,
    ) -> Rows:
        """Return an attribute at the latest point of each window, as the SQL ``form``."""
        is_text = f"({attribute_column(name)})[1] = '\"'"
        order = f"{attribute_text(name)} nulls last, {is_text}"
        return self._at_latest_point(form(name), latest, context, order)

    def _at_latest_point(
        self, text: str, latest: ast.MetricStream, context: EvaluationContext, order: str = ""
    ) -> Rows:
        """Return the value of the SQL ``text`` at the latest point of each window.

        ``order``: the SQL of the order of points with equal times and values; else, by the text.
        """
        last = order or f"{text} nulls last"
        selected = f"list({text} order by ts desc, value desc, {last})[1]"
        window = self.reading.window(latest, latest, context)
        keys = key_columns(context.by)
        return self.tables.made(
            f"select t{keys}, {selected} as v, 1 as m, {NO_LISTS} from ({window}) group by t{keys}",
            context.by,
            texts=True,
        )

    def _function(self, call: ast.FunctionCall, context: EvaluationContext) -> Rows:
        streams = [
            ast.MetricStream(each.name) if isinstance(each, ast.Name) else each
            for each in call.arguments
            if isinstance(each, ast.Name | ast.MetricStream)
        ]
        parameters = tuple(each.value for each in call.parameters if isinstance(each, ast.Number))
        if call.function == "OUTLIER_DETECTION":
            parameters = context.outliers
        if len(streams) < len(call.arguments):
            if call.window or call.function in ("CORRELATION", "FORECAST", "RATE"):
                return self._over_ticks(call, parameters, context)
            streams = []
        if call.function == "CORRELATION":
            return self._correlation(call, streams, context)
        if call.function == "GAP":
            return self._gap(call, streams, context)
        if streams:
            return self._of_points(call.function, streams[0], call, parameters, context)
        operand = self._value(call.arguments[0], context)
        assert isinstance(operand, Rows), call
        formula = FORMULAS[call.function](parameters)
        keys = key_columns(context.by)
        return self.tables.finished(
            f"select t{keys}, list(v order by v) as l, max(m) as mm, count(*) as n "
            f"from {operand.name} group by t{keys}",
            formula,
            context.by,
        )

    def _over_ticks(
        self, call: ast.FunctionCall, parameters: tuple[float, ...], context: EvaluationContext
    ) -> Rows:
        """Return the values of a function over the values that its arguments have at ticks."""
        every = context.span_ms  # of the insight that contains the call
        count = -(-call.window.millis // every) if call.window else 60
        first = call.offset.millis if call.offset else 0
        keys = key_columns(context.by)
        series = []
        for argument in call.arguments:
            parts = []
            for number in range(count):
                shift = context.shift_ms + first + number * every
                rows = self._value(argument, replace(context, shift_ms=shift))
                assert isinstance(rows, Rows), argument
                ts = f"t - {number * every} as ts"
                parts.append(f"select t{keys}, {ts}, v, m from {rows.name}")
            series.append(" union all ".join(parts))
        if len(series) > 1:
            one, other = series
            mine = "".join(f", a.{key_column(name)}" for name in context.by)
            values = CORRELATION.replace("a.value", "a.v").replace("b.value", "b.v")
            return self.tables.made(
                f"select a.t{mine}, {values} as v, 1 as m, {NO_LISTS} from ({one}) a "
                f"join ({other}) b on a.ts = b.ts and {met(context.by, 'a', 'b')} "
                f"group by a.t{mine}",
                context.by,
            )
        packed = "struct_pack(ts := ts, value := v, entity := '')"
        return self.tables.finished(
            f"select t{keys}, list(v order by v) as l, max(m) as mm, count(*) as n, "
            f"list({packed} order by ts, v) as p from ({series[0]}) group by t{keys}",
            FORMULAS[call.function](parameters),
            context.by,
        )

    def _of_points(
        self, function: str, stream: ast.MetricStream, node: ast.SyntaxNode,
        parameters: tuple[float, ...], context: EvaluationContext,
    ) -> Rows:  # fmt: skip
        keys = key_columns(context.by)
        formula = FORMULAS[function](parameters)
        if context.sampled and function in BOUNDED:
            formula = replace(formula, low=formula.value, high=formula.value)
        window, new = self.reading.window(stream, node, context), ""
        if function in ACCUMULATED:
            window = self.reading.so_far(stream, context)
            new = f"having max(ts) > t - {self.reading.every_ms or 1}"
        points = (
            ", list(struct_pack(ts, value, entity) order by ts, entity, value) as p"
            if formula.of_points
            else ""
        )
        return self.tables.finished(
            f"select t{keys}, list(value order by value) as l, max(abs(value)) as mm, "
            f"count(*) as n{points} from ({window}) group by t{keys} {new}",
            formula,
            context.by,
        )

    def _correlation(
        self, call: ast.FunctionCall, streams: list[ast.MetricStream], context: EvaluationContext
    ) -> Rows:
        one, other = (self.reading.window(stream, call, context) for stream in streams)
        keys = "".join(f", a.{key_column(name)}" for name in context.by)
        return self.tables.made(
            f"select a.t{keys}, {CORRELATION} as v, 1 as m, {NO_LISTS} "
            f"from ({one}) a join ({other}) b "
            f"on a.ts = b.ts and a.entity = b.entity and {met(context.by, 'a', 'b')} "
            f"group by a.t{keys}",
            context.by,
        )

    def _gap(
        self, call: ast.FunctionCall, streams: list[ast.MetricStream], context: EvaluationContext
    ) -> Rows:
        keys = key_columns(context.by)
        one, other = (
            f"(select t{keys}, median(value) as v, max(abs(value)) as m "
            f"from ({self.reading.window(stream, call, context)}) group by t{keys})"
            for stream in streams
        )
        mine = "".join(f", a.{key_column(name)}" for name in context.by)
        return self.tables.made(
            f"select a.t{mine}, abs(a.v - b.v) as v, a.m + b.m as m, {NO_LISTS} "
            f"from {one} a join {other} b on {met(context.by, 'a', 'b')}",
            context.by,
        )

    def _filtered(self, rows: Rows, condition: ast.Condition, context: EvaluationContext) -> Rows:
        joins: list[str] = []

        def meaning(node: ast.Expression) -> Operand:
            match node:
                case ast.Elided():
                    return _operand(rows, "base")
                case ast.Name(name) if (
                    canonical(name) not in rows.by
                    and name not in self.reading.metrics
                    and context.latest is not None
                ):
                    read = self._attribute(
                        canonical(name), context.latest, context, attribute_column
                    )
                    alias = f"j{len(joins)}"
                    joins.append(f"left join {read.name} {alias} on {met(read.by, 'base', alias)}")
                    return attribute(f"{alias}.v")
                case ast.Name(name) if (
                    canonical(name) in rows.by or name not in self.reading.metrics
                ):
                    return attribute(f"base.{key_column(canonical(name))}")
            found = self._value(node, context)
            if isinstance(found, Constant):
                return Operand(number=found.sql)
            alias = f"j{len(joins)}"
            on = met(found.by, "base", alias)
            joins.append(f"left join {found.name} {alias} on {on}")
            return _operand(found, alias)

        condition_sql = holds(condition, meaning)
        return self.tables.made(
            f"select base.* from {rows.name} base {' '.join(joins)} where {condition_sql}",
            rows.by,
            texts=rows.texts,
        )
