"""A fog in a storm of faults: no acknowledged row is lost, and all results equal the oracle's.

``MISTBOW_CHAOS_S``: the length of the storm (s), 180 by default. ``MISTBOW_SEED``: the seed of its
timetable; by default ``CI_SEED`` in CI, and else drawn. ``MISTBOW_FAULTS``: the names of the only
faults, separated by commas; by default all. ``MISTBOW_CHAOS_PAGE``: the page of figures.
"""

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mistbow.clock import system_clock, utc_now
from tests.chaos.deployments import Deployments
from tests.chaos.faults import CI_SEED, World, faults_of
from tests.chaos.fog import ChaosFog, plan
from tests.chaos.recovery import computed_results, longest_pause, misses_goal, recoveries
from tests.chaos.report import StormReport
from tests.chaos.senders import sending, stop
from tests.chaos.storm import Storm
from tests.chaos.timeline import logged_events
from tests.chaos.timetable import timetable
from tests.chaos.verdict import check_ledgers, check_results, has_complete_result
from tests.fog_emulation.namespaces import needs_namespaces, running_fog
from tests.support.conditions import eventually

SECONDS = float(os.environ.get("MISTBOW_CHAOS_S", "180"))
FAULTS = tuple(filter(None, os.environ.get("MISTBOW_FAULTS", "").split(",")))
PAGE = os.environ.get("MISTBOW_CHAOS_PAGE")
FULL_S = 1800
"""The length (s) of a storm from which on the recoveries must meet the goal."""
_START_S = 300
_VERDICT_S = 240

pytestmark = [
    needs_namespaces,
    pytest.mark.alone,
    pytest.mark.timeout(SECONDS + _START_S + 2 * _VERDICT_S),
]


def _seed() -> int:
    if given := os.environ.get("MISTBOW_SEED"):
        return int(given)
    if "CI" in os.environ:
        return CI_SEED
    return random.SystemRandom().randrange(10**6)


@pytest.fixture
def fog(processes: None, tmp_path: Path) -> Iterator[ChaosFog]:
    with running_fog(plan()) as backend, ChaosFog(backend, tmp_path) as fog:
        yield fog


def test_results_equal_the_oracle_after_a_storm_of_faults(fog: ChaosFog) -> None:
    seed = _seed()
    print(f"chaos: seed {seed}; the logs are in {fog.logs}", file=sys.stderr)
    deployments = Deployments(fog, seed)
    with sending(fog, seed) as senders:
        steady = deployments.submit_steady()
        deployments.submit(seed)
        eventually(
            lambda: has_complete_result(deployments, steady),
            timeout=_START_S,
            what="results that lack no site",
            pause=1.0,
        )
        began = system_clock()
        steps = timetable(seed, SECONDS, faults_of(SECONDS, FAULTS))
        log = Storm(World(fog, senders, deployments), steps).run()
        ended = system_clock()
        fog.start_missing()
        fog.wait_ready()
        deployments.refresh()
        stop(senders.values())
    until = system_clock()
    counted = check_ledgers(fog, senders, _VERDICT_S)
    compared = check_results(fog, deployments, until, _VERDICT_S)

    rows = computed_results(fog, steady)
    report = StormReport(
        seed=seed,
        seconds=SECONDS,
        log=log,
        recoveries=recoveries(log, rows),
        longest_pause=longest_pause(rows, began, ended),
        results=compared,
        points=counted["points"],
        rows=counted["rows"],
        events=logged_events(fog.home),
    )
    print(f"\n{report}", file=sys.stderr)
    assert compared.equal
    if PAGE is not None:
        Path(PAGE).write_text(report.page(f"{utc_now():%Y-%m-%d}"))
    if SECONDS >= FULL_S:
        assert not misses_goal(report.recoveries), "p95 of the next result is above the goal"
