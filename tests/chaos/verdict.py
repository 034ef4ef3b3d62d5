"""The verdict after a storm: acknowledged data is stored once, and results equal the oracle's."""

import math
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pytest

from analytics.insight_models import Result
from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from mistbow.errors import MistbowError
from mistbow.streams.schemas import RAW
from tests.chaos.deployments import Deployment, Deployments, is_temporary
from tests.chaos.fog import SITES, ChaosFog
from tests.chaos.senders import METRIC, SiteSender
from tests.oracle.sql import POINTS
from tests.oracle.stored_points import Identity, compact_key, expected_values
from tests.storage_agent.crashes.ledger import Body, Item, Verdict
from tests.support.conditions import eventually

_PAUSE_S = 2.0
_SHOWN = 4

Tick = tuple[str, int]
"""The name of an insight, and one of its ticks (ms)."""


def has_complete_result(deployments: Deployments, deployment: Deployment) -> bool:
    """Return whether each insight of a deployment has a result that lacks no site."""
    with _answering():
        rows = deployments.results(deployment, system_clock()).results
    return {row.insight for row in rows if not row.missing} == set(deployment.texts)


def check_ledgers(
    fog: ChaosFog, senders: Mapping[str, SiteSender], within_s: float
) -> Counter[str]:
    """Check that each acknowledged number is stored exactly once; return the numbers checked.

    Missing numbers are waited for, for ``within_s``, because spooled points are stored later.
    """

    def stored() -> Counter[str]:
        counted: Counter[str] = Counter()
        for site, sender in senders.items():
            with _answering(), fog.agent(site) as client:
                counted += _check_site(client, site, sender)
        return counted

    return eventually(stored, timeout=within_s, pause=_PAUSE_S, what="all points are stored")


@dataclass(frozen=True, slots=True)
class Expected:
    """The oracle's results of a deployment: identity -> value.

    ``ended``: the insight and the tick of each result of an ended generation. ``late``: those of
    them at which late points count. Results of ended generations are not corrected for ever.
    """

    values: dict[Identity, float]
    ended: frozenset[Tick]
    late: frozenset[Tick]


@dataclass(frozen=True, slots=True)
class ComparedResults:
    """The number of results that equal the oracle's, and the number of ``uncorrected`` results.

    Uncorrected results belong to an ended generation, and lack late points, or name the sites that
    they lack.
    """

    equal: int = 0
    uncorrected: int = 0

    def __add__(self, other: Self) -> "ComparedResults":
        return ComparedResults(self.equal + other.equal, self.uncorrected + other.uncorrected)


def check_results(
    fog: ChaosFog, deployments: Deployments, until: int, within_s: float
) -> ComparedResults:
    """Check all results up to a time (ms) against the oracle; return how many were compared.

    Corrections are waited for, for ``within_s``.
    """
    points = stored_points(fog)
    expected = {each.id: expected_results(each, points, until) for each in deployments.current}

    def equal() -> ComparedResults:
        compared = ComparedResults()
        for deployment in deployments.current:
            with _answering():
                found = found_results(deployments, deployment, until)
            compared += compare(deployment, found, expected[deployment.id])
        return compared

    return eventually(
        _printing(equal), timeout=within_s, pause=_PAUSE_S, what="results equal the oracle's"
    )


def stored_points(fog: ChaosFog) -> pa.Table:
    """Return the points in the raw streams of all sites, as a table (``POINTS``) for the oracle."""
    tables = []
    for site in SITES:
        with fog.agent(site) as client:
            table = client.read(RAW, match={"metric": [METRIC]}).table
        tables.append(table.select(POINTS.names).cast(POINTS))
    return pa.concat_tables(tables)


def expected_results(deployment: Deployment, points: pa.Table, until: int) -> Expected:
    """Return the oracle's results of all generations of a deployment, up to a time (ms)."""
    # Each point counts: late points have corrected the results.
    place = points.schema.get_field_index("horizon")
    zeros = pa.repeat(pa.scalar(0, pa.int64()), points.num_rows)
    all_timely = points.set_column(place, "horizon", zeros)
    values: dict[Identity, float] = {}
    ended: set[Tick] = set()
    late: set[Tick] = set()
    for one in deployment.generations:
        last = until if one.until is None else min(until, one.until)
        final = expected_values(one.text, all_timely, one.since, last)
        values |= final
        if one.until is not None:
            first = expected_values(one.text, points, one.since, last)
            ended |= {(insight, tick) for insight, _, tick in final}
            late |= {
                (insight, tick)
                for insight, key, tick in final.keys() | first.keys()
                if final.get((insight, key, tick)) != first.get((insight, key, tick))
            }
    return Expected(values, frozenset(ended), frozenset(late))


