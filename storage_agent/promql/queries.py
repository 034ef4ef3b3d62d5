"""Answering queries: read what one needs, evaluate it in a thread, tell it as Prometheus does."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import promql_parser as syntax

from mistbow.settings import AgentSettings
from storage_agent.promql.evaluation import Evaluation, Limits, Value, unwrapped
from storage_agent.promql.labels import Labels, text_of_number
from storage_agent.promql.parsing import Need, Span, needs, parse
from storage_agent.promql.problems import PromqlError, bad_data
from storage_agent.promql.samples import Samples, in_range
from storage_agent.promql.store import Store
from storage_agent.promql.vectors import Floats, Ints, Vector

MOST_POINTS = 11_000
"""Most values of one series in an answer, as in Prometheus."""

_AT_ONCE = 2
"""Queries that are answered at the same time; others wait."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query at one time, or at each ``step`` from ``start`` to ``end`` (ms)."""

    text: str
    start: int
    end: int
    step: int | None = None

    @property
    def times(self) -> Ints:
        """When it is evaluated."""
        return np.arange(self.start, self.end + 1, self.step or 1)


class Queries:
    """Answers the queries of an agent, a few at a time."""

    def __init__(self, store: Store, settings: AgentSettings) -> None:
        self._store = store
        self._seconds = settings.promql_seconds
        self._samples = settings.promql_samples
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def answer(self, query: Query, missing: list[str], seconds: float | None = None) -> bytes:
        """Return the answer's ``data`` as JSON; raises ``PromqlError``.

        What of it could not be read is told in ``missing``.
        """
        seconds = min(self._seconds, seconds or self._seconds)
        limits = Limits(self._samples, time.monotonic() + seconds)
        tree = checked(query)
        try:
            async with asyncio.timeout(seconds), self._turns:
                data = await self._read(tree, query, limits, missing)
                return await asyncio.to_thread(evaluated, tree, query, data, limits)
        except TimeoutError as error:
            raise limits.too_slow() from error
        except RecursionError as error:
            raise bad_data("the query is nested too deeply") from error

    async def _read(
        self, tree: syntax.Expr, query: Query, limits: Limits, missing: list[str]
    ) -> dict[Need, Samples]:
        span = Span(query.start, query.end)
        data: dict[Need, Samples] = {}
        left = limits.samples
        times = query.times
        for need in set(needs(tree, Span(int(times[0]), int(times[-1])), span)):
            data[need] = await self._store.read(need, left, missing)
            left -= len(data[need].ts)
        return data


def checked(query: Query) -> syntax.Expr:
    """Return the tree of a query whose times are sound."""
    if query.end < query.start:
        raise bad_data('invalid parameter "end": end timestamp must not be before start time')
    if query.step is not None and (query.end - query.start) // query.step >= MOST_POINTS:
        raise bad_data(
            f"exceeded maximum resolution of {MOST_POINTS:,} points per timeseries. Try decreasing "
            "the query resolution (?step=XX)"
        )
    tree = parse(query.text)
    if query.step is not None and _is_matrix(tree):
        raise bad_data(
            'invalid parameter "query": invalid expression type "range vector" for range query, '
            "must be Scalar or instant Vector"
        )
    if query.step is not None and isinstance(unwrapped(tree), syntax.StringLiteral):
        raise bad_data(
            'invalid parameter "query": invalid expression type "string" for range query, '
            "must be Scalar or instant Vector"
        )
    return tree


def _is_matrix(tree: syntax.Expr) -> bool:
    return isinstance(unwrapped(tree), syntax.MatrixSelector | syntax.SubqueryExpr)


def evaluated(tree: syntax.Expr, query: Query, data: dict[Need, Samples], limits: Limits) -> bytes:
    """Return a query's answer over the samples that it needs, as JSON."""
    evaluation = Evaluation(Span(query.start, query.end), data, limits)
    times = query.times
    with np.errstate(all="ignore"):
        bare = unwrapped(tree)
        if isinstance(bare, syntax.MatrixSelector | syntax.SubqueryExpr):
            samples, ends, range_ms = evaluation.samples(bare, times)
            rows = in_range(samples, int(ends[0]), range_ms)
            return _encoded("matrix", _matrix(rows))
        value = evaluation.value(tree, times)
    if query.step is None:
        return _at_one_time(value, query.start)
    if not isinstance(value, Vector):
        if isinstance(value, str):
            raise PromqlError("a range query has no text as its answer")
        value = Vector([()], value[None, :], np.ones((1, len(times)), np.bool_))
    rows = [
        (labels, times[present], values[present])
        for labels, values, present in zip(value.labels, value.values, value.present, strict=True)
    ]
    return _encoded("matrix", _matrix(sorted(rows, key=lambda row: row[0])))


def _at_one_time(value: Value, at: int) -> bytes:
    if isinstance(value, str):
        return _encoded("string", [at / 1000, value])
    if not isinstance(value, Vector):
        return _encoded("scalar", [at / 1000, text_of_number(float(value[0]))])
    rows = zip(value.labels, value.values[:, 0], value.present[:, 0], strict=True)
    return _encoded(
        "vector",
        [
            {"metric": dict(labels), "value": [at / 1000, text_of_number(float(number))]}
            for labels, number, present in rows
            if present
        ],
    )


def _matrix(rows: Sequence[tuple[Labels, Ints, Floats]]) -> list[dict[str, Any]]:
    return [
        {
            "metric": dict(labels),
            "values": [
                [ms / 1000, text_of_number(value)]
                for ms, value in zip(times.tolist(), values.tolist(), strict=True)
            ],
        }
        for labels, times, values in rows
        if len(times)
    ]


def _encoded(kind: str, result: Any) -> bytes:
    return msgspec.json.encode({"resultType": kind, "result": result})
