"""The rule for the sites of each tick, apart from the sequences of the model of source changes."""

from analytics_worker.merge.site_gaps import removed_gap, uncertain_of_new_source


def test_uncertain_ticks_of_a_removal_remain_if_the_clock_is_behind_their_recorded_end() -> None:
    removal = removed_gap("b", 1000, 1000, uncertain=[(1000, 5000)], names=())
    assert uncertain_of_new_source([removal], 3000) == ((1000, 5000),)
    assert uncertain_of_new_source([removal], 9000) == ((1000, 5000),)
