"""Results after random changes of a merge's sites, and after sequences that once lost points or
names.
"""

import pytest

from tests.analytics_worker.lifecycle.source_changes_model import SourceChangesModel

TestSourceChanges = SourceChangesModel.TestCase


def hand_over(
    model: SourceChangesModel, sites: str, *, is_elsewhere: bool = False, is_settled: bool = True
) -> None:
    """Let a query with other ``sites`` take over; not ``is_settled``: the worker stops then."""
    model.start(frozenset(sites), is_elsewhere=is_elsewhere)
    model.take_over([])
    if is_settled:
        model.end_handover()
    else:
        model.crash()


def test_removal_of_a_site_that_is_a_source_again_loses_no_points() -> None:
    model = SourceChangesModel()
    model.leave("b")
    model.write_results(1, lag=0, first="active")
    model.join("b", 0)
    model.write_results(1, lag=0, first="active")
    for sites in ("", "b", ""):
        hand_over(model, sites)
        for tick in (1, 2):
            model.corrector.correct(tick, frozenset())
        model.results_name_the_sources_that_they_lack()
    assert model.streams.results[2].included == {"a", "b"}
    model.teardown()


def test_removal_loses_no_points_although_the_position_of_corrections_waits() -> None:
    model = SourceChangesModel()
    model.leave("b")
    model.write_results(2, lag=0, first="active")
    model.join("b", 0)
    model.write_results(2, lag=0, first="active")
    model.correct_gaps(8, frozenset(), None)
    assert model.streams.results[1].included == {"a", "b"}
    model.streams.target["decided"] = 0
    hand_over(model, "")
    model.corrector.correct(1, frozenset())
    assert model.streams.results[1].included == {"a", "b"}
    model.teardown()


def test_removal_loses_no_name_if_the_worker_stops_while_the_site_leaves() -> None:
    model = SourceChangesModel()
    model.write_results(5, lag=0, first="active")
    model.start(frozenset(), is_elsewhere=False)
    model.take_over(["leave b", "write"])
    model.crash()
    hand_over(model, "", is_elsewhere=True)
    model.corrector.correct(6, frozenset())
    assert model.streams.results[6].named == {"b"}
    model.results_name_the_sources_that_they_lack()
    model.teardown()


def test_removal_of_a_site_that_joins_and_leaves_meanwhile_loses_no_name() -> None:
    model = SourceChangesModel()
    model.write_results(3, lag=0, first="active")
    model.leave("b")
    model.write_results(2, lag=0, first="active")
    model.start(frozenset(), is_elsewhere=False)
    model.take_over(["join b", "write", "leave b", "write"])
    model.end_handover()
    for tick in range(1, model.tick + 1):
        model.corrector.correct(tick, frozenset())
    model.results_name_the_sources_that_they_lack()
    model.teardown()


def test_results_of_a_query_that_did_not_take_over_lose_no_points() -> None:
    model = SourceChangesModel()
    model.write_results(2, lag=0, first="active")
    model.start(frozenset("bc"), is_elsewhere=True)
    model.claim()
    model.write_results(1, lag=0, first="candidate")
    model.join("c", 0)
    model.write_results(2, lag=0, first="candidate")
    model.crash()
    hand_over(model, "b", is_elsewhere=True)
    model.write_results(1, lag=0, first="active")
    model.correct_late_panes(frozenset())
    assert model.streams.results[5].included == {"a", "b", "c"}
    model.teardown()


@pytest.mark.parametrize("is_settled", [True, False])
def test_results_of_the_former_query_lose_no_points_if_the_removed_site_is_added_at_once(
    *, is_settled: bool
) -> None:
    """The stored frontier is before these results; the worker stops in between if not settled."""
    model = SourceChangesModel()
    model.write_results(2, lag=2, first="active")
    hand_over(model, "", is_settled=is_settled)
    hand_over(model, "b", is_elsewhere=True)
    model.write_results(3, lag=0, first="active")
    model.correct_late_panes(frozenset())
    assert model.streams.results[2].included == {"a", "b"}
    model.teardown()


def test_results_lose_no_points_if_the_added_site_is_removed_again_before_it_joins() -> None:
    model = SourceChangesModel()
    model.write_results(2, lag=2, first="active")
    hand_over(model, "", is_settled=False)
    for sites in ("b", ""):
        hand_over(model, sites, is_elsewhere=bool(sites))
        model.write_results(3, lag=0, first="active")
    model.correct_late_panes(frozenset())
    assert model.streams.results[2].included == {"a", "b"}
    model.teardown()


def test_results_in_flight_while_a_new_site_is_recorded_again_lose_no_points() -> None:
    model = SourceChangesModel()
    model.write_results(2, lag=0, first="active")
    model.start(frozenset("bc"), is_elsewhere=True)
    model.changes.reopen(model.frontier)
    model.end_handover()  # the other worker forgets the site c
    model.claim()
    # The query computes results before it reads the decision, and stores them later.
    model.write_results(2, lag=0, first="candidate")
    in_flight = {tick: model.streams.results.pop(tick) for tick in (3, 4)}
    model.changes = model.new_changes()
    assert model.candidate is not None
    model.changes.begin(model.candidate.fragment, model.frontier + 1)
    model.streams.results |= in_flight
    model.take_over([])
    model.write_results(1, lag=0, first="active")
    model.correct_late_panes(frozenset())
    assert model.streams.results[4].included == {"a", "b", "c"}
    model.teardown()


def test_results_corrected_before_a_decided_join_lose_no_points_if_the_site_is_removed() -> None:
    model = SourceChangesModel()
    model.write_results(2, lag=0, first="active")
    model.leave("b")
    model.write_results(4, lag=0, first="active")
    model.start(frozenset(), is_elsewhere=False)
    model.join("b", 2)
    # The gap has ended already, so the corrections read the site.
    model.correct_late_panes(frozenset())
    assert model.streams.results[3].included == {"a", "b"}
    model.take_over([])
    model.end_handover()
    model.write_results(4, lag=0, first="active")
    model.correct_gaps(8, frozenset(), None)
    assert model.streams.results[3].included == {"a", "b"}
    assert not model.streams.results[3].named
    model.results_name_the_sources_that_they_lack()
    model.teardown()


def test_results_that_lack_a_site_with_a_decided_join_are_corrected_after_its_removal() -> None:
    model = SourceChangesModel()
    model.write_results(2, lag=0, first="active")
    model.leave("b")
    model.write_results(4, lag=0, first="active")
    model.start(frozenset(), is_elsewhere=False)
    model.join("b", 2)
    model.take_over([])
    model.end_handover()
    model.write_results(4, lag=0, first="active")
    model.streams.results[3].included = frozenset()  # the tick lacks late panes of a
    model.correct_late_panes(frozenset())
    assert model.streams.results[3].included == {"a"}
    assert model.streams.results[3].named == {"b"}
    model.teardown()


def test_results_and_a_decision_of_a_query_that_stops_late_lose_no_points() -> None:
    """The first attempt to stop the query has failed."""
    model = SourceChangesModel()
    model.write_results(3, lag=0, first="active")
    hand_over(model, "")
    model.stop_late(2, "b")
    model.write_results(1, lag=0, first="active")
    model.correct_late_panes(frozenset())
    assert model.streams.results[5].included == {"a", "b"}
    model.teardown()
