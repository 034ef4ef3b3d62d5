"""The evaluation of a query's syntax tree on samples, at all timestamps at once."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import promql_parser as syntax

from storage_agent.promql import functions
from storage_agent.promql.aggregation import Grouping, aggregate
from storage_agent.promql.errors import PromqlError
from storage_agent.promql.matchers import Matcher
from storage_agent.promql.operators import (
    SET_OPERATORS,
    VectorMatching,
    scalar_binop,
    vector_binop,
    vector_scalar_binop,
    vector_set_op,
)
from storage_agent.promql.parse import (
    SampleRange,
    TimeRange,
    duration_ms,
    sample_range,
    selector_of,
    shift,
    step_of,
    subquery_range,
)
from storage_agent.promql.range_functions import RANGE_FUNCTIONS
from storage_agent.promql.samples import (
    LOOKBACK_MS,
    Ranges,
    Samples,
    UnsortedSamples,
    apply_range_function,
    lookup_instant,
    merge_samples,
    without_stale,
)
from storage_agent.promql.vectors import Floats, Ints, Vector, distinct, without_name

Value = Vector | Floats | str

_MATRIX = syntax.MatrixSelector | syntax.SubqueryExpr


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a query.

    ``samples``: the maximum number of samples in memory. ``deadline``: the time at which the
    evaluation must end (s, monotonic clock). ``remedy``: what allows for more time. ``abandoned``:
    set when no client waits for the answer.
    """

    samples: int
    deadline: float
    remedy: str = "raise MISTBOW_PROMQL_SECONDS"
    abandoned: threading.Event = field(default_factory=threading.Event)

    def check_time(self) -> None:
        """Raise ``PromqlError`` if the deadline has passed, or no client waits for the answer."""
        if self.abandoned.is_set() or time.monotonic() > self.deadline:
            raise self.timeout()

    def timeout(self) -> PromqlError:
        """Return the error for a query that runs beyond its deadline."""
        return PromqlError(
            f"the query takes too long: select a shorter time or fewer series, or {self.remedy}",
            "timeout",
        )

    def check_samples(self, count: int) -> None:
        """Raise ``PromqlError`` if ``count`` is greater than the maximum number of samples."""
        if count > self.samples:
            raise PromqlError(
                f"the query takes more than {self.samples} samples at once: select a shorter time, "
                "a longer step or fewer series, or raise MISTBOW_PROMQL_SAMPLES"
            )


