"""The partitions of the source of panes while there are no panes to read."""

from collections.abc import Mapping
from typing import cast

import pyarrow as pa
import pytest

from analytics_worker.merge.merge_frontier import MergeFrontier, SiteProgress
from analytics_worker.spark.panes_options import PanesOptions
from analytics_worker.spark.panes_source import PanesStreamReader
from analytics_worker.spark.site_watcher import SiteWatcher

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
    [(5900, 5000, 6000), (8200, 8000, 9000), (100_000, 65_000, 100_000)],
)
def test_first_micro_batch_closes_all_windows_whose_panes_have_arrived(
    reached: int, closed: int, promise: int
) -> None:
    reader = PanesStreamReader(OPTIONS)
    reader._watcher = cast("SiteWatcher", PresentSite(reached))
    end = reader.latestOffset(reader.initialOffset(), None)
    assert (end["next"], end["closed"], end["promise"]) == ({"edge": 9}, closed, promise)
