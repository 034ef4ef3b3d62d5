"""The history of the fog: views, changes and placements of the past, from stored rows."""

import asyncio
from collections.abc import Mapping
from time import process_time
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from analytics.client.enabler import EnablerClient
from analytics.fog_models import FogSnapshot
from analytics_enabler.live.fog_history import (
    CHECKPOINT,
    FogHistory,
    changed_rows,
    changes_in,
    changes_of,
    entries_of,
    placement_changes_of,
    snapshot_of,
    states,
)
from mistbow.errors import NotFoundError
from mistbow.streams.events import event_rows
from tests.analytics_enabler.spark_worker import SparkWorker
from tests.command_line.test_top import FRAGMENT, NODE, SITE
from tests.support.conditions import eventually

Row = tuple[int, str, str]
NODES = 3000


def view(*, nodes: Any = (NODE,), fragments: Any = (FRAGMENT,), **site: Any) -> FogSnapshot:
    return FogSnapshot.model_validate(
        {
            **{"sites": ["edge"], "nodes": nodes, "links": [], "sources": [], "at": 0},
            **{"site_states": [{**SITE, **site}], "fragments": fragments, "flows": []},
        }
    )


def stored(*views: FogSnapshot, checkpoints: tuple[int, ...] = (0,)) -> list[Row]:
    """Return the rows of views, each at the time of its index; those of figures included."""
    rows: list[Row] = []
    former: dict[str, Any] = {}
    for at, each in enumerate(views):
        entries = entries_of(each)
        if at in checkpoints:
            rows.append((at, CHECKPOINT, "{}"))
            rows += [(at, key, msgspec.json.encode(v).decode()) for key, v in entries.items()]
        else:
            changed = changed_rows(former, entries, with_figures=True)
            rows += [(at, key, text) for key, text in changed.items()]
        former = entries
    return rows


AWAY = view(reachable=False, unreachable_since=7)
MOVED = view(fragments=({**FRAGMENT, "node": "w2", "site": "cloud"},))
LOADED = view(nodes=({**NODE, "cores_free": 0.1},))


@pytest.mark.parametrize("checkpoints", [(0,), (0, 2), (0, 1, 2, 3)])
def test_each_view_is_read_as_it_was_stored(checkpoints: tuple[int, ...]) -> None:
    views = [view(), AWAY, MOVED, view(nodes=())]
    found = {at: present for at, _, present, _ in states(stored(*views, checkpoints=checkpoints))}
    for at, each in enumerate(views):
        assert entries_of(snapshot_of(found[at], at)) == entries_of(each)


@pytest.mark.parametrize("checkpoints", [(0,), (0, 1, 2, 3, 4)])
def test_changes_leave_out_figures(checkpoints: tuple[int, ...]) -> None:
    rows = stored(view(), LOADED, AWAY, view(), view(nodes=()), checkpoints=checkpoints)
    found = [(each.at, each.part, each.names, each.change) for each in changes_of(rows, 0)]
    assert found == [
        (2, "site_states", ["edge"], "changed"),
        (3, "site_states", ["edge"], "changed"),
        (4, "nodes", ["w1"], "removed"),
    ]


def test_changes_of_figures_are_stored_only_when_due() -> None:
    former, present = entries_of(view()), entries_of(LOADED)
    assert changed_rows(former, present, with_figures=False) == {}
    assert list(changed_rows(former, present, with_figures=True)) == ['nodes/["w1"]']


def test_rows_before_the_first_checkpoint_are_ignored() -> None:
    rows = [(0, 'nodes/["w1"]', "null"), (1, "alive", "{}")]
    assert list(states(rows)) == []
    assert list(changes_of(rows, 0)) == []


def test_placement_changes_have_the_former_worker() -> None:
    rows = stored(view(fragments=()), view(), MOVED, view(fragments=()))
    found = [(e.at, e.task, e.former, e.node) for e in placement_changes_of(rows, 0, None)]
    assert found == [(1, "whole", None, "w1"), (2, "whole", "w1", "w2"), (3, "whole", "w2", None)]
    assert [each.at for each in placement_changes_of(rows, 2, "all.fair")] == [2, 3]
    assert list(placement_changes_of(rows, 0, "other")) == []


def appends(count: int) -> list[tuple[int, Mapping[str, str]]]:
    """Return the checkpoint of a fog of 3,000 nodes, and appends in which one of them changes."""
    node, *versions = (
        msgspec.json.encode({**NODE, "suspected": suspected}).decode()
        for suspected in (False, True, False)
    )
    whole = {f'nodes/["w{n}"]': node for n in range(NODES)}
    changes = [(at, {'nodes/["w7"]': versions[(at + 1) % 2]}) for at in range(1, count + 1)]
    return [(0, {CHECKPOINT: "{}", **whole}), *changes]


def test_changes_in_a_large_fog_compare_only_the_entries_of_each_append() -> None:
    rows = [(at, key, text) for at, found in appends(720) for key, text in found.items()]
    begin = process_time()
    found = changes_in(rows, 0, 1000).changes
    assert process_time() - begin < 2  # 0.05 s here; a comparison of all entries takes 7 s
    assert [(each.at, each.names) for each in found] == [(at, ["w7"]) for at in range(1, 721)]


class Agent:
    """A storage agent with a stored history, which answers at once."""

    def __init__(self, *appends: tuple[int, Mapping[str, str]]) -> None:
        self.table = pa.Table.from_batches([event_rows(*each) for each in appends])

    async def seek(self, stream: str, time: int) -> int:
        return 0

    async def read(self, stream: str, position: int, **span: int) -> SimpleNamespace:
        return SimpleNamespace(table=self.table)


@pytest.mark.parametrize(
    "call",
    [
        lambda history: history.changes(0, 120, 1000),
        lambda history: history.placement_changes(0, 120, None, 1000),
        lambda history: history.at(120),
        lambda history: history.placements_at(120),
    ],
)
async def test_event_loop_continues_while_the_history_is_read(call: Any) -> None:
    history = FogHistory(Agent(*appends(120)), "fog", None, lambda: True, lambda: 120)  # type: ignore[arg-type]
    reading = asyncio.create_task(call(history))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    await reading
    assert turns > 2  # 1: the whole call was one turn of the loop


def test_enabler_shows_what_the_fog_looked_like(
    enabler: EnablerClient, worker: SparkWorker
) -> None:
    eventually(lambda: enabler.fog_changes().last, what="the first checkpoint is stored")
    deployment = enabler.submit("a = COMPUTE AVG(x) EVERY 1 s").deployment_id
    [placed] = eventually(enabler.placement_changes, what="the placement is stored")
    assert (placed.group, placed.task, placed.former) == ("all.fair", "whole", None)
    present = enabler.placements().placements
    assert [(each.task, each.node) for each in present] == [("whole", placed.node)]
    before, after = enabler.placements(placed.at - 1), enabler.placements(placed.at)
    assert before.placements == []
    assert [(each.task, each.node, each.scheduler) for each in after.placements] == [
        ("whole", placed.node, "fair")
    ]
    [first], [last] = (
        enabler.fog_changes(limit=1, newest=newest).changes for newest in (False, True)
    )
    assert first.at <= last.at
    assert (first.part, first.names) != (last.part, last.names)
    assert enabler.fog(placed.at).sites == ["n1"]
    assert enabler.fog(placed.at).fragments[0].insights == [f"{deployment}/a"]
    with pytest.raises(NotFoundError, match="history"):
        enabler.fog(placed.at - 3_600_000)