def found_results(
    deployments: Deployments, deployment: Deployment, until: int
) -> dict[Identity, Result]:
    """Return the results of a deployment: identity -> result.

    Raises ``AssertionError`` while a site does not answer, and fails for doubled results.
    """
    answer = deployments.results(deployment, until)
    assert not answer.missing_sites, f"{answer.missing_sites} do not answer"
    found: dict[Identity, Result] = {}
    for row in answer.results:
        identity = (row.insight, compact_key(row.key), row.ts)
        if identity in found:
            pytest.fail(f"{deployment.name} ({deployment.id}): {identity} is there twice")
        found[identity] = row
    return found


def compare(
    deployment: Deployment, found: Mapping[Identity, Result], expected: Expected
) -> ComparedResults:
    """Raise ``AssertionError`` with the results that are missing, superfluous or wrong."""
    incomplete = {(insight, tick) for (insight, _, tick), row in found.items() if row.missing}
    excused = (incomplete & expected.ended) | expected.late
    uncorrected, wrong = 0, []
    for identity in sorted(found.keys() | expected.values.keys(), key=lambda each: each[2]):
        insight, _, tick = identity
        row, right = found.get(identity), expected.values.get(identity)
        if row is not None and not row.missing and _is_close(row.value, right):
            continue
        if (insight, tick) in excused:
            uncorrected += 1
        elif row is None:
            wrong.append(f"{identity}: nothing instead of {right}")
        else:
            wrong.append(f"{identity}: {row.value} {row.notes} instead of {right}")
    assert not wrong, (
        f"{deployment.name} ({deployment.id}): {len(wrong)} of {len(expected.values)} results are "
        f"wrong: {wrong[:_SHOWN]} … {wrong[-1]}"
    )
    return ComparedResults(len(found) - uncorrected, uncorrected)


def _is_close(one: float | None, other: float | None) -> bool:
    return None not in (one, other) and math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)  # type: ignore[arg-type]


def _check_site(client: AgentClient, site: str, sender: SiteSender) -> Counter[str]:
    points = client.get_table(metric=METRIC, entity=sender.entity, latest=False)
    raw = client.read(RAW, columns=["entity", "value"], match={"entity": [sender.entity]}).table
    rows = client.read(sender.stream, columns=["number"]).table
    ahead = {item for body in sender.ahead for item in body.items}
    # Points of the future become rows of the stream when their time has come.
    present = {
        item: n for item, n in _items(sender.entity, raw["value"]).items() if item not in ahead
    }
    _check(f"{site}, by /get", _items(sender.entity, points["value"]), sender, sender.entity)
    _check(f"{site}, by raw", Counter(present), sender, sender.entity, sender.ahead)
    _check(f"{site}, by stream", _items(sender.stream, rows["number"]), sender, sender.stream)
    return Counter(points=points.num_rows, rows=rows.num_rows)


def _check(
    where: str,
    stored: Counter[Item],
    sender: SiteSender,
    source: str,
    excluded: Collection[Body] = (),
) -> None:
    """Fail for doubled, unknown or torn numbers; raise ``AssertionError`` for missing numbers."""

    def of(bodies: Iterable[Body]) -> list[Body]:
        return [body for body in bodies if body.source == source and body not in excluded]

    verdict = Verdict.of(stored, of(sender.ledger.acknowledged), of(sender.ledger.sent))
    if verdict.doubled or verdict.unknown or verdict.torn:
        pytest.fail(f"{where}: {verdict}")
    assert not verdict.missing, f"{where}: {verdict}"


def _items(source: str, numbers: pa.ChunkedArray) -> Counter[Item]:
    return Counter((source, int(number)) for number in numbers.to_pylist())


def _printing(check: Callable[[], ComparedResults]) -> Callable[[], ComparedResults]:
    """Return the check, which then also prints each new reason for which the verdict waits."""
    began, printed = system_clock(), ""

    def printing() -> ComparedResults:
        nonlocal printed
        try:
            return check()
        except AssertionError as error:
            if str(error) != printed:
                printed = str(error)
                waited = (system_clock() - began) / 1000
                print(f"chaos: waiting after {waited:.0f} s: {printed}", file=sys.stderr)
            raise

    return printing


@contextmanager
def _answering() -> Iterator[None]:
    """Raise ``AssertionError`` if a service is unavailable, so that a caller repeats its check."""
    try:
        yield
    except MistbowError as error:
        if not is_temporary(error):
            raise
        raise AssertionError(error.message) from error
