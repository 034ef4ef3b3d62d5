"""The partitions of the source of panes, and the late panes that it records."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from analytics_worker.merge.decisions import Late, LateSpan, SiteDecision
from analytics_worker.merge.merge_frontier import MergeFrontier, SiteProgress
from analytics_worker.spark import panes_source
from analytics_worker.spark.panes_options import PanesOptions
from analytics_worker.spark.panes_source import PaneRange, PanesStreamReader
from analytics_worker.spark.site_watcher import SiteWatcher
from mistbow.errors import LostDataError, UnavailableError
from mistbow.streams.schemas import PANES

OPTIONS = PanesOptions.parse(
    {
        "url": "http://127.0.0.1:1",
        "sources": '[{"site":"edge","stream":"panes/p"}]',
        "panes": '["p"]',
        "grain": "1000",
        "since": "5500",
    }
)


def test_first_micro_batch_that_is_too_early_closes_nothing() -> None:
    reader = PanesStreamReader(OPTIONS)
    start = reader.initialOffset()
    (part,) = reader.partitions(start, start)
    rows = pa.Table.from_batches(reader.read(part)).to_pylist()
    assert [(row["route"], row["due"]) for row in rows] == [(None, 0)]


def test_promised_tick_is_closed_with_the_rows_before_it() -> None:
    reader = PanesStreamReader(OPTIONS)
    start = reader.initialOffset()
    assert start["promise"] == 5000
    end = {"next": {"edge": 0}, "frontier": 6000, "promise": 6000, "closed": 5000}
    (part,) = reader.partitions(start, end)
    rows = pa.Table.from_batches(reader.read(part)).to_pylist()
    assert [(row["route"], row["due"]) for row in rows] == [(None, 5000)]


@dataclass
class PanesSite:
    """The site ``edge``, whose panes at the positions 3 and 7 arrived late.

    ``failures``: the errors with which the first reads fail.
    """

    failures: list[Exception] = field(default_factory=list)

    def read(self, stream: str, start: int, end: int, **selection: Any) -> SimpleNamespace:
        """Return the panes from a position to an end, one for each position."""
        if self.failures:
            raise self.failures.pop()
        panes = [
            {"pane": "p", "key": "k", "ts": 1000 * at, "due": 1000 * at + 1000 * (at in (3, 7))}
            for at in range(start, end)
        ]
        schema = PANES.remove_metadata()
        return SimpleNamespace(table=pa.Table.from_pylist(panes, schema))


def test_late_panes_that_an_earlier_query_has_recorded_are_not_recorded_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stored: list[SiteDecision] = []
    monkeypatch.setattr(panes_source, "agent_client", lambda *_: PanesSite())
    monkeypatch.setattr(panes_source, "store_decision", lambda _, each: stored.append(each))
    reader = PanesStreamReader(replace(OPTIONS, recorded={"edge": 6}))
    rows = pa.Table.from_batches(reader.read(PaneRange({"edge": 0}, {"edge": 9}, 0, 5000)))
    assert rows["pane"].to_pylist() == [*range(0, 9000, 1000), None]
    assert [each.decision for each in stored] == [Late((LateSpan("p", 7000, 7000, 8000),))]


def test_read_of_a_site_that_restarts_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    site = PanesSite([UnavailableError("the site edge does not answer")] * 5)
    monkeypatch.setattr(panes_source, "agent_client", lambda *_: site)
    part = PaneRange({"edge": 0}, {"edge": 2}, 0, 5000)
    rows = pa.Table.from_batches(PanesStreamReader(OPTIONS).read(part))
    assert rows["pane"].to_pylist() == [0, 1000, None]


def test_read_of_lost_data_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    site = PanesSite([LostDataError("rows are lost")] * 2)
    monkeypatch.setattr(panes_source, "agent_client", lambda *_: site)
    part = PaneRange({"edge": 0}, {"edge": 2}, 0, 5000)
    with pytest.raises(LostDataError):
        next(PanesStreamReader(OPTIONS).read(part))
    assert len(site.failures) == 1


def test_read_of_a_site_that_stays_silent_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panes_source, "_MAX_RETRY_S", 0.5)
    site = PanesSite([UnavailableError("the site edge does not answer")] * 9)
    monkeypatch.setattr(panes_source, "agent_client", lambda *_: site)
    part = PaneRange({"edge": 0}, {"edge": 2}, 0, 5000)
    with pytest.raises(UnavailableError):
        next(PanesStreamReader(OPTIONS).read(part))
    assert site.failures


class SilentSite:
    """A watcher of the site ``edge``, which has left the merge after it announced 9 rows."""

    merge = MergeFrontier(1000, 5000, 0)

    def __init__(self, *, is_unreachable: bool) -> None:
        self.unreachable = frozenset({"edge"} if is_unreachable else ())

    def progress(self, wait_s: float, promise: int) -> dict[str, SiteProgress]:
        """Return the progress that was last seen."""
        return {"edge": SiteProgress(9, 4000), "cloud": SiteProgress(7, 6000)}

    def frontier(self, progress: Mapping[str, SiteProgress], promise: int) -> int:
        """Return the frontier of the other site."""
        return progress["cloud"].frontier

    def absent(self, promise: int) -> tuple[str, ...]:
        """Return the site that has left."""
        return ("edge",)


@pytest.mark.parametrize(("is_unreachable", "read_to"), [(True, 4), (False, 9)])
def test_rows_of_a_lost_site_are_read_when_it_answers_again(
    is_unreachable: bool, read_to: int
) -> None:
    reader = PanesStreamReader(OPTIONS)
    reader._watcher = cast("SiteWatcher", SilentSite(is_unreachable=is_unreachable))
    start = {"next": {"edge": 4, "cloud": 5}, "frontier": 5000, "promise": 6000, "closed": 5000}
    end = reader.latestOffset(start, None)
    assert (end["next"], end["closed"]) == ({"edge": read_to, "cloud": 7}, 6000)


class PresentSite:
    """A watcher of one site, whose panes up to ``reached`` (ms) have arrived."""

    merge = MergeFrontier(1000, 5000, 5500)
    unreachable: frozenset[str] = frozenset()

    def __init__(self, reached: int) -> None:
        self.reached = reached

    def progress(self, wait_s: float, promise: int) -> dict[str, SiteProgress]:
        """Return the progress of the site."""
        return {"edge": SiteProgress(9, self.reached)}

    def frontier(self, progress: Mapping[str, SiteProgress], promise: int) -> int:
        """Return the frontier of the site."""
        return self.reached

    def absent(self, promise: int) -> tuple[str, ...]:
        """Return no site."""
        return ()


@pytest.mark.parametrize(
    ("reached", "closed", "promise"),
    [(5900, 5000, 6000), (8200, 8000, 9000), (100_000, 64_000, 65_000)],
)
def test_first_micro_batch_closes_all_windows_whose_panes_have_arrived(
    reached: int, closed: int, promise: int
) -> None:
    reader = PanesStreamReader(OPTIONS)
    reader._watcher = cast("SiteWatcher", PresentSite(reached))
    end = reader.latestOffset(reader.initialOffset(), None)
    assert (end["next"], end["closed"], end["promise"]) == ({"edge": 9}, closed, promise)


class RecordedWaits(PresentSite):
    """A watcher that records for how long (s) it is to wait for its sites."""

    def __init__(self) -> None:
        super().__init__(6000)
        self.waits: list[tuple[str, float]] = []

    def first(self, wait_s: float, promise: int) -> tuple[dict[str, SiteProgress], int]:
        """Record the wait before the first micro-batch."""
        self.waits.append(("first", wait_s))
        return super().progress(wait_s, promise), self.reached

    def progress(self, wait_s: float, promise: int) -> dict[str, SiteProgress]:
        """Record the wait before a later micro-batch."""
        self.waits.append(("later", wait_s))
        return super().progress(wait_s, promise)


@pytest.mark.parametrize(("since", "first_s"), [(5500, 2.0), (0, 0.25)])
def test_first_micro_batch_after_stored_results_waits_longer_for_its_sites(
    monkeypatch: pytest.MonkeyPatch, since: int, first_s: float
) -> None:
    watcher = RecordedWaits()
    monkeypatch.setattr(panes_source, "SiteWatcher", lambda *_: watcher)
    reader = PanesStreamReader(replace(OPTIONS, since=since))
    start = reader.initialOffset()
    for _ in range(2):
        start = reader.latestOffset(start, None)
    assert watcher.waits == [("first", first_s), ("later", 0.25)]


def test_each_micro_batch_of_a_backlog_closes_a_limited_number_of_ticks() -> None:
    reader = PanesStreamReader(OPTIONS)
    reader._watcher = cast("SiteWatcher", PresentSite(1_000_000))
    first = reader.latestOffset(reader.initialOffset(), None)
    second = reader.latestOffset(first, None)
    assert second["closed"] - first["closed"] == 60 * 1000
