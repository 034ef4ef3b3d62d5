"""What a follower remembers."""

from analytics_enabler.results.follower import Memory
from analytics_enabler.results.selection import MOST_MATCHED, select
from mistbow.auth.callers import FOG
from tests.analytics_enabler.support import deployment


def test_only_a_higher_revision_is_a_change() -> None:
    memory = Memory()
    revisions = [0, 0, 2, 1, 2, 3]
    changes = [memory.changes(("u", "{}", 1), revision) for revision in revisions]
    assert changes == [True, False, True, False, False, True]


def test_the_memory_is_bounded_and_forgets_the_oldest() -> None:
    memory = Memory(most=2)
    for tick in (1, 2, 1, 3):
        memory.changes(("u", "{}", tick), 0)
    assert not memory.changes(("u", "{}", 3), 0)
    assert not memory.changes(("u", "{}", 2), 0)
    assert memory.changes(("u", "{}", 1), 0)


def test_many_insights_are_not_named_in_the_request() -> None:
    queries = [f"a{number} = COMPUTE AVG(x) EVERY 1 s" for number in range(MOST_MATCHED + 1)]
    assert select(deployment(";".join(queries)), None, FOG).match == {}
    assert select(deployment(";".join(queries)), "a7", FOG).match == {"insight": ["d-1/a7/1"]}
