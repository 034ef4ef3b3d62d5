"""Composition: from the windows of a tick to the results of insights.

All windows of a tick close together, so composing them needs no state but that of accumulators:
it is a function of that and of the rows at hand, the same in a stream and in a batch.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics_worker.accumulating.accumulators import (
    Accumulator,
    Said,
    States,
    accumulate,
    at_each_point,
    at_ticks,
)
from analytics_worker.at_points import Held, Moment, finish_at, passing
from analytics_worker.composed import Part, composed_of
from analytics_worker.finishing import Finished, finish, reduce_values
from analytics_worker.labels import labels, seen_at_moments, seen_at_ticks
from analytics_worker.sampled import finish_sample
from analytics_worker.troubles import Tell, Trouble, trouble_of, unheard
from mistbow.operators.geohash import geohash
from mistbow.operators.points import Floats
from mistbow.panes.mathematical import MATHEMATICAL
from mistbow.panes.predicates import (
    ARITHMETIC_ARRAYS,
    COMPARE_ARRAYS,
    is_number,
    number_for_all,
    same_for_all,
    text_for_all,
)
from mistbow.panes.routing import key_of
from mistbow.plan.contents import CONTENT_OF, CONTENTS
from mistbow.plan.expressions import (
    ACCUMULATING,
    And,
    Arithmetic,
    Attribute,
    Comparison,
    Expression,
    Filtered,
    Geohash,
    Label,
    Mapped,
    Measure,
    Membership,
    Negation,
    Not,
    Or,
    Reduction,
    Scalar,
    UserOperator,
    is_condition,
    is_text,
    walk,
)
from mistbow.plan.nodes import Counted, Insight, Plan, expressions_of
from mistbow.plan.resumption import windows_of
from mistbow.plan.sampling import ByLot
from mistbow.plan.ticks import Ticks

_AT = ["tick", "key"]
_NUMBER, _TEXT = pa.float64(), pa.string()
_FOR_ALL = {_NUMBER: number_for_all, _TEXT: text_for_all}


def compose(windows: pa.Table, plan: Plan, states: States, tell: Tell = unheard) -> pa.Table:
    """Return what the plan's insights say of these windows (``WINDOWED``), as ``COMPOSED``.

    What accumulates goes on from the ``states`` before each tick, and puts those after it. What
    operators of other packages leave unanswered is missing, and told.
    """
    held = _by_window(windows, plan)
    shared = _Scope(held, plan, states)
    parts = []
    for insight in plan.insights:
        # Most insights have no tick in most batches.
        if not any(held[window].num_rows for window in windows_of(insight)):
            continue
        scope = _Scope(held, plan, states, insight) if insight.each_point else shared
        parts.append(_compose_one(scope, insight))
        trouble = scope.trouble(insight)
        if trouble is not None:
            tell(insight.uid, trouble)
    return composed_of(parts)


def _by_window(windows: pa.Table, plan: Plan) -> dict[str, pa.Table]:
    """Return the rows of each window of the plan, in their order."""
    places = windows["window"].to_numpy()
    order = np.argsort(places, kind="stable")
    bounds = np.searchsorted(places[order], np.arange(len(plan.windows) + 1))
    ordered = windows.drop_columns(list(CONTENTS)).take(order)
    return {
        # What has lists is made anew: a slice of theirs has bounds of the whole.
        window.id: windows.take(order[start:end])
        if window.contents
        else ordered.slice(start, end - start)
        for window, (start, end) in zip(plan.windows, pairwise(bounds.tolist()), strict=True)
    }


def _compose_one(scope: "_Scope", insight: Insight) -> Part:
    """Return what an insight says at all ticks and keys, and which of it is shown."""
    result = scope.evaluate(insight.expression)
    chosen = None if insight.filter is None else scope.holds(insight.filter, result)
    return Part(insight, result.rows, result.said, chosen)


@dataclass(frozen=True, slots=True, eq=False)
class _Keyed:
    """What is said for each (tick, key) in ``rows``; the keys have the attributes ``by``."""

    rows: pa.Table
    said: Finished
    by: frozenset[str]

    @property
    def values(self) -> Any:
        """The value for each row."""
        return self.said.value

    def told(self, values: Any) -> "_Keyed":
        """Return other values for the same rows."""
        return replace(self, said=Finished(values))


class _Scope:
    """Evaluates expressions over the windows at hand, each distinct one once.

    Those of an ``insight`` that has a value at each point are evaluated at all points of any of
    its windows: there, operands meet.
    """

    def __init__(
        self,
        windows: Mapping[str, pa.Table],
        plan: Plan,
        states: States,
        insight: Insight | None = None,
    ) -> None:
        self._windows = windows
        self._states = states
        self._insight = insight
        self._shapes = {window.id: window for window in plan.windows}
        self._points: dict[str, Held] = {}
        self._moments: dict[frozenset[str], list[Moment]] = {}
        panes = {pane.id: pane for pane in plan.panes}
        self._by = {window.id: frozenset(panes[window.pane].by) for window in plan.windows}
        self._sources = {window.id: panes[window.pane].source for window in plan.windows}
        self._rows: dict[str, pa.Table] = {}
        self._known: dict[Expression, _Keyed] = {}

    def evaluate(self, expression: Expression) -> _Keyed:
        """Return the values of an expression that reads windows."""
        known = self._known.get(expression)
        if known is None:
            known = self._known[expression] = _finite(self._evaluate(expression))
        return known

    def trouble(self, insight: Insight) -> Trouble | None:
        """Return what operators of other packages left unanswered for an insight, if it has any."""
        asked = [
            (str(node.function), known.rows, known.said.problems)
            for node in expressions_of(insight)
            if isinstance(node, Measure | Reduction) and isinstance(node.function, UserOperator)
            if (known := self._known.get(node)) is not None
        ]
        return trouble_of(asked)

    def _evaluate(self, expression: Expression) -> _Keyed:
        match expression:
            case Measure():
                return self._measure(expression)
            case Negation():
                operand = self.evaluate(expression.operand)
                return operand.told(pc.negate(operand.values))
            case Mapped():
                operand = self.evaluate(expression.operand)
                return operand.told(MATHEMATICAL[expression.function](operand.values))
            case Arithmetic():
                base, left, right = self._met(expression.left, expression.right)
                return base.told(ARITHMETIC_ARRAYS[expression.operator](left, right))
            case Geohash():
                return self._geohash(expression)
            case Label():
                return self._label(expression)
            case Reduction():
                return self._reduction(expression)
            case Filtered():
                operand = self.evaluate(expression.operand)
                chosen = self.holds(expression.condition, operand)
                return _Keyed(operand.rows.filter(chosen), operand.said.filter(chosen), operand.by)
            case _:
                raise TypeError(f"{type(expression).__name__} has no value at a tick")

    def holds(self, condition: Expression, base: _Keyed) -> Any:
        """Return for each row of ``base`` whether a condition holds there; no nulls."""
        if not _reads_windows(condition):
            return _of_key(condition, base.rows)
        match condition:
            case And():
                return pc.and_(self.holds(condition.left, base), self.holds(condition.right, base))
            case Or():
                return pc.or_(self.holds(condition.left, base), self.holds(condition.right, base))
            case Not():
                return pc.invert(self.holds(condition.operand, base))
            case Comparison():
                kind = _kind(condition.left, condition.right)
                left = self._at(condition.left, base, kind)
                right = self._at(condition.right, base, kind)
                return pc.fill_null(COMPARE_ARRAYS[condition.operator](left, right), False)
            case Membership():
                kind = _kind(condition.operand)
                wanted = [o for o in condition.options if _is_of(o, kind)]
                return pc.is_in(self._at(condition.operand, base, kind), pa.array(wanted, kind))
            case _:
                raise TypeError(f"{type(condition).__name__} is no condition")

    def _at(self, expression: Expression, base: _Keyed, kind: pa.DataType = _NUMBER) -> Any:
        """Return the value that an expression has for each row of ``base``, null for none.

        What depends on the key alone may be of another kind: then it is none.
        """
        if _is_constant(expression):
            return _constant(expression, kind)
        if not _reads_windows(expression):
            return _of_key(expression, base.rows, kind)
        found = self.evaluate(expression)
        if found.rows is base.rows:
            return found.values
        met = _projected(base, found.by).append_column("at", _numbers(base.rows))
        known = found.rows.select(_AT).append_column("value", found.values)
        return met.join(known, keys=_AT, use_threads=False).sort_by("at")["value"]

    def _measure(self, measure: Measure) -> _Keyed:
        by = self._by[measure.window]
        if measure.function in ACCUMULATING:
            _, said = self._accumulated(measure)
            if self._insight is None:
                return _Keyed(*at_ticks(said), by)
            rows, finished = at_each_point(said)
            if self._insight.counted is not None:
                meant = _among(rows, self._moments_of(by))
                rows, finished = rows.filter(meant), finished.filter(meant)
            return _Keyed(rows, finished, by)
        if self._insight is not None:
            held = [self._held(id) for id in (measure.window, measure.other) if id is not None]
            return _Keyed(*finish_at(measure, held, self._moments_of(by)), by)
        rows = self._window(measure.window)
        sampling = self._sources[measure.window].sampling
        if isinstance(sampling, ByLot):
            function = measure.function
            if not isinstance(function, UserOperator) and CONTENT_OF[function] is None:
                return _Keyed(rows, finish_sample(function, rows, sampling), by)
            rows = rows.filter(pc.greater(rows["count"], 0))
        if measure.other is not None:
            rows = _paired(rows, self._window(measure.other))
        return _Keyed(rows, finish(measure.function, rows, measure.parameters), by)

    def _met(self, left: Expression, right: Expression) -> tuple[_Keyed, Any, Any]:
        """Return what has the keys at which two operands meet, and the values of both there."""
        # What depends on the key alone is the same for every row: it need not be met.
        if not _reads_windows(left):
            other = self.evaluate(right)
            return other, self._at(left, other), other.values
        if not _reads_windows(right):
            one = self.evaluate(left)
            return one, one.values, self._at(right, one)
        one, other = self.evaluate(left), self.evaluate(right)
        if other.by <= one.by:
            return one, one.values, self._at(right, one)
        return other, self._at(left, other), other.values

    def _geohash(self, node: Geohash) -> _Keyed:
        base, *degrees = self._met(node.latitude, node.longitude)
        latitudes, longitudes = (_floats(each, base.rows.num_rows) for each in degrees)
        return base.told(pa.array(geohash(latitudes, longitudes, node.characters), _TEXT))

    def _label(self, node: Label) -> _Keyed:
        measure = node.latest
        if not isinstance(measure, Measure):
            raise TypeError(f"a label is of a metric, not of {type(measure).__name__}")
        by = frozenset(node.by)
        if self._insight is None:
            seen = seen_at_ticks(self._window(measure.window))
        else:
            seen = seen_at_moments(node, self._held(measure.window), self._moments_of(by))
        return _Keyed(*labels(node, seen), by)

    def _reduction(self, node: Reduction) -> _Keyed:
        operand = self.evaluate(node.operand)
        rows = _projected(operand, frozenset(node.by)).append_column("value", operand.values)
        held = rows.filter(pc.is_valid(operand.values))
        groups = held.group_by(_AT, use_threads=False).aggregate([("value", "list")])
        ticks = groups["tick"].to_pylist()
        said = reduce_values(node.function, groups["value_list"], node.parameters, ticks)
        return _Keyed(groups.select(_AT), said, frozenset(node.by))

    def _accumulated(self, measure: Expression) -> tuple[Accumulator, list[Said]]:
        if not isinstance(measure, Measure):
            raise TypeError(f"{type(measure).__name__} does not accumulate")
        accumulator = Accumulator.of(measure, self._shapes[measure.window])
        return accumulator, accumulate(accumulator, self._window(measure.window), self._states)

    def _passing(self, counted: Counted) -> list[Moment]:
        counts, said = zip(*map(self._accumulated, counted.counts), strict=True)
        return passing(counted.every, counts, said, self._states)

    def _held(self, window: str) -> Held:
        held = self._points.get(window)
        if held is None:
            held = self._points[window] = Held.of(self._shapes[window], self._window(window))
        return held

    def _moments_of(self, by: frozenset[str]) -> list[Moment]:
        """Return when keys of these attributes, or of more, have a point in any of the windows."""
        moments = self._moments.get(by)
        if moments is None:
            moments = self._moments[by] = self._find_moments(by)
        return moments

    def _find_moments(self, by: frozenset[str]) -> list[Moment]:
        assert self._insight is not None  # noqa: S101 - else there are ticks, no moments
        found: set[Moment] = set()
        if self._insight.counted is not None:
            found = {_shortened(moment, by) for moment in self._passing(self._insight.counted)}
            return sorted(found, key=lambda moment: (moment.ts, moment.key))
        for id in windows_of(self._insight):
            if by == self._by[id]:
                found |= set(self._held(id).moments())
            elif by < self._by[id]:
                found |= {_shortened(moment, by) for moment in self._held(id).moments()}
        return sorted(found, key=lambda moment: (moment.ts, moment.key))

    def _window(self, window: str) -> pa.Table:
        rows = self._rows.get(window)
        if rows is None:
            rows = _at_ticks(self._windows[window], self._shapes[window].ticks)
            self._rows[window] = rows
        return rows


def _at_ticks(rows: pa.Table, ticks: Ticks) -> pa.Table:
    """Leave out windows that end at no tick: where clocks change, they are of the other time."""
    if len(ticks.phases) == 1:
        return rows
    held = [tick for tick in pc.unique(rows["tick"]).to_pylist() if ticks.holds(tick)]
    return rows.filter(pc.is_in(rows["tick"], pa.array(held, pa.int64())))


def _among(rows: pa.Table, moments: Collection[Moment]) -> pa.BooleanArray:
    meant = {(moment.ts, moment.key) for moment in moments}
    places = zip(rows["tick"].to_pylist(), rows["key"].to_pylist(), strict=True)
    return pa.array([place in meant for place in places], pa.bool_())


def _shortened(moment: Moment, by: Collection[str]) -> Moment:
    attributes = msgspec.json.decode(moment.key, type=dict[str, Scalar | None])
    return replace(moment, key=key_of(attributes, sorted(by)))


def _paired(rows: pa.Table, other: pa.Table) -> pa.Table:
    """Return the windows that have a partner, with its points as ``points_of_other``."""
    numbered = rows.select(_AT).append_column("at", _numbers(rows))
    partners = other.select(_AT).append_column("partner", _numbers(other))
    joined = numbered.join(partners, keys=_AT, join_type="inner", use_threads=False)
    points = other["points"].take(joined["partner"])
    return rows.take(joined["at"]).append_column("points_of_other", points)


def _projected(keyed: _Keyed, by: Collection[str]) -> pa.Table:
    """Return the ticks and, of the keys, the attributes ``by``."""
    if keyed.by == by:
        return keyed.rows.select(_AT)
    keys = keyed.rows["key"].combine_chunks().dictionary_encode()
    short = pa.array([key_of(one, sorted(by)) for one in _attributes(keys)], pa.string())
    return pa.table({"tick": keyed.rows["tick"], "key": short.take(keys.indices)})


def _numbers(rows: pa.Table) -> pa.Array:
    return pa.array(range(rows.num_rows), pa.int64())


def _finite(keyed: _Keyed) -> _Keyed:
    """Leave out numbers that are none, which would differ from all others in a condition."""
    values = keyed.values
    if values.type == _TEXT:
        return keyed
    numbers = pc.if_else(pc.is_finite(values), values, pa.scalar(None, _NUMBER))
    return replace(keyed, said=replace(keyed.said, value=numbers))


def _floats(values: Any, rows: int) -> Floats:
    """Return numbers, or one for all rows, as an array; not a number for what is missing."""
    several = pa.repeat(values, rows) if isinstance(values, pa.Scalar) else values
    return np.asarray(pc.fill_null(several, math.nan), np.float64)


def _kind(*compared: Expression) -> pa.DataType:
    return _TEXT if any(map(is_text, compared)) else _NUMBER


def _is_of(option: Scalar, kind: pa.DataType) -> bool:
    return isinstance(option, str) if kind == _TEXT else is_number(option)


def _reads_windows(expression: Expression) -> bool:
    return any(isinstance(node, Measure) for node in walk(expression))


def _is_constant(expression: Expression) -> bool:
    return not any(isinstance(node, Measure | Attribute) for node in walk(expression))


def _constant(expression: Expression, kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(_FOR_ALL[kind](expression, {}), kind)


def _of_key(expression: Expression, rows: pa.Table, kind: pa.DataType = _NUMBER) -> Any:
    """Return what depends on the key alone, or on nothing: decided once a distinct key."""
    keys = rows["key"].combine_chunks().dictionary_encode()
    attributes = [
        {name: value for name, value in one.items() if value is not None}
        for one in _attributes(keys)
    ]
    if is_condition(expression):
        known = pa.array([same_for_all(expression, one) for one in attributes], pa.bool_())
    else:
        known = pa.array([_FOR_ALL[kind](expression, one) for one in attributes], kind)
    return known.take(keys.indices)


def _attributes(keys: pa.DictionaryArray) -> list[dict[str, Scalar | None]]:
    decoder = msgspec.json.Decoder(dict[str, Scalar | None])
    return [decoder.decode(key) for key in keys.dictionary.to_pylist()]
