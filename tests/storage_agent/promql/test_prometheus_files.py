"""The tests of instant queries of Prometheus 2.42, from a copy of its ``promql/testdata``.

The copy is not part of this repository; MISTBOW_PROMQL_TESTDATA is the path of its folder.
"""

import os
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from storage_agent.promql.engine import Query, evaluate, parse_query
from storage_agent.promql.errors import PromqlError
from storage_agent.promql.evaluator import Limits
from storage_agent.promql.labels import Labels, make_labels
from storage_agent.promql.matchers import match_series
from storage_agent.promql.parse import SampleRange, TimeRange, required_samples
from storage_agent.promql.samples import Samples, UnsortedSamples, merge_samples
from tests.storage_agent.promql.prometheus_files import (
    Evaluation,
    Loaded,
    almost_equal,
    evaluations,
)

_FOLDER = os.environ.get("MISTBOW_PROMQL_TESTDATA")
_FILES = sorted(Path(_FOLDER).glob("*.test")) if _FOLDER else []
_MINUTE = 60_000

_Rows = list[tuple[Labels | None, float]]

pytestmark = pytest.mark.skipif(
    not _FILES, reason="MISTBOW_PROMQL_TESTDATA is not the folder promql/testdata of Prometheus 2"
)


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_evaluation_of_prometheus_has_its_expected_answer(path: Path) -> None:
    count, differing = 0, []
    for evaluation in evaluations(path):
        count += 1
        if problem := difference(evaluation):
            differing.append(f"{evaluation.place}: {evaluation.query}: {problem}")
    print(f"{path.name}: {count - len(differing)} of {count}")
    assert differing == []


def difference(evaluation: Evaluation) -> str:
    """Evaluate a query as an instant query and as a range query; return the first difference.

    The difference is a description, or ``''`` if both answers are as expected.
    """
    at = evaluation.time
    try:
        data = answer(Query(evaluation.query, at, at), evaluation.series)
        if evaluation.fails:
            return "it did not fail"
        instant = _differs(evaluation, _instant_rows(data))
        if instant or evaluation.ordered:
            return instant
        in_range = answer(
            Query(evaluation.query, at - _MINUTE, at + _MINUTE, _MINUTE), evaluation.series
        )
    except PromqlError as error:
        return "" if evaluation.fails else f"{error.kind}: {error.message}"
    rows: _Rows = [
        (make_labels(row["metric"]), float(value))
        for row in in_range["result"]
        for seconds, value in row["values"]
        if seconds * 1000 == at
    ]
    if data["resultType"] == "scalar":
        rows = [(None, value) for _, value in rows]
    problem = _differs(evaluation, rows)
    return f"as a range query: {problem}" if problem else ""


def answer(query: Query, series: list[Loaded]) -> Any:
    """Return the answer to a query over series, without an agent."""
    tree = parse_query(query)
    times = query.times
    span = TimeRange(int(times[0]), int(times[-1]))
    data = {
        each: _select(each, series)
        for each in required_samples(tree, span, TimeRange(query.start, query.end))
    }
    limits = Limits(1_000_000, time.monotonic() + 100)
    return msgspec.json.decode(b"".join(evaluate(tree, query, data, limits)))


def _select(wanted: SampleRange, series: list[Loaded]) -> Samples:
    matches = match_series(wanted.selector, [each.labels for each in series])
    parts = []
    for each, matched in zip(series, matches, strict=True):
        ts = np.array(each.ts, np.int64)
        inside = matched & (ts >= wanted.start) & (ts <= wanted.end)
        parts.append(
            UnsortedSamples(
                [each.labels], np.where(inside, 0, -1), ts, np.array(each.values, np.float64)
            )
        )
    return merge_samples(parts)


def _instant_rows(data: Any) -> _Rows:
    if data["resultType"] == "scalar":
        return [(None, float(data["result"][1]))]
    return [(make_labels(row["metric"]), float(row["value"][1])) for row in data["result"]]


def _differs(evaluation: Evaluation, rows: _Rows) -> str:
    expected = evaluation.rows
    if not evaluation.ordered:
        expected, rows = (sorted(each, key=lambda row: row[0] or ()) for each in (expected, rows))
    same = [labels for labels, _ in expected] == [labels for labels, _ in rows] and all(
        almost_equal(a[1], b[1]) for a, b in zip(expected, rows, strict=True)
    )
    return "" if same else f"expected {expected}, found {rows}"
