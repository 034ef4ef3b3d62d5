"""The gaps that decide which sites a recomputed tick includes, from the decisions of a merge."""

from analytics.plan.fragments import Merge, Whole
from analytics_worker.merge.decisions import read_presence
from analytics_worker.merge.site_gaps import LastGaps, last_gaps
from mistbow.client.agent import AgentClient


def read_last_gaps(agent: AgentClient, fragment: Whole | Merge) -> LastGaps:
    """Return the last gaps of the sites of a merge; a whole fragment has none."""
    if isinstance(fragment, Whole):
        return LastGaps()
    sources = {location.data_site for location in fragment.sources}
    return last_gaps(read_presence(agent, fragment.decisions).gaps, sources)
