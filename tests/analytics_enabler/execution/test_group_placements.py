"""The placements of groups, which are stored before they take effect."""

from typing import cast

import pytest

from analytics_enabler.execution.group_placements import (
    GroupPlacement,
    GroupPlacements,
    group_placement_from_json,
    nodes_of,
)
from analytics_enabler.fragments import PartialsVersion, over_sites, partial_task
from analytics_enabler.groups import Group
from analytics_enabler.journal import EventJournal
from mistbow.client.agent import AsyncAgentClient
from mistbow.errors import UnavailableError
from tests.analytics_enabler.stored_events import StoredEvents
from tests.analytics_enabler.support import plan_of

PLACEMENTS = [
    GroupPlacement(group=Group(scope=site, scheduler="fair"), sites=(site,), nodes={"whole": "w1"})
    for site in "abc"
]
MOVED = [each.placed_on({"whole": "w2"}, 7) for each in PLACEMENTS]


def placements_over(agent: StoredEvents) -> GroupPlacements:
    journal = EventJournal(cast("AsyncAgentClient", agent), "s", group_placement_from_json)
    return GroupPlacements(journal, lambda: 7)


def by_id(placements: list[GroupPlacement]) -> dict[str, GroupPlacement]:
    return {each.group.id: each for each in placements}


VERSION = PartialsVersion(panes=(), grain_ms=1000, lookback_ms=0, begin=0)
GROUP = Group(scope=None, scheduler="fair")
TASKS = over_sites(GROUP, plan_of("a = COMPUTE AVG(x) EVERY 1 s"), VERSION, "ab", "a", 1000)
A, B = partial_task("a"), partial_task("b")


@pytest.mark.parametrize(
    ("placed", "lasting", "expected"),
    [
        ({A: "w3", B: "w3"}, {}, {A: "w3", B: "w3"}),
        ({A: "w3"}, {}, {A: "w3"}),
        ({A: "w3"}, {"unreachable": ["b"]}, {A: "w3", B: "w2"}),
        ({A: "w3", B: "w3"}, {"unreachable": ["b"]}, {A: "w3", B: "w3"}),
        ({A: "w3"}, {"drained": ["w2"]}, {A: "w3", B: "w2"}),
        ({A: "w3", B: "w3"}, {"drained": ["w2"]}, {A: "w3", B: "w3"}),
        ({A: "w3"}, {"suspected": ["w2"]}, {A: "w3", B: "w2"}),
        ({A: "w3", B: "w3"}, {"suspected": ["w2"]}, {A: "w3", B: "w2"}),
        ({A: "w3"}, {"suspected": ["w9"], "drained": ["w9"]}, {A: "w3"}),
    ],
    ids=[
        "all are placed",
        "one has no room",
        "one at an unreachable site has no room",
        "one at an unreachable site is placed",
        "one on a drained node has no room",
        "one on a drained node is placed",
        "one on a suspected node has no room",
        "one on a suspected node is moved",
        "one that is not planned",
    ],
)
def test_tasks_stay_where_they_are_until_they_may_move(
    placed: dict[str, str], lasting: dict[str, list[str]], expected: dict[str, str]
) -> None:
    current = {A: "w1", B: "w2", "partial:c": "w9"}
    conditions = {"unreachable": [], "drained": [], "suspected": [], **lasting}
    assert nodes_of(TASKS, placed, current, **conditions) == expected


async def test_changed_placements_of_all_groups_are_one_append() -> None:
    agent = StoredEvents()
    placements = placements_over(agent)
    await placements.refresh()
    await placements.store(PLACEMENTS)
    await placements.store(PLACEMENTS)
    await placements.store([MOVED[0], MOVED[1], PLACEMENTS[2]])
    await placements.replace([MOVED[0], MOVED[2]])
    assert [
        {group: group_placement_from_json(each) for group, each in append.items()}
        for append in agent.appends
    ] == [
        by_id(PLACEMENTS),
        by_id(MOVED[:2]),
        {MOVED[1].group.id: None, MOVED[2].group.id: MOVED[2]},
    ]
    assert by_id(placements.all()) == by_id([MOVED[0], MOVED[2]])


async def test_append_without_answer_takes_no_effect_until_it_was_read() -> None:
    agent = StoredEvents()
    placements = placements_over(agent)
    await placements.refresh()
    await placements.store(PLACEMENTS)
    agent.max_appends, agent.stores_last = 1, True
    with pytest.raises(UnavailableError):
        await placements.store(MOVED)
    assert by_id(placements.all()) == by_id(PLACEMENTS)
    await placements.refresh()
    assert by_id(placements.all()) == by_id(MOVED)
