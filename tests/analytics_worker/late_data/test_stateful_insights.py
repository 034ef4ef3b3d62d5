"""The ticks at which late data changes no states, since these include points of a removed site."""

from typing import cast

from structlog.testing import capture_logs

from analytics_worker.late_data.stateful_insights import StatefulInsights
from analytics_worker.late_data.tick_spans import TickSpan
from analytics_worker.late_data.unanswered_ticks import UnansweredTicks
from analytics_worker.merge.site_gaps import LastGaps, SiteGap
from analytics_worker.stateful.state_stream import StateAccess
from mistbow.client.agent import AgentClient
from tests.analytics_worker.late_data.corrections import counting_plan


def test_states_up_to_the_last_uncertain_tick_of_a_removed_site_are_not_corrected() -> None:
    gap = SiteGap("far", 2000, 2000, is_removed=True, uncertain=((4000, 6000),))
    # No stream can be read, so that a correction of any state fails.
    insights = StatefulInsights(
        cast("AgentClient", None),
        counting_plan("counted.metric", 1000),
        cast("StateAccess", None),
        LastGaps((gap,)),
        lambda _: (),
    )
    late = {"count": [TickSpan(3000, 6000)]}
    with capture_logs() as logs:
        assert insights.correct_states(late, 6000, UnansweredTicks(may_wait=False)) == {}
    assert [(each["event"], each["sites"]) for each in logs] == [
        ("correction_sites_removed", ["far"])
    ]