class Evaluator:
    """Evaluates the expressions of a query on the samples that the query reads.

    ``query``: the first and last timestamp of the query, to which ``@ start()`` and ``@ end()``
    refer. ``data``: sample range -> its samples.
    """

    def __init__(
        self, query: TimeRange, data: Mapping[SampleRange, Samples], limits: Limits
    ) -> None:
        self._query = query
        self._data = data
        self._limits = limits

    def evaluate(self, node: syntax.Expr, times: Ints) -> Value:
        """Return the values of an expression at ``times``; raises ``PromqlError``.

        ``times``: timestamps (ms, ascending, at least one).
        """
        self._limits.check_time()
        match node:
            case syntax.NumberLiteral():
                return np.full(len(times), node.val)
            case syntax.StringLiteral():
                return node.val
            case syntax.ParenExpr():
                return self.evaluate(node.expr, times)
            case syntax.UnaryExpr():
                return self._negate(self.evaluate(node.expr, times))
            case syntax.VectorSelector():
                return self._eval_selector(node, times)
            case syntax.AggregateExpr():
                return self._eval_aggregation(node, times)
            case syntax.BinaryExpr():
                return self._eval_binary(node, times)
            case syntax.Call():
                return self._eval_call(node, times)
        raise PromqlError(f"an instant vector or a scalar is needed, not {node.prettify()}")

    def samples(self, node: _MATRIX, times: Ints) -> tuple[Samples, Ranges]:
        """Return the samples that a range vector reads, and its time range at each timestamp."""
        span = TimeRange(int(times[0]), int(times[-1]))
        range_ms = duration_ms(node.range)
        if isinstance(node, syntax.SubqueryExpr):
            inner = self._eval_subquery(node, subquery_range(node, span, self._query))
            return inner, Ranges(self._ends(node, times), times, range_ms)
        selector = node.vector_selector
        found = without_stale(self._data[sample_range(selector, span, self._query, range_ms)])
        return found, Ranges(self._ends(selector, times), times, range_ms)

    def _ends(self, node: syntax.VectorSelector | syntax.SubqueryExpr, times: Ints) -> Ints:
        """Return the timestamps (ms) at which a node is read, after ``@`` and ``offset``.

        ``times``: the timestamps at which the node is evaluated.
        """
        first = int(times[0])
        shifted = shift(node, TimeRange(first, int(times[-1])), self._query)
        return np.full(len(times), shifted.first) if node.at else times + (shifted.first - first)

    def _eval_selector(
        self, node: syntax.VectorSelector, times: Ints, *, timestamps: bool = False
    ) -> Vector:
        """Return the latest value of each selected series at each timestamp.

        Values that are older than the lookback are not present. ``timestamps``: True to return the
        times of these values (s) in place of the values.
        """
        span = TimeRange(int(times[0]), int(times[-1]))
        found = self._data[sample_range(node, span, self._query, LOOKBACK_MS)]
        self._limits.check_samples(len(found.labels) * len(times))
        index, present = lookup_instant(found, self._ends(node, times))
        source = found.ts / 1000 if timestamps else found.values
        values = source[index] if len(source) else np.zeros(index.shape)
        return distinct(Vector(found.labels, values, present))

    def _eval_subquery(self, node: syntax.SubqueryExpr, span: TimeRange) -> Samples:
        """Return the values of a subquery at each step in ``span``, as samples."""
        step = step_of(node)
        if span.first > span.last:
            return merge_samples([])
        self._limits.check_samples((span.last - span.first) // step + 1)
        times = np.arange(span.first, span.last + 1, step)
        vector = self._vector(node.expr, times)
        row, column = np.nonzero(vector.present)
        return merge_samples(
            [UnsortedSamples(vector.labels, row, times[column], vector.values[row, column])]
        )

    def _eval_over_range(
        self, name: str, node: syntax.Expr, times: Ints, params: Sequence[Floats] = ()
    ) -> Vector:
        """Apply a range function to a range vector; the result retains the metric names.

        ``name``: the name of the function. ``params``: the function's scalar arguments.
        """
        node = unwrap_parens(node)
        if not isinstance(node, _MATRIX):
            raise PromqlError(f"{name}() needs a range vector, not {node.prettify()}")
        found, ranges = self.samples(node, times)
        self._limits.check_samples(len(found.labels) * len(times))
        function = RANGE_FUNCTIONS[name]
        return apply_range_function(found, ranges, function, params, self._limits.check_time)

    def _eval_call(self, node: syntax.Call, times: Ints) -> Value:
        name, args = node.func.name, [unwrap_parens(arg) for arg in node.args]
        if name in RANGE_FUNCTIONS:
            return self._eval_range_function(name, args, times)
        if name in functions.ELEMENTWISE:
            return functions.map_values(self._vector(args[0], times), functions.ELEMENTWISE[name])
        if name in functions.WITH_SCALAR_ARGUMENTS:
            scalars = [self._scalar(arg, times) for arg in args[1:]]
            return functions.map_with_scalars(name, self._vector(args[0], times), scalars)
        if name in functions.DATE_PARTS:
            vector = self._vector(args[0], times) if args else _series_of(times / 1000)
            return functions.map_values(vector, functions.DATE_PARTS[name])
        if name == "time":
            return times / 1000
        if name == "pi":
            return np.full(len(times), np.pi)
        if name == "vector":
            return _series_of(self._scalar(args[0], times))
        if name == "histogram_quantile":
            quantile, vector = self._scalar(args[0], times), self._vector(args[1], times)
            return functions.histogram_quantile(quantile, vector, self._limits.check_time)
        if name == "absent_over_time":
            found = self._eval_over_range("present_over_time", args[0], times)
            return functions.absent(found, _matchers(args[0]))
        return self._eval_vector_function(name, args, times)

    def _eval_vector_function(self, name: str, args: Sequence[syntax.Expr], times: Ints) -> Value:
        if name == "timestamp" and isinstance(args[0], syntax.VectorSelector):
            found = self._eval_selector(args[0], times, timestamps=True)
            return functions.map_values(found, lambda values: values)
        vector = self._vector(args[0], times)
        texts = [str(self.evaluate(arg, times)) for arg in args[1:]]
        match name:
            case "timestamp":
                return functions.map_values(
                    vector, lambda values: np.broadcast_to(times / 1000, values.shape)
                )
            case "scalar":
                return functions.scalar(vector)
            case "absent":
                return functions.absent(vector, _matchers(args[0]))
            case "label_replace":
                return functions.label_replace(vector, texts)
            case "label_join":
                return functions.label_join(vector, texts)
            case _:
                return functions.sort_by_value(vector, descending=name == "sort_desc")

    def _eval_range_function(self, name: str, args: Sequence[syntax.Expr], times: Ints) -> Vector:
        matrix, scalars = args[0], args[1:]
        if name == "quantile_over_time":
            matrix, scalars = args[1], args[:1]
        params = [self._scalar(each, times) for each in scalars]
        result = self._eval_over_range(name, matrix, times, params)
        if name == "last_over_time":
            return distinct(result)
        labels = [without_name(each) for each in result.labels]
        return distinct(Vector(labels, result.values, result.present), strict=True)

    def _eval_aggregation(self, node: syntax.AggregateExpr, times: Ints) -> Vector:
        vector = self._vector(node.expr, times)
        op = str(node.op)
        names, by = frozenset[str](), True
        if node.modifier is not None:
            names = frozenset(node.modifier.labels)
            by = node.modifier.type == syntax.AggModifierType.By
        param = None if node.param is None else self.evaluate(node.param, times)
        if op == "count_values":
            functions.check_label(op, str(param))
        if isinstance(param, Vector):
            raise PromqlError(f"the parameter of {op}() must be a scalar")
        return aggregate(op, vector, Grouping(names, by), param, self._limits.check_samples)

    def _eval_binary(self, node: syntax.BinaryExpr, times: Ints) -> Value:
        left, right = self.evaluate(node.lhs, times), self.evaluate(node.rhs, times)
        op, modifier = str(node.op), node.modifier
        as_bool = modifier is not None and modifier.return_bool
        if isinstance(left, str) or isinstance(right, str):
            raise PromqlError(f"the operands of {op} must not be strings")
        if isinstance(left, Vector) and isinstance(right, Vector):
            matching = _matching(modifier)
            if op in SET_OPERATORS:
                return vector_set_op(op, left, right, matching)
            return vector_binop(op, left, right, matching, as_bool=as_bool)
        if isinstance(left, Vector) and not isinstance(right, Vector):
            return vector_scalar_binop(op, left, right, scalar_first=False, as_bool=as_bool)
        if isinstance(right, Vector) and not isinstance(left, Vector):
            return vector_scalar_binop(op, right, left, scalar_first=True, as_bool=as_bool)
        return scalar_binop(op, left, right)  # type: ignore[arg-type]

    def _negate(self, value: Value) -> Value:
        if isinstance(value, Vector):
            labels = [without_name(each) for each in value.labels]
            return distinct(Vector(labels, -value.values, value.present), strict=True)
        if isinstance(value, str):
            raise PromqlError("the operand of - must not be a string")
        return -value

    def _vector(self, node: syntax.Expr, times: Ints) -> Vector:
        value = self.evaluate(node, times)
        if not isinstance(value, Vector):
            raise PromqlError(f"an instant vector is needed, not {node.prettify()}")
        return value

    def _scalar(self, node: syntax.Expr, times: Ints) -> Floats:
        value = self.evaluate(node, times)
        if isinstance(value, Vector | str):
            raise PromqlError(f"a scalar is needed, not {node.prettify()}")
        return value


def _series_of(values: Floats) -> Vector:
    """Return a vector of a single series that has ``values`` and no labels."""
    return Vector([()], values[None, :], np.ones((1, len(values)), np.bool_))


def unwrap_parens(node: syntax.Expr) -> syntax.Expr:
    """Return an expression without the parentheses around it."""
    while isinstance(node, syntax.ParenExpr):
        node = node.expr
    return node


def _matchers(node: syntax.Expr) -> Sequence[Matcher]:
    if isinstance(node, syntax.MatrixSelector):
        node = node.vector_selector
    return selector_of(node).matchers if isinstance(node, syntax.VectorSelector) else ()


def _matching(modifier: syntax.BinModifier | None) -> VectorMatching:
    if modifier is None:
        return VectorMatching()
    names, on = frozenset[str](), False
    if modifier.matching is not None:
        names = frozenset(modifier.matching.labels)
        on = modifier.matching.type == syntax.LabelModifierType.Include
    include = tuple(modifier.group_labels or ())
    match str(modifier.card).rpartition(".")[2]:
        case "ManyToOne":
            return VectorMatching(names, on, "left", include)
        case "OneToMany":
            return VectorMatching(names, on, "right", include)
    return VectorMatching(names, on)
