"""The states of an insight, derived from its generation and from facts about its group."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from analytics.plan.fragments import Fragment
from analytics.plan.status import FragmentStatus
from analytics_enabler.deployments.model import Generation
from analytics_enabler.execution.lifecycle import (
    LATE_MS,
    MAX_ABSENCE_MS,
    STATES,
    GroupFacts,
    MissingSite,
    State,
    StateReport,
    settlement,
    state_of,
    worst,
)
from analytics_enabler.fragments import plans_of, whole
from tests.analytics_enabler.support import deployment

DEPLOYMENT = deployment("a = COMPUTE AVG(x) EVERY 5 s")
GENERATION: Generation = DEPLOYMENT.live[0]
((GROUP, PLAN),) = plans_of(DEPLOYMENT.running).items()
FRAGMENT: Fragment = whole(GROUP, PLAN, "n1")["whole"]
MISSING = MissingSite("edge", 7, "it is away")


def status(**fields: Any) -> FragmentStatus:
    known = {
        "id": GROUP.id,
        "fingerprint": FRAGMENT.fingerprint,
        "active": FRAGMENT.fingerprint,
        "state": "running",
        "frontier": GENERATION.first_tick,
    }
    return FragmentStatus(**{**known, **fields})


FORMER = status(active="former", correcting={GENERATION.uid: 5})
RUNNING = GroupFacts(is_placed=True, desired=FRAGMENT, status=status())
STARTING = GroupFacts(is_placed=True, desired=FRAGMENT, status=status(frontier=0))


CASES = [
    (GroupFacts(), State.SUBMITTED, None),
    (GroupFacts(is_refused=True), State.PLACING, None),
    (GroupFacts(desired=FRAGMENT), State.SUBMITTED, None),
    (GroupFacts(desired=FRAGMENT, is_refused=True), State.PLACING, None),
    (replace(RUNNING, is_lost=True), State.PLACING, None),
    # The site is cut off, and its worker may go on alone.
    (replace(RUNNING, is_lost=True, status=None, unreachable=MISSING), State.DEGRADED, 7),
    (replace(RUNNING, unreachable=MISSING), State.DEGRADED, 7),
    (GroupFacts(desired=FRAGMENT, is_refused=True, unreachable=MISSING), State.PLACING, None),
    (replace(RUNNING, status=None), State.STARTING, None),
    (replace(RUNNING, status=status(active=None, state="starting")), State.STARTING, None),
    (STARTING, State.STARTING, None),
    (replace(RUNNING, status=status(state="failed")), State.FAILED, None),
    (RUNNING, State.RUNNING, None),
    (replace(RUNNING, missing=(MISSING,)), State.DEGRADED, 7),
    (replace(STARTING, missing=(MISSING,)), State.STARTING, None),
    (replace(RUNNING, status=status(correcting={GENERATION.uid: 5})), State.CORRECTING, 5),
    (replace(RUNNING, status=status(correcting={"other": 5})), State.RUNNING, None),
    (
        replace(RUNNING, status=FORMER, former=FORMER, former_uids=frozenset([GENERATION.uid])),
        State.ADAPTING,
        None,
    ),
    (
        # Another worker still computes the results of a fragment that moves.
        replace(RUNNING, status=None, former=FORMER, former_uids=frozenset([GENERATION.uid])),
        State.ADAPTING,
        None,
    ),
    (replace(RUNNING, status=FORMER, former=FORMER), State.STARTING, None),
    (replace(RUNNING, overload=(StateReport(State.LAGGING, 3),)), State.LAGGING, 3),
    (
        replace(RUNNING, overload=(StateReport(State.SHED, 4),), missing=(MISSING,)),
        State.SHED,
        4,
    ),
]


@pytest.mark.parametrize(("facts", "state", "since"), CASES)
def test_state_follows_from_facts(facts: GroupFacts, state: State, since: int | None) -> None:
    assert state_of(GENERATION, None, facts) == StateReport(state, since)


def test_paused_and_ended_insights_need_no_facts() -> None:
    paused = DEPLOYMENT.paused(1000, lambda _: 99)
    assert state_of(paused.live[0], paused.paused_at, GroupFacts()) == StateReport(
        State.PAUSED, 1000
    )
    ended = msgspec.structs.replace(GENERATION, until=99, settled=True)
    assert state_of(ended, None, GroupFacts()) == StateReport(State.STOPPED, 99)


def test_each_state_has_a_meaning_and_a_status() -> None:
    assert {each.state for each in STATES} == set(State)
    former = ["failed", "waiting for a worker", "shed", "starting", "lagging", "running"]
    statuses = list(dict.fromkeys(each.status for each in STATES))
    # The order from worst to best is the one of earlier versions.
    assert statuses == [*former, "paused", "stopped"]


def test_deployment_has_the_worst_state_and_its_earliest_time() -> None:
    reports = [
        StateReport(State.RUNNING, 1),
        StateReport(State.DEGRADED, 9),
        StateReport(State.DEGRADED, 8),
    ]
    assert worst(reports) == StateReport(State.DEGRADED, 8)
    assert worst(reports).status == "running"
    assert worst(reports).status_since is None
    assert worst([*reports, StateReport(State.PLACING, 5)]).status_since == 5


UNTIL = GENERATION.first_tick + 60_000
ENDED = msgspec.structs.replace(GENERATION, until=UNTIL)
COMPUTED = replace(RUNNING, status=status(frontier=UNTIL + LATE_MS, searched_until=UNTIL + LATE_MS))
UNSEARCHED = replace(COMPUTED, status=status(frontier=UNTIL + LATE_MS))
CORRECTING_OTHERS = replace(
    COMPUTED,
    status=status(
        frontier=UNTIL + LATE_MS, searched_until=UNTIL + LATE_MS, correcting={"b": UNTIL}
    ),
)
AWAY = MissingSite("edge", 7, "it is away")
LATER = MissingSite("far", UNTIL + 5000, "it is away")


@pytest.mark.parametrize(
    ("facts", "waited_ms", "expected"),
    [
        (COMPUTED, LATE_MS, ()),
        (replace(COMPUTED, status=None), 9 * MAX_ABSENCE_MS, None),
        (replace(COMPUTED, status=FORMER), 9 * MAX_ABSENCE_MS, None),
        (replace(COMPUTED, status=status(frontier=UNTIL)), 9 * MAX_ABSENCE_MS, None),
        # A restarted worker has not searched for late points yet.
        (UNSEARCHED, LATE_MS, None),
        (UNSEARCHED, MAX_ABSENCE_MS, ()),
        # The correction of another insight waits for a silent site.
        (CORRECTING_OTHERS, LATE_MS, ()),
        (
            replace(UNSEARCHED, status=status(frontier=UNTIL + LATE_MS, correcting={"b": UNTIL})),
            LATE_MS,
            None,
        ),
        (replace(COMPUTED, missing=(AWAY,)), LATE_MS, None),
        (replace(COMPUTED, missing=(AWAY,)), MAX_ABSENCE_MS - 1, None),
        (replace(COMPUTED, missing=(AWAY,)), MAX_ABSENCE_MS, ("edge",)),
        (replace(COMPUTED, missing=(replace(AWAY, since=None),)), MAX_ABSENCE_MS, ("edge",)),
        (replace(COMPUTED, missing=(LATER, AWAY)), MAX_ABSENCE_MS, None),
        (replace(COMPUTED, missing=(LATER, AWAY)), MAX_ABSENCE_MS + 5000, ("edge", "far")),
        # The results of a single site: its query waits for the points.
        (replace(RUNNING, unreachable=AWAY), MAX_ABSENCE_MS - 1, None),
        (replace(RUNNING, unreachable=AWAY), MAX_ABSENCE_MS, ("edge",)),
        (replace(RUNNING, status=None, unreachable=AWAY), MAX_ABSENCE_MS, ("edge",)),
        (replace(COMPUTED, unreachable=AWAY), LATE_MS, ()),
        (GroupFacts(), 9 * MAX_ABSENCE_MS, None),
    ],
)
def test_ended_insight_is_final_when_computed_or_its_missing_sites_are_given_up(
    facts: GroupFacts, waited_ms: int, expected: tuple[str, ...] | None
) -> None:
    assert settlement(ENDED, facts, UNTIL + waited_ms) == expected
    assert settlement(GENERATION, facts, UNTIL + waited_ms) is None


@pytest.mark.parametrize("missing", [(), (AWAY,)])
def test_late_correction_of_an_ended_insight_is_awaited_for_as_long_as_a_site(
    missing: tuple[MissingSite, ...],
) -> None:
    # A restarted worker reports the correction anew.
    correcting = status(frontier=UNTIL + LATE_MS, correcting={GENERATION.uid: UNTIL + 5000})
    facts = replace(COMPUTED, status=correcting, missing=missing)
    given_up = UNTIL + MAX_ABSENCE_MS
    assert settlement(ENDED, facts, given_up - 1) is None
    assert settlement(ENDED, facts, given_up) == tuple(each.site for each in missing)
