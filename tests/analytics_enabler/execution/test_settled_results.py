"""When the results of a generation are settled up to a time."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from analytics.plan.fragments import Fragment
from analytics.plan.status import FragmentStatus
from analytics_enabler.deployments.model import Generation
from analytics_enabler.execution.lifecycle import GroupFacts, MissingSite
from analytics_enabler.execution.settled_results import last_time, unsettled
from analytics_enabler.fragments import plans_of, whole
from tests.analytics_enabler.support import deployment

DEPLOYMENT = deployment("a = COMPUTE AVG(x, 10 s) EVERY 5 s; b = COMPUTE AVG(x, 1 s)")
TICKING, AT_POINTS = DEPLOYMENT.live
((GROUP, PLAN),) = plans_of(DEPLOYMENT.running).items()
FRAGMENT: Fragment = whole(GROUP, PLAN, "n1")["whole"]
TICK = TICKING.first_tick
ARRIVED = TICK + 700


def facts(**fields: Any) -> GroupFacts:
    known = {
        "id": GROUP.id,
        "fingerprint": FRAGMENT.fingerprint,
        "active": FRAGMENT.fingerprint,
        "state": "running",
        "frontier": TICK,
        "corrected_until": ARRIVED + 1,
    }
    status = FragmentStatus(**{**known, **fields})
    return GroupFacts(is_placed=True, desired=FRAGMENT, status=status)


def test_results_are_settled_when_computed_and_corrected() -> None:
    assert unsettled(TICKING, facts(), TICK, ARRIVED) is None
    assert unsettled(TICKING, facts(corrected_until=0), TICK, None) is None


@pytest.mark.parametrize(
    ("found", "arrived", "reason"),
    [
        (facts(frontier=TICK - 1), ARRIVED, "its results are computed up to"),
        (facts(active=None, state="starting"), ARRIVED, "it is starting"),
        (facts(state="failed"), ARRIVED, "it is failed"),
        (facts(corrected_until=ARRIVED), ARRIVED, "it is not known yet whether points"),
        (
            facts(corrected_until=0, corrections_due={TICKING.uid: 3}),
            ARRIVED,
            "late points change the results at 3 ticks",
        ),
        (facts(), 2**62, "a site with its points is unreachable"),
        (
            replace(facts(), missing=(MissingSite("edge", 7, "away"),)),
            ARRIVED,
            "the points of these sites are missing: edge",
        ),
    ],
)
def test_results_that_lack_ticks_or_points_are_unsettled(
    found: GroupFacts, arrived: int, reason: str
) -> None:
    assert (unsettled(TICKING, found, TICK, arrived) or "").startswith(reason)


def test_results_of_a_former_version_are_settled_while_the_next_version_starts() -> None:
    starting, former = facts(active=None, state="starting"), facts().status
    found = replace(starting, former=former, former_uids=frozenset([TICKING.uid]))
    assert unsettled(TICKING, found, TICK, ARRIVED) is None
    assert unsettled(AT_POINTS, found, TICK, ARRIVED) is not None


@pytest.mark.parametrize(
    ("generation", "until", "expected"),
    [
        (TICKING, TICK - 1, None),
        (TICKING, TICK, TICK),
        (TICKING, TICK + 4999, TICK),
        (msgspec.structs.replace(TICKING, until=TICK + 1), TICK + 60_000, TICK),
        (AT_POINTS, AT_POINTS.since, None),
        (AT_POINTS, TICK, TICK),
        (AT_POINTS, TICK + 1, TICK + AT_POINTS.definition.every_ms),
    ],
)
def test_last_time_is_the_last_tick_that_determines_results(
    generation: Generation, until: int, expected: int | None
) -> None:
    assert last_time(generation, until) == expected
