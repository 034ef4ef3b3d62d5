"""The plans of groups of running insights, and the fragments that compute the plans."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
from msgspec import UNSET

from analytics.plan.fragments import Fragment, Merge, Partial, StreamLocation, Whole
from analytics.plan.nodes import Pane, Plan, fingerprint
from analytics.plan.resumption import resume
from analytics_enabler.deployments.model import Generation
from analytics_enabler.groups import Group, slug
from analytics_enabler.optimizer import optimize
from mistbow.streams.schemas import RAW, panes_stream

WHOLE = "whole"
MERGE = "merge"
Tasks = dict[str, Fragment]
"""Task name -> fragment, for the tasks of a group. New versions of a fragment keep the task name.
"""


class PartialsVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a group's partial fragments: the panes that these fragments compute.

    Times are in ms. The fields are those of ``analytics.plan.fragments.Partial``.
    """

    panes: tuple[Pane, ...]
    grain_ms: int
    lookback_ms: int = msgspec.field(name="reach_ms")
    begin: int

    @property
    def name(self) -> str:
        """A short name of the version, which is part of the ids of the partial fragments."""
        return fingerprint(self)[:8]

    def satisfies(self, required: "PartialsVersion") -> bool:
        """Return whether partial fragments of this version compute all panes of ``required``."""
        return (
            {pane.id for pane in self.panes} == {pane.id for pane in required.panes}
            and self.grain_ms == required.grain_ms
            and self.lookback_ms >= required.lookback_ms
            and self.begin <= required.begin
        )


def plans_of(generations: Iterable[Generation]) -> dict[Group, Plan]:
    """Return group -> optimized plan; only insights of the same group share windows."""
    members: dict[Group, list[Generation]] = defaultdict(list)
    for generation in generations:
        members[generation.group].append(generation)
    return {
        group: optimize(Plan(insights=tuple(member.insight for member in members[group]))).plan
        for group in sorted(members, key=lambda group: group.id)
    }


def required_version(plan: Plan, frontier: int, covered: Collection[str]) -> PartialsVersion:
    """Return the version of the partial fragments that a plan requires.

    ``covered``: the uids of the insights whose results are complete up to ``frontier`` (ms).
    """
    return PartialsVersion(
        panes=plan.panes,
        grain_ms=plan.grain_ms,
        lookback_ms=plan.lookback_ms,
        begin=resume(plan, frontier, covered).needs,
    )


def whole(group: Group, plan: Plan, site: str) -> Tasks:
    """Return the only task of a group that reads one site: task name -> fragment."""
    feed = group.feed
    fragment = Whole(
        id=group.id,
        source=StreamLocation(site, RAW)
        if feed is None
        else StreamLocation(site, feed.stream, feed),
        target=StreamLocation(site, group.results),
        plan=plan,
        salience=group.options.salience,
    )
    return {WHOLE: fragment}


def over_sites(
    group: Group,
    plan: Plan,
    version: PartialsVersion,
    sites: Sequence[str],
    own_site: str,
    patience_ms: int,
    pane_sites: Mapping[str, str] = {},
) -> Tasks:
    """Return the tasks of a group that reads several sites: task name -> fragment.

    ``own_site``: the site that stores the results. ``patience_ms``: the time for which the merge
    waits for a silent site. ``pane_sites``: site -> the site that stores its panes; other sites
    store their own panes.
    """
    partials = {
        partial_task(site): _partial(group, version, site, pane_sites.get(site, site))
        for site in sites
    }
    merge = Merge(
        id=group.id,
        sources=tuple(partial.target for partial in partials.values()),
        target=StreamLocation(own_site, group.results),
        decisions=StreamLocation(own_site, group.decisions),
        plan=plan,
        patience_ms=patience_ms,
        salience=group.options.salience,
    )
    return {**partials, MERGE: merge}


def result_task(tasks: Tasks) -> str:
    """Return the name of the task that writes the results."""
    return MERGE if MERGE in tasks else WHOLE


def data_site(fragment: Fragment) -> str | None:
    """Return the site whose points a fragment reads; None: the fragment is a merge."""
    return None if isinstance(fragment, Merge) else fragment.source.site


def sites_of(fragment: Fragment) -> tuple[str, ...]:
    """Return the sites whose streams a fragment reads or writes."""
    if isinstance(fragment, Merge):
        used = (*fragment.sources, fragment.target, fragment.decisions)
    else:
        used = (fragment.source, fragment.target)
    return tuple(sorted({location.site for location in used}))


def partial_task(site: str) -> str:
    """Return the name of the task that reads the points of a site."""
    return f"at-{site}"


def _partial(group: Group, version: PartialsVersion, site: str, panes_site: str) -> Partial:
    name = f"{group.id}.{version.name}.{slug(site)}"
    return Partial(
        id=name,
        source=StreamLocation(site, RAW),
        target=StreamLocation(
            panes_site, panes_stream(name), origin=UNSET if panes_site == site else site
        ),
        panes=version.panes,
        grain_ms=version.grain_ms,
        lookback_ms=version.lookback_ms,
        begin=version.begin,
        salience=group.options.salience,
    )
