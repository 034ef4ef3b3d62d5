"""The gaps that decide which sites a recomputed tick includes, from the decisions of a merge."""

from analytics.plan.fragments import Merge, StreamLocation, Whole
from analytics_worker.merge.decisions import read_presence
from analytics_worker.merge.site_gaps import LastGaps, last_gaps
from mistbow.client.agent import AgentClient
from mistbow.streams.schemas import RAW


def read_last_gaps(agent: AgentClient, fragment: Whole | Merge) -> LastGaps:
    """Return the last gaps of the sites of a merge; a whole fragment has none."""
    if isinstance(fragment, Whole):
        return LastGaps()
    return last_gaps(read_presence(agent, fragment.decisions).gaps, fragment.sites)


def point_streams(
    fragment: Whole | Merge, gaps: LastGaps, first: int
) -> tuple[StreamLocation, ...]:
    """Return the streams with the points from the tick ``first`` (ms) on, except for absent
    sites.
    """
    if isinstance(fragment, Whole):
        return (fragment.source,)
    absent = gaps.absent(first)
    return tuple(
        StreamLocation(one.data_site, RAW)
        for one in fragment.sources
        if one.data_site not in absent
    )
