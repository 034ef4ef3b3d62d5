"""The engine that answers PromQL queries.

The engine reads the samples of a query, evaluates the query in a thread, and encodes the result as
JSON in Prometheus' format.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import anyio
import numpy as np
import promql_parser as syntax

from mistbow.runtime.collection import full_collections_paused, release
from storage_agent.promql.encode import Chunks, encode_items
from storage_agent.promql.errors import PromqlError, bad_data
from storage_agent.promql.evaluator import Evaluator, Limits, Value, unwrap_parens
from storage_agent.promql.labels import (
    Labels,
    format_number,
    omit_original_names,
    sort_labels,
)
from storage_agent.promql.parse import SampleRange, TimeRange, parse, required_samples
from storage_agent.promql.querier import Querier
from storage_agent.promql.samples import Samples, select_range
from storage_agent.promql.vectors import Floats, Ints, Vector
from storage_agent.settings import AgentSettings

MAX_POINTS_PER_SERIES = 11_000
"""The maximum number of values of a series in an answer, as in Prometheus."""

_MAX_CONCURRENT_QUERIES = 2
"""The maximum number of concurrent queries; further queries wait."""


@dataclass(frozen=True, slots=True)
class Query:
    """An instant query, or a range query, which is evaluated every ``step`` ms.

    ``start``, ``end``: the first and last timestamp (ms); equal in an instant query. ``step``: None
    in an instant query.
    """

    text: str
    start: int
    end: int
    step: int | None = None

    @property
    def times(self) -> Ints:
        """The timestamps (ms) at which the query is evaluated."""
        return np.arange(self.start, self.end + 1, self.step or 1)


class QueryEngine:
    """Answers PromQL queries: reads for several at the same time, and evaluates one at a time."""

    def __init__(self, querier: Querier, settings: AgentSettings) -> None:
        self._querier = querier
        self._seconds = settings.promql_seconds
        self._samples = settings.promql_samples
        self._limiter = anyio.CapacityLimiter(_MAX_CONCURRENT_QUERIES)
        # An evaluation may last as long as the time limit; other work needs the second thread.
        self._evaluation = anyio.CapacityLimiter(1)

    async def answer(
        self, query: Query, missing: list[str], seconds: float | None = None
    ) -> Chunks:
        """Return the JSON of the field ``data`` in the answer to a query; raises ``PromqlError``.

        Appends a message to ``missing`` for samples that could not be read. ``seconds``: the time
        limit of the request, or None; the time limit of the settings applies in any case.
        """
        limits = self._limits(seconds)
        tree = parse_query(query)
        try:
            # The labels of many series are millions of objects, all without cycles.
            async with asyncio.timeout(limits.deadline - time.monotonic()), self._limiter:
                with full_collections_paused():
                    data = await self._read(tree, query, limits, missing)
                    async with self._evaluation:
                        return await asyncio.to_thread(_evaluate_once, tree, query, data, limits)
        except TimeoutError as error:
            raise limits.timeout() from error
        except RecursionError as error:
            raise bad_data("the query is nested too deeply") from error
        finally:
            limits.abandoned.set()  # after a timeout or a disconnect, the thread still evaluates

    def _limits(self, seconds: float | None) -> Limits:
        if seconds is not None and seconds < self._seconds:
            remedy = f"raise the parameter timeout, which is {format_number(seconds)} s"
            return Limits(self._samples, time.monotonic() + seconds, remedy)
        return Limits(self._samples, time.monotonic() + self._seconds)

    async def _read(
        self, tree: syntax.Expr, query: Query, limits: Limits, missing: list[str]
    ) -> dict[SampleRange, Samples]:
        query_range = TimeRange(query.start, query.end)
        data: dict[SampleRange, Samples] = {}
        left = limits.samples
        times = query.times
        evaluated = TimeRange(int(times[0]), int(times[-1]))
        try:
            required = set(required_samples(tree, evaluated, query_range))
        except (OverflowError, ValueError) as error:  # of the conversion to timedelta
            raise bad_data("a duration is longer than 10,000 years") from error
        for sample_range in required:
            data[sample_range] = await self._querier.select(sample_range, left, missing)
            left -= len(data[sample_range].ts)
        return data


def parse_query(query: Query) -> syntax.Expr:
    """Return the syntax tree of a query; raises ``PromqlError`` for an invalid text or time."""
    if query.end < query.start:
        raise bad_data('invalid parameter "end": end timestamp must not be before start time')
    if query.step is not None and (query.end - query.start) // query.step >= MAX_POINTS_PER_SERIES:
        raise bad_data(
            f"exceeded maximum resolution of {MAX_POINTS_PER_SERIES:,} points per timeseries. Try "
            "decreasing the query resolution (?step=XX)"
        )
    tree = parse(query.text)
    if query.step is not None and _is_matrix(tree):
        raise bad_data(
            'invalid parameter "query": invalid expression type "range vector" for range query, '
            "must be Scalar or instant Vector"
        )
    if query.step is not None and isinstance(unwrap_parens(tree), syntax.StringLiteral):
        raise bad_data(
            'invalid parameter "query": invalid expression type "string" for range query, '
            "must be Scalar or instant Vector"
        )
    return tree


def _is_matrix(tree: syntax.Expr) -> bool:
    return isinstance(unwrap_parens(tree), syntax.MatrixSelector | syntax.SubqueryExpr)


def evaluate(
    tree: syntax.Expr, query: Query, data: dict[SampleRange, Samples], limits: Limits
) -> Chunks:
    """Evaluate a query on the samples in ``data``; return the JSON of the answer's field ``data``.

    ``tree``: the syntax tree of the query.
    """
    evaluator = Evaluator(TimeRange(query.start, query.end), data, limits)
    times = query.times
    with np.errstate(all="ignore"):
        bare = unwrap_parens(tree)
        if isinstance(bare, syntax.MatrixSelector | syntax.SubqueryExpr):
            samples, ranges = evaluator.samples(bare, times)
            rows = select_range(samples, int(ranges.ends[0]), ranges.range_ms)
            return _encode("matrix", _matrix_items(rows))
        value = evaluator.evaluate(tree, times)
    if query.step is None:
        return _encode_instant(value, query.start)
    if not isinstance(value, Vector):
        if isinstance(value, str):
            raise PromqlError("a range query cannot return a string")
        value = Vector([()], value[None, :], np.ones((1, len(times)), np.bool_))
    order = sort_labels(value.labels).tolist()
    return _encode("matrix", _matrix_items(_row(value, times, number) for number in order))


def _row(vector: Vector, times: Ints, number: int) -> tuple[Labels, Ints, Floats]:
    present = vector.present[number]
    return vector.labels[number], times[present], vector.values[number][present]


def _evaluate_once(
    tree: syntax.Expr, query: Query, data: dict[SampleRange, Samples], limits: Limits
) -> Chunks:
    """Return the same as ``evaluate``, and empty ``data`` to free the memory of the samples."""
    try:
        omit_original_names([samples.labels for samples in data.values()])
        return evaluate(tree, query, data, limits)
    finally:
        _release(data)


def _release(data: dict[SampleRange, Samples]) -> None:
    """Empty ``data``, a few labels at once, since other threads wait while memory is freed."""
    for samples in data.values():
        release(samples.labels)
    data.clear()


def _encode_instant(value: Value, at: int) -> Chunks:
    if isinstance(value, str):
        return _encode("string", [at / 1000, value])
    if not isinstance(value, Vector):
        return _encode("scalar", [at / 1000, format_number(float(value[0]))])
    rows = zip(value.labels, value.values[:, 0], value.present[:, 0], strict=True)
    return _encode(
        "vector",
        (
            {"metric": dict(labels), "value": [at / 1000, format_number(float(number))]}
            for labels, number, present in rows
            if present
        ),
    )


def _matrix_items(rows: Iterable[tuple[Labels, Ints, Floats]]) -> Iterator[dict[str, Any]]:
    for labels, times, values in rows:
        if len(times):
            pairs = zip(times.tolist(), values.tolist(), strict=True)
            yield {
                "metric": dict(labels),
                "values": [[ms / 1000, format_number(value)] for ms, value in pairs],
            }


def _encode(kind: str, items: Iterable[Any]) -> Chunks:
    return [b'{"resultType":"%b","result":' % kind.encode(), *encode_items(items), b"}"]
