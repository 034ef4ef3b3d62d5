"""The verdict after a storm: acknowledged data is stored once, and results equal the oracle's."""

import math
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa
import pytest

from analytics.insight_models import Result
from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from mistbow.errors import MistbowError, NotFoundError
from mistbow.streams.results import current_results, result_fields
from mistbow.streams.schemas import RAW
from tests.chaos.deployments import Deployment, Deployments, is_temporary
from tests.chaos.expected import Expected, expected_results
from tests.chaos.fog import SITES, ChaosFog
from tests.chaos.recovery import RESULTS
from tests.chaos.senders import METRIC, SiteSender
from tests.oracle.sql import POINTS
from tests.oracle.stored_points import Identity, compact_key
from tests.storage_agent.crashes.ledger import Body, Item, Verdict
from tests.support.conditions import eventually

_PAUSE_S = 2.0
_SHOWN = 4


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
class ComparedResults:
    """The number of results that equal the oracle's, and the number of ``uncorrected`` results.

    Uncorrected results belong to an ended generation, and lack points that arrived long after the
    end. Those of a deleted deployment may lack any late points, and sites that they name.
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
        for deployment in deployments.deleted:
            with _answering():
                stored, found = stored_results(fog, deployment)
            compared += compare(stored, found, expected_results(stored, points, until))
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


def stored_results(
    fog: ChaosFog, deployment: Deployment
) -> tuple[Deployment, dict[Identity, Result]]:
    """Return the results of a deleted deployment that are still stored: identity -> result.

    The generations of the returned deployment end with their last stored result. Raises
    ``AssertionError`` while a site does not answer.
    """
    rows = [row for site in SITES for row in _stored_rows(fog, site, deployment)]
    found: dict[Identity, Result] = {}
    generations = []
    for one in deployment.generations:
        of_one = [row for row in rows if row["insight"] == one.uid]
        last = max((row["ts"] for row in of_one), default=one.since)
        generations.append(replace(one, until=last if one.until is None else min(last, one.until)))
        for row in of_one:
            result = Result(**(result_fields(row) | {"insight": one.name}))
            found[one.name, compact_key(result.key), result.ts] = result
    return replace(deployment, generations=generations), found


def compare(
    deployment: Deployment, found: Mapping[Identity, Result], expected: Expected
) -> ComparedResults:
    """Raise ``AssertionError`` with the results that are missing, superfluous or wrong."""
    incomplete = {(insight, tick) for (insight, _, tick), row in found.items() if row.missing}
    waiting = incomplete if deployment.is_deleted else set()
    equal, uncorrected, wrong = 0, 0, []
    for identity in sorted(found.keys() | expected.values.keys(), key=lambda each: each[2]):
        insight, _, tick = identity
        row, right = found.get(identity), expected.values.get(identity)
        value = None if row is None or row.missing else row.value
        if _is_close(value, right):
            equal += 1
        elif (insight, tick) in waiting or _may_be(row, identity, expected):
            uncorrected += 1
        elif row is None:
            wrong.append(f"{identity}: nothing instead of {right}")
        else:
            wrong.append(f"{identity}: {row.value} {row.notes} instead of {right}")
    assert not wrong, (
        f"{deployment.name} ({deployment.id}): {len(wrong)} of {len(expected.values)} results are "
        f"wrong: {wrong[:_SHOWN]} … {wrong[-1]}"
    )
    return ComparedResults(equal, uncorrected)


def _may_be(row: Result | None, identity: Identity, expected: Expected) -> bool:
    """Return whether a result of an ended generation is right without all points."""
    if row is not None and row.missing:
        return False
    earlier = expected.earlier.get(identity, frozenset())
    if row is None:
        return None in earlier
    return identity in expected.unknown or any(_is_close(row.value, each) for each in earlier)


def _is_close(one: float | None, other: float | None) -> bool:
    return None not in (one, other) and math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)  # type: ignore[arg-type]


def _stored_rows(fog: ChaosFog, site: str, deployment: Deployment) -> list[dict[str, Any]]:
    uids = sorted({each.uid for each in deployment.generations})
    rows: list[dict[str, Any]] = []
    with fog.agent(site) as client:
        for name in [each.name for each in client.streams() if each.name.startswith(RESULTS)]:
            with suppress(NotFoundError):
                table = client.read(name, match={"insight": uids}).table
                rows += current_results(table).to_pylist()
    return rows


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
