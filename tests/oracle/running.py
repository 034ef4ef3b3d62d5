"""Many texts as one plan, and its results beside the oracle's."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from duckdb import DuckDBPyConnection

from analytics_enabler.optimizer import optimize
from analytics_enabler.semantics import check
from mistbow.plan.nodes import Insight, Plan
from tests.oracle.sql import Answer, Identity, answers

RELATIVE = 1e-9
"""How far a value may be off."""

CANCELLED = 1e-12
"""How far, beside that, relative to the largest of what it was computed from."""

FORECAST_RELATIVE = 1e-6
"""An optimizer stops where it is good enough."""


@dataclass(frozen=True)
class Case:
    """A text, and its insights as they are deployed: named by the case's number and their own."""

    number: int
    text: str
    insights: tuple[Insight, ...]


def cases_of(texts: Sequence[str]) -> list[Case]:
    """Return what the texts mean, all of which must be free of errors."""
    cases = []
    for number, text in enumerate(texts):
        checked = check(text)
        errors = [each.message for each in checked.problems if each.severity == "error"]
        assert not errors, f"{errors} in\n{text}"
        insights = tuple(one.deployed(f"{number}.{one.name}", 0) for one in checked.definitions)
        cases.append(Case(number, text, insights))
    return cases


def plan_of(cases: Sequence[Case]) -> Plan:
    """Return one plan of all cases."""
    return optimize(Plan(insights=tuple(one for case in cases for one in case.insights))).plan


def answers_of(results: pa.Table) -> dict[Identity, Answer]:
    """Return results (``RESULT_ROWS``) as the oracle tells them; no two rows are of one."""
    found: dict[Identity, Answer] = {}
    for row in results.to_pylist():
        key = json.dumps(json.loads(row["key"]), sort_keys=True)
        identity = (row["insight"], key, row["ts"])
        assert identity not in found, f"{identity} is there twice"
        values = None if row["values"] is None else tuple(row["values"])
        found[identity] = Answer(row["value"], 0.0, values, row["low"], row["high"])
    return found


def differences(
    case: Case, found: dict[Identity, Answer], oracle: DuckDBPyConnection, until: int
) -> list[str]:
    """Return where the results of a case differ from what the oracle says."""
    told = answers(case.text, oracle, until)
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
