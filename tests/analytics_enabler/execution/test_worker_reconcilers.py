"""Comparison of the desired fragments with the fragments that a worker runs."""

import msgspec

from analytics.plan.fragments import Fragment
from analytics.plan.status import FragmentStatus
from analytics_enabler.execution.worker_reconcilers import DesiredFragments
from analytics_enabler.fragments import WHOLE, whole
from analytics_enabler.groups import Group
from tests.analytics_enabler.support import plan_of

FRAGMENT = whole(Group(scope="s", scheduler="fair"), plan_of("a = COMPUTE AVG(x) EVERY 1 s"), "s")[
    WHOLE
]
RUNNING = FragmentStatus(
    id=FRAGMENT.id, fingerprint=FRAGMENT.fingerprint, state="running", frontier=0
)


def missing(*observed: FragmentStatus) -> list[Fragment]:
    desired = DesiredFragments({FRAGMENT.id: FRAGMENT})
    return desired.missing({status.id: status for status in observed})


def test_missing_has_fragment_that_does_not_run_in_this_version() -> None:
    assert missing() == [FRAGMENT]
    assert missing(RUNNING) == []
    assert missing(msgspec.structs.replace(RUNNING, fingerprint="former")) == [FRAGMENT]


def test_missing_has_fenced_but_no_failed_fragment() -> None:
    assert missing(msgspec.structs.replace(RUNNING, state="fenced")) == [FRAGMENT]
    assert missing(msgspec.structs.replace(RUNNING, state="failed")) == []


def test_surplus_spares_desired_and_retained_fragments() -> None:
    desired = DesiredFragments({FRAGMENT.id: FRAGMENT}, frozenset({("all.fair", "edge")}))
    group_with_options = "all.fair.93f5352a"
    observed = [FRAGMENT.id, "all.fair.0123abcd.edge", "all.latency", group_with_options]
    assert desired.surplus(observed) == ["all.latency", group_with_options]
    assert DesiredFragments().surplus(observed) == observed
