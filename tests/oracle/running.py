"""Many texts over many streams as one plan, and its results beside the oracle's."""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Protocol

import msgspec
import pyarrow as pa
from duckdb import DuckDBPyConnection

from analytics_enabler.optimizer import optimize
from analytics_enabler.semantics import check
from analytics_enabler.semantics.definition import Options
from mistbow.plan.expressions import Aggregate, Expression, Source
from mistbow.plan.nodes import Insight, Plan, rewritten
from tests.oracle.data import METRICS, UNTIL_MS, Stream, table
from tests.oracle.sql import Answer, Identity, answers, opened
from tests.support.points import Row

RELATIVE = 1e-9
"""How far a value may be off."""

CANCELLED = 1e-12
"""How far, beside that, relative to the largest of what it was computed from."""

_SINCE_MS = (0, 0, 0, 7300)
"""When texts are deployed, in turn."""

FORECAST_RELATIVE = 1e-6
"""An optimizer stops where it is good enough."""

_SHOWN = 5


@dataclass(frozen=True)
class Trial:
    """Texts, and a stream to try them on."""

    stream: Stream
    texts: tuple[str, ...]


class Pointed(Protocol):
    """What has points."""

    @property
    def rows(self) -> list[Row]:
        """All points."""

    @property
    def come(self) -> list[Row]:
        """All points with their horizons."""


@dataclass(frozen=True)
class Case:
    """A text over a stream, and its insights, named by the case's number and their own.

    They are deployed at ``since`` (ms). Those of different ``options`` do not run together.
    """

    number: int
    text: str
    stream: Pointed
    since: int
    insights: tuple[Insight, ...]
    options: tuple[Options, ...]


def cases_of(trials: Sequence[Trial]) -> list[Case]:
    """Return what the texts mean, all of which must be free of errors.

    The metrics of each trial have other names, those that ``told_apart`` gives them.
    """
    cases: list[Case] = []
    for place, trial in enumerate(trials):
        for text in trial.texts:
            checked = check(text, frozenset(METRICS))
            errors = [each.message for each in checked.problems if each.severity == "error"]
            assert not errors, f"{errors} in\n{text}"
            number = len(cases)
            since = _SINCE_MS[number % len(_SINCE_MS)]
            insights = tuple(
                rewritten(one.deployed(f"{number}.{one.name}", since), _renaming(place))
                for one in checked.definitions
            )
            options = tuple(one.options for one in checked.definitions)
            cases.append(Case(number, text, trial.stream, since, insights, options))
    return cases


def told_apart(rows: Sequence[Row], place: int) -> list[Row]:
    """Return points with the names that the metrics of a trial have beside others."""
    return [replace(row, metric=f"{row.metric}{place}") for row in rows]


def _renaming(place: int) -> Callable[[Expression], Expression]:
    def source(one: Source) -> Source:
        return msgspec.structs.replace(one, metric=f"{one.metric}{place}")

    def change(node: Expression) -> Expression:
        if not isinstance(node, Aggregate):
            return node
        other = None if node.other is None else source(node.other)
        return msgspec.structs.replace(node, source=source(node.source), other=other)

    return change


def plans_of(cases: Sequence[Case]) -> list[Plan]:
    """Return the plans of all cases, one for each of the options that there are."""
    groups: dict[Options, list[Insight]] = defaultdict(list)
    for case in cases:
        for insight, options in zip(case.insights, case.options, strict=True):
            groups[options].append(insight)
    return [optimize(Plan(insights=tuple(insights))).plan for insights in groups.values()]


def answers_of(results: pa.Table) -> dict[Identity, Answer]:
    """Return results (``RESULT_ROWS``) as the oracle tells them; no two rows are of one."""
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
    cases: Sequence[Case], found: dict[Identity, Answer], *, streamed: bool = False
) -> list[str]:
    """Return where results differ from what the oracle says, for each case where they do.

    If they were ``streamed``, points that came late do not count in what was closed then.
    """
    said = []
    for stream, alike in groupby(cases, key=lambda case: case.stream):
        with opened(table(stream.come if streamed else stream.rows)) as oracle:
            for case in alike:
                different = _differences(case, found, oracle)
                if different:
                    some = "\n".join(different[:_SHOWN])
                    said.append(f"{case.text}\nsince {case.since} over {stream}:\n{some}")
    return said


def _differences(
    case: Case, found: dict[Identity, Answer], oracle: DuckDBPyConnection
) -> list[str]:
    told = answers(case.text, oracle, case.since, UNTIL_MS)
    expected = {(f"{case.number}.{name}", key, tick): answer
                for (name, key, tick), answer in told.items()}  # fmt: skip
    mine = {one.uid for one in case.insights}
    computed = {identity: one for identity, one in found.items() if identity[0] in mine}
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
