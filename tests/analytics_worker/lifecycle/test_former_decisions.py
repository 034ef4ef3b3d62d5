"""Decisions and checkpoints of workers of a version in which removals had no uncertain ticks.

Workers of this version read theirs, and they read those of this version.
"""

from types import SimpleNamespace
from typing import cast

import pytest

from analytics_worker.lifecycle.runner_state import RunnerProgress
from analytics_worker.merge.decisions import (
    CHECKPOINT,
    Forgotten,
    Joined,
    Left,
    Presence,
    SiteDecision,
    checkpoint_of,
    from_rows,
)
from analytics_worker.merge.site_gaps import SiteGap, last_gaps
from mistbow.streams.events import event_rows
from tests.analytics_worker.lifecycle.source_changes_model import (
    Query,
    Result,
    SourceChangesModel,
    merge_of,
)

LEFT, JOINED, FORGOTTEN = '{"type":"left"}', '{"type":"joined"}', '{"type":"forgotten"}'
NEW = '{"type":"left","named_after":%d}'

REMOVED = [(100, LEFT), (100, FORGOTTEN)]
"""The site ``b`` was present when it was removed; ``begin`` recorded this."""
BEGUN_MISSING = [(50, LEFT), (50, LEFT), (50, FORGOTTEN), (50, LEFT)]
"""The site ``b`` was missing; its worker has stopped before the end of the handover."""
REMOVED_MISSING = [*BEGUN_MISSING, (110, FORGOTTEN)]
NEW_REMOVED = [(0, NEW % 40), (0, LEFT), (0, FORGOTTEN), (0, NEW % 40), (110, FORGOTTEN)]
JOINS_LATER = [(50, LEFT), (120, JOINED), (50, LEFT), (120, FORGOTTEN)]
WITHDRAWN = [*REMOVED, (100, NEW % 120), (150, JOINED), (200, LEFT), (250, FORGOTTEN), *REMOVED]
"""A query with the site has begun again; it was withdrawn after the site had joined and left."""


def decoded(rows: list[tuple[int, str]]) -> list[SiteDecision]:
    """Return the decisions in rows (time in ms, event) about the site ``b``."""
    return [one for ts, event in rows for one in from_rows(event_rows(ts, {"b": event}))]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (REMOVED, {99: "removed", 100: "removed", 101: ""}),
        (REMOVED_MISSING, {50: "removed", 51: "absent named", 110: "absent named", 111: ""}),
        (
            NEW_REMOVED,
            {1: "absent", 40: "absent", 41: "absent named", 110: "absent named", 111: ""},
        ),
        (JOINS_LATER, {50: "removed", 51: "absent named", 120: "absent named", 121: ""}),
        (WITHDRAWN, {100: "removed", 101: "", 180: "", 220: "", 260: ""}),
    ],
)
def test_corrections_after_former_rows_of_a_removal(
    rows: list[tuple[int, str]], expected: dict[int, str]
) -> None:
    presence = Presence()
    presence.apply(decoded(rows))
    gaps = last_gaps(presence.gaps, {"a"})
    assert not gaps.provisional
    states = {"absent": gaps.absent, "named": gaps.named, "removed": gaps.removed}
    found = {tick: " ".join(name for name, of in states.items() if of(tick)) for tick in expected}
    assert found == expected


def test_former_rows_of_an_unfinished_removal_lose_no_name() -> None:
    """The worker stops in the middle of a handover, and one of this version continues."""
    model = SourceChangesModel()
    model.streams.rows += decoded(BEGUN_MISSING)
    for tick, named in ((50, ""), (51, "b"), (100, "b"), (115, "b"), (116, "")):
        sources = frozenset({"a", "b"} if tick <= 115 else {"a"})
        of_tick = sources.difference(named), frozenset(named)
        model.streams.results[tick] = Result(*of_tick, certain=sources, possible=sources)
    active = Query(merge_of(model.fragment.id, "a"))
    model.changes.reopen(110)
    progress = SimpleNamespace(active=active, candidate=None)
    model.changes.settle(cast("RunnerProgress", progress))
    model.corrector.sources = active.sources
    for tick in (51, 100, 115):
        model.corrector.correct(tick, frozenset())
        assert model.streams.results[tick].named == {"b"}
    model.corrector.correct(50, frozenset())
    assert model.streams.results[50].included == {"a", "b"}


def test_former_checkpoint_of_an_unfinished_removal() -> None:
    gap = {"site": "b", "after": 50, "named_after": None, "joined_at": None}
    removed, missing = gap | {"until": 50, "is_removed": True}, gap | {"until": None}
    stored = {"next": 4, "gaps": [removed, missing | {"is_removed": False}]}
    of_rows = Presence()
    of_rows.apply(decoded(BEGUN_MISSING))
    assert list(checkpoint_of({CHECKPOINT: stored}).gaps) == of_rows.gaps


def gap_read_by_a_former_version(rows: list[SiteDecision]) -> SiteGap:
    """Return the last gap of the site ``b``, as a worker of the former version reads decisions.

    Such a worker ignores the fields that it does not know, and its corrections use the last gap.
    """
    gaps: list[SiteGap] = []
    for one in rows:
        is_missing = bool(gaps) and gaps[-1].until is None
        match one.decision:
            case Left(named_after) if not is_missing:
                gaps.append(SiteGap(one.site, one.ts, None, named_after))
            case Joined() | Forgotten() if is_missing:
                ended = max(one.ts, gaps[-1].after)
                gaps[-1] = SiteGap(one.site, gaps[-1].after, ended, gaps[-1].named_after)
    return gaps[-1]


@pytest.mark.parametrize("is_new", [False, True])
def test_worker_of_a_former_version_reads_the_names_of_a_removed_missing_site(
    *, is_new: bool
) -> None:
    model = SourceChangesModel()
    if is_new:
        # The site has not joined yet; the results up to 3 do not name it.
        model.streams.rows += decoded([(0, NEW % 3)])
    model.write_results(3, lag=0, first="active")
    model.leave("b")
    model.write_results(4, lag=0, first="active")
    model.change_sources(set(), is_elsewhere=False)
    gap = gap_read_by_a_former_version(model.streams.rows)
    found = {tick: gap.is_named(tick) for tick in model.streams.results}
    assert found == {tick: tick > 3 for tick in range(1, 8)}
    assert not gap.is_named(9)
