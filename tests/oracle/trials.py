"""Trials: many texts over many streams, run as one plan and compared with the oracle."""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Protocol

import msgspec
import pyarrow as pa
from duckdb import DuckDBPyConnection

from analytics.plan.expressions import Aggregate, Expression, Source
from analytics.plan.nodes import Insight, Plan, rewrite_insight
from analytics_enabler.optimizer import optimize
from analytics_enabler.semantics import check
from analytics_enabler.semantics.definition import Options
from tests.oracle.data import ATTRIBUTES, METRICS, UNTIL_MS, Stream, table
from tests.oracle.sql import Answer, Identity, answers, opened
from tests.support.points import Row

RELATIVE = 1e-9
"""The tolerance relative to the expected value."""

CANCELLED = 1e-12
"""The tolerance relative to the largest intermediate value, for digits lost by cancellation."""

_SINCE_MS = (0, 0, 0, 7300)
"""The times (ms) at which successive texts are deployed, in rotation."""

FORECAST_RELATIVE = 1e-6
"""The relative tolerance of forecasts, whose numerical optimization stops early."""

_SHOWN = 5


@dataclass(frozen=True)
class Trial:
    """A stream, and the texts that are tried on the stream."""

    stream: Stream
    texts: tuple[str, ...]


class PointStream(Protocol):
    """A stream of points."""

    @property
    def rows(self) -> list[Row]:
        """All points."""

    @property
    def come(self) -> list[Row]:
        """All points; late points contain the frontier that the stream had before their batch."""


@dataclass(frozen=True)
class PointList:
    """A stream of points in which no point is late."""

    points: tuple[Row, ...] = field(repr=False)

    @property
    def rows(self) -> list[Row]:
        """All points."""
        return list(self.points)

    come = rows


@dataclass(frozen=True)
class Case:
    """A text over a stream, and the insights of the text.

    The name of an insight is ``NUMBER.NAME``, with the number of the case. The insights are
    deployed at ``since`` (ms). Insights with different ``options`` run separately.
    """

    number: int
    text: str
    stream: PointStream
    since: int
    insights: tuple[Insight, ...]
    options: tuple[Options, ...]


def cases_of(trials: Sequence[Trial]) -> list[Case]:
    """Return a case for each text; the texts must have no errors.

    The metrics of each trial have names of their own (``rename_metrics``).
    """
    cases: list[Case] = []
    for index, trial in enumerate(trials):
        for text in trial.texts:
            checked = check(text, frozenset(METRICS), attributes=ATTRIBUTES)
            errors = [each.message for each in checked.problems if each.severity == "error"]
            assert not errors, f"{errors} in\n{text}"
            number = len(cases)
            since = _SINCE_MS[number % len(_SINCE_MS)]
            insights = tuple(
                rewrite_insight(one.deployed(f"{number}.{one.name}", since), _renaming(index))
                for one in checked.definitions
            )
            options = tuple(one.options for one in checked.definitions)
            cases.append(Case(number, text, trial.stream, since, insights, options))
    return cases


def rename_metrics(rows: Sequence[Row], index: int) -> list[Row]:
    """Append the number of a trial to the metrics of points; return the new points."""
    return [replace(row, metric=f"{row.metric}{index}") for row in rows]


def _renaming(index: int) -> Callable[[Expression], Expression]:
    def source(one: Source) -> Source:
        return msgspec.structs.replace(one, metric=f"{one.metric}{index}")

    def change(node: Expression) -> Expression:
        if not isinstance(node, Aggregate):
            return node
        other = None if node.other is None else source(node.other)
        return msgspec.structs.replace(node, source=source(node.source), other=other)

    return change


def plans_of(cases: Sequence[Case]) -> list[Plan]:
    """Return the plans of all cases, one for each combination of options."""
    groups: dict[Options, list[Insight]] = defaultdict(list)
    for case in cases:
        for insight, options in zip(case.insights, case.options, strict=True):
            groups[options].append(insight)
    return [optimize(Plan(insights=tuple(insights))).plan for insights in groups.values()]


def answers_of(results: pa.Table) -> dict[Identity, Answer]:
    """Convert results (``RESULT_ROWS``) to answers: identity -> answer.

    Raises ``AssertionError`` if two results have the same identity.
    """
    found: dict[Identity, Answer] = {}
    for row in results.to_pylist():
        key = json.dumps(json.loads(row["key"]), sort_keys=True)
        identity = (row["insight"], key, row["ts"])
        assert identity not in found, f"{identity} is there twice"
        values = None if row["values"] is None else tuple(row["values"])
        value = row["value"] if row["text"] is None else row["text"]
        found[identity] = Answer(value, 0.0, values, row["low"], row["high"])
    return found


def differences(
    cases: Sequence[Case],
    found: dict[Identity, Answer],
    *,
    streamed: bool = False,
    until: int = UNTIL_MS,
) -> list[str]:
    """Compare results up to ``until`` (ms) with the oracle; describe each case with differences.

    If the results were ``streamed``, a late point does not count in windows that closed before its
    arrival.
    """
    found_differences = []
    for stream, alike in groupby(cases, key=lambda case: case.stream):
        with opened(table(stream.come if streamed else stream.rows)) as oracle:
            for case in alike:
                different = _differences(case, found, oracle, until)
                if different:
                    some = "\n".join(different[:_SHOWN])
                    found_differences.append(
                        f"{case.text}\nsince {case.since} over {stream}:\n{some}"
                    )
    return found_differences


def _differences(
    case: Case, found: dict[Identity, Answer], oracle: DuckDBPyConnection, until: int
) -> list[str]:
    expected_answers = answers(case.text, oracle, case.since, until)
    expected = {(f"{case.number}.{name}", key, tick): answer
                for (name, key, tick), answer in expected_answers.items()}  # fmt: skip
    mine = {one.uid for one in case.insights}
    # Functions of values of ticks have later results, too: there, the oracle has no ticks.
    computed = {
        identity: one
        for identity, one in found.items()
        if identity[0] in mine and identity[2] <= until
    }
    relative = FORECAST_RELATIVE if "FORECAST" in case.text else RELATIVE
    return [
        f"{identity}: {computed.get(identity)} instead of {expected.get(identity)}"
        for identity in sorted(computed.keys() | expected.keys())
        if not _same(computed.get(identity), expected.get(identity), relative)
    ]


def _same(one: Answer | None, other: Answer | None, relative: float) -> bool:
    if one is None or other is None:
        return False
    if isinstance(one.value, str) or isinstance(other.value, str):
        return one.value == other.value
    off = CANCELLED * other.size
    pairs = [(one.value, other.value), (one.low, other.low), (one.high, other.high)]
    lists = one.values, other.values
    if None not in lists:
        if len(one.values or ()) != len(other.values or ()):
            return False
        pairs += zip(one.values or (), other.values or (), strict=True)
    elif lists != (None, None):
        return False
    return all(
        a == b or (None not in (a, b) and math.isclose(a, b, rel_tol=relative, abs_tol=off))
        for a, b in pairs  # type: ignore[arg-type]
    )
