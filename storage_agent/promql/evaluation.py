"""Evaluating the tree of a query over samples that were read, at all its times at once."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import promql_parser as syntax

from storage_agent.promql import functions
from storage_agent.promql.grouping import Grouping, aggregated
from storage_agent.promql.matching import Matcher
from storage_agent.promql.operators import (
    SET_OPERATORS,
    Matching,
    between_scalars,
    between_sets,
    between_vectors,
    with_scalar,
)
from storage_agent.promql.parsing import (
    Need,
    Span,
    duration_ms,
    need,
    selector_of,
    shifted,
    step_of,
    subquery_span,
)
from storage_agent.promql.problems import PromqlError
from storage_agent.promql.ranges import RANGE_FUNCTIONS
from storage_agent.promql.samples import (
    LOOKBACK_MS,
    Rows,
    Samples,
    at_times,
    collected,
    over_windows,
)
from storage_agent.promql.vectors import Floats, Ints, Vector, distinct, without_name

Value = Vector | Floats | str

_MATRIX = syntax.MatrixSelector | syntax.SubqueryExpr


@dataclass(frozen=True, slots=True)
class Limits:
    """Most samples, read or computed at once, and until when (monotonic, s) a query may run."""

    samples: int
    deadline: float

    def check_time(self) -> None:
        """Raise when the time is over."""
        if time.monotonic() > self.deadline:
            raise self.too_slow()

    def too_slow(self) -> PromqlError:
        """Return the error of a query that takes too long."""
        return PromqlError(
            "the query takes too long: ask for less time or fewer series, or raise "
            "MISTBOW_PROMQL_SECONDS",
            "timeout",
        )

    def check_samples(self, count: int) -> None:
        """Raise when there are too many."""
        if count > self.samples:
            raise PromqlError(
                f"the query takes more than {self.samples} samples at once: ask for less time, a "
                "longer step or fewer series, or raise MISTBOW_PROMQL_SAMPLES"
            )


class Evaluation:
    """One query's evaluation; ``query`` is what start() and end() mean."""

    def __init__(self, query: Span, data: Mapping[Need, Samples], limits: Limits) -> None:
        self._query = query
        self._data = data
        self._limits = limits

    def value(self, node: syntax.Expr, times: Ints) -> Value:
        """Return the value at some times (ms, in order, at least one)."""
        self._limits.check_time()
        match node:
            case syntax.NumberLiteral():
                return np.full(len(times), node.val)
            case syntax.StringLiteral():
                return node.val
            case syntax.ParenExpr():
                return self.value(node.expr, times)
            case syntax.UnaryExpr():
                return self._negative(self.value(node.expr, times))
            case syntax.VectorSelector():
                return self._selected(node, times)
            case syntax.AggregateExpr():
                return self._aggregated(node, times)
            case syntax.BinaryExpr():
                return self._binary(node, times)
            case syntax.Call():
                return self._called(node, times)
        raise PromqlError(f"an instant vector or a scalar is needed, not {node.prettify()}")

    def samples(self, node: _MATRIX, times: Ints) -> tuple[Samples, Ints, int]:
        """Return samples of a range, when the ranges of the times end, and how long they are."""
        span = Span(int(times[0]), int(times[-1]))
        range_ms = duration_ms(node.range)
        if isinstance(node, syntax.SubqueryExpr):
            ends = self._ends(node, times)
            return self._resolved(node, subquery_span(node, span, self._query)), ends, range_ms
        selector = node.vector_selector
        found = self._data[need(selector, span, self._query, range_ms)]
        return found, self._ends(selector, times), range_ms

    def _ends(self, node: syntax.VectorSelector | syntax.SubqueryExpr, times: Ints) -> Ints:
        """Return the times that a node looks at, moved by @ and offset."""
        first = int(times[0])
        moved = shifted(node, Span(first, int(times[-1])), self._query)
        return np.full(len(times), moved.first) if node.at else times + (moved.first - first)

    def _selected(self, node: syntax.VectorSelector, times: Ints, *, when: bool = False) -> Vector:
        """Return the samples that count; with ``when``, their times (s) as values."""
        span = Span(int(times[0]), int(times[-1]))
        found = self._data[need(node, span, self._query, LOOKBACK_MS)]
        self._limits.check_samples(len(found.labels) * len(times))
        index, present = at_times(found, self._ends(node, times))
        source = found.ts / 1000 if when else found.values
        values = source[index] if len(source) else np.zeros(index.shape)
        return distinct(Vector(found.labels, values, present))

    def _resolved(self, node: syntax.SubqueryExpr, span: Span) -> Samples:
        """Return the values of a subquery's expression as samples."""
        step = step_of(node)
        if span.first > span.last:
            return collected([])
        self._limits.check_samples((span.last - span.first) // step + 1)
        times = np.arange(span.first, span.last + 1, step)
        vector = self._vector(node.expr, times)
        row, column = np.nonzero(vector.present)
        return collected([Rows(vector.labels, row, times[column], vector.values[row, column])])

    def _over(self, name: str, node: syntax.Expr, times: Ints, param: Floats) -> Vector:
        """Return a function over the ranges of a matrix."""
        node = unwrapped(node)
        if not isinstance(node, _MATRIX):
            raise PromqlError(f"{name}() needs a range vector, not {node.prettify()}")
        found, ends, range_ms = self.samples(node, times)
        self._limits.check_samples(len(found.labels) * len(times))
        function = RANGE_FUNCTIONS[name]
        result = over_windows(found, ends, range_ms, function, param, self._limits.check_time)
        if name == "last_over_time":
            return distinct(result)
        labels = [without_name(each) for each in result.labels]
        return distinct(Vector(labels, result.values, result.present), ever=True)

    def _called(self, node: syntax.Call, times: Ints) -> Value:
        name, args = node.func.name, [unwrapped(arg) for arg in node.args]
        if name in RANGE_FUNCTIONS:
            return self._range_called(name, args, times)
        if name in functions.EACH:
            return functions.each_changed(self._vector(args[0], times), functions.EACH[name])
        if name in functions.WITH_SCALARS:
            scalars = [self._scalar(arg, times) for arg in args[1:]]
            return functions.with_scalars(name, self._vector(args[0], times), scalars)
        if name == "time":
            return times / 1000
        if name == "vector":
            ones = np.ones((1, len(times)), np.bool_)
            return Vector([()], self._scalar(args[0], times)[None, :], ones)
        if name == "histogram_quantile":
            quantile, vector = self._scalar(args[0], times), self._vector(args[1], times)
            return functions.histogram_quantile(quantile, vector)
        if name == "absent_over_time":
            found = self._over("present_over_time", args[0], times, times / 1000)
            return functions.absent(found, _matchers(args[0]))
        return self._of_vector(name, args, times)

    def _of_vector(self, name: str, args: Sequence[syntax.Expr], times: Ints) -> Value:
        if name == "timestamp" and isinstance(args[0], syntax.VectorSelector):
            found = self._selected(args[0], times, when=True)
            return functions.each_changed(found, lambda values: values)
        vector = self._vector(args[0], times)
        texts = [str(self.value(arg, times)) for arg in args[1:]]
        match name:
            case "timestamp":
                return functions.each_changed(vector, lambda values: values * 0 + times / 1000)
            case "scalar":
                return functions.scalar(vector)
            case "absent":
                return functions.absent(vector, _matchers(args[0]))
            case "label_replace":
                return functions.label_replace(vector, texts)
            case "label_join":
                return functions.label_join(vector, texts)
            case _:
                return functions.in_order(vector, descending=name == "sort_desc")

    def _range_called(self, name: str, args: Sequence[syntax.Expr], times: Ints) -> Vector:
        if name == "quantile_over_time":
            return self._over(name, args[1], times, self._scalar(args[0], times))
        param = self._scalar(args[1], times) if len(args) > 1 else times / 1000
        return self._over(name, args[0], times, param)

    def _aggregated(self, node: syntax.AggregateExpr, times: Ints) -> Vector:
        vector = self._vector(node.expr, times)
        op = str(node.op)
        names, by = frozenset[str](), True
        if node.modifier is not None:
            names = frozenset(node.modifier.labels)
            by = node.modifier.type == syntax.AggModifierType.By
        param = None if node.param is None else self.value(node.param, times)
        if op == "count_values":
            functions.check_label(op, str(param))
        if isinstance(param, Vector):
            raise PromqlError(f"{op}() needs a scalar")
        return aggregated(op, vector, Grouping(names, by), param)

    def _binary(self, node: syntax.BinaryExpr, times: Ints) -> Value:
        left, right = self.value(node.lhs, times), self.value(node.rhs, times)
        op, modifier = str(node.op), node.modifier
        as_bool = modifier is not None and modifier.return_bool
        if isinstance(left, str) or isinstance(right, str):
            raise PromqlError(f"{op} takes no text")
        if isinstance(left, Vector) and isinstance(right, Vector):
            matching = _matching(modifier)
            if op in SET_OPERATORS:
                return between_sets(op, left, right, matching)
            return between_vectors(op, left, right, matching, as_bool=as_bool)
        if isinstance(left, Vector) and not isinstance(right, Vector):
            return with_scalar(op, left, right, scalar_first=False, as_bool=as_bool)
        if isinstance(right, Vector) and not isinstance(left, Vector):
            return with_scalar(op, right, left, scalar_first=True, as_bool=as_bool)
        return between_scalars(op, left, right)  # type: ignore[arg-type]

    def _negative(self, value: Value) -> Value:
        if isinstance(value, Vector):
            labels = [without_name(each) for each in value.labels]
            return distinct(Vector(labels, -value.values, value.present), ever=True)
        if isinstance(value, str):
            raise PromqlError("- takes no text")
        return -value

    def _vector(self, node: syntax.Expr, times: Ints) -> Vector:
        value = self.value(node, times)
        if not isinstance(value, Vector):
            raise PromqlError(f"an instant vector is needed, not {node.prettify()}")
        return value

    def _scalar(self, node: syntax.Expr, times: Ints) -> Floats:
        value = self.value(node, times)
        if isinstance(value, Vector | str):
            raise PromqlError(f"a scalar is needed, not {node.prettify()}")
        return value


def unwrapped(node: syntax.Expr) -> syntax.Expr:
    """Return an expression without the brackets around it."""
    while isinstance(node, syntax.ParenExpr):
        node = node.expr
    return node


def _matchers(node: syntax.Expr) -> Sequence[Matcher]:
    if isinstance(node, syntax.MatrixSelector):
        node = node.vector_selector
    return selector_of(node).matchers if isinstance(node, syntax.VectorSelector) else ()


def _matching(modifier: syntax.BinModifier | None) -> Matching:
    if modifier is None:
        return Matching()
    names, on = frozenset[str](), False
    if modifier.matching is not None:
        names = frozenset(modifier.matching.labels)
        on = modifier.matching.type == syntax.LabelModifierType.Include
    include = tuple(modifier.group_labels or ())
    match str(modifier.card).rpartition(".")[2]:
        case "ManyToOne":
            return Matching(names, on, "left", include)
        case "OneToMany":
            return Matching(names, on, "right", include)
    return Matching(names, on)
