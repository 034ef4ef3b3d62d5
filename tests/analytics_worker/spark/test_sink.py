"""The column ``missing`` of the results that a query of a merge writes."""

import pyarrow as pa

from analytics_worker.merge.decisions import Joined, Left, Presence, SiteDecision
from analytics_worker.spark.sink import with_missing_sites
from mistbow.streams.schemas import RESULT_ROWS


def rows_at(*ticks: int) -> pa.Table:
    row = {"insight": "i", "key": "{}", "value": 1.0, "revision": 0, "computed_at": 0}
    return pa.Table.from_pylist([row | {"ts": ts} for ts in ticks], RESULT_ROWS)


def test_results_name_only_missing_sites_that_their_query_reads() -> None:
    presence = Presence()
    decided = (20, "b", Left()), (10, "a", Left()), (40, "a", Joined()), (0, "unread", Left())
    presence.apply(SiteDecision(*each) for each in decided)
    named = with_missing_sites(rows_at(10, 20, 30, 50), presence, ["a", "b", "c"])
    assert named["missing"].to_pylist() == [None, "a", "a,b", "b"]


def test_results_of_a_new_insight_name_a_new_site_only_where_its_join_corrects_them() -> None:
    presence = Presence()
    presence.apply([SiteDecision(0, "new", Left(named_after=20))])
    named = with_missing_sites(rows_at(10, 20, 21, 30), presence, ["new"])
    assert named["missing"].to_pylist() == [None, None, "new", "new"]
