"""The revisions that a result follower remembers, and the filter of its requests to agents."""

from analytics_enabler.results.follower import LatestRevisions
from analytics_enabler.results.selection import MAX_MATCHED, select
from mistbow.auth.callers import FOG
from tests.analytics_enabler.support import deployment, without_digest


def test_add_returns_true_for_higher_revision_only() -> None:
    latest = LatestRevisions()
    revisions = [0, 0, 2, 1, 2, 3]
    changes = [latest.add(("u", "{}", 1), revision) for revision in revisions]
    assert changes == [True, False, True, False, False, True]


def test_latest_revisions_evict_the_oldest_at_the_bound() -> None:
    revisions = LatestRevisions(max_revisions=2)
    for tick in (1, 2, 1, 3):
        revisions.add(("u", "{}", tick), 0)
    assert not revisions.add(("u", "{}", 3), 0)
    assert not revisions.add(("u", "{}", 2), 0)
    assert revisions.add(("u", "{}", 1), 0)


def test_selection_of_many_insights_has_no_filter() -> None:
    queries = [f"a{number} = COMPUTE AVG(x) EVERY 1 s" for number in range(MAX_MATCHED + 1)]
    assert select(deployment(";".join(queries)), None, FOG).match == {}
    (uid,) = select(deployment(";".join(queries)), "a7", FOG).match["insight"]
    assert without_digest(uid) == "d-1/a7/1"
