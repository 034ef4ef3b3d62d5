"""Cutting what runs into what workers run: groups into plans, plans into fragments."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

import msgspec

from analytics_enabler.deployments.model import Generation
from analytics_enabler.groups import Group, slug
from analytics_enabler.optimizer import optimize
from mistbow.plan.fragments import Fragment, Merge, Partial, Place, Whole
from mistbow.plan.nodes import Pane, Plan, fingerprint
from mistbow.plan.resumption import resume
from mistbow.streams.schemas import RAW, panes_stream

WHOLE = "whole"
MERGE = "merge"
Tasks = dict[str, Fragment]
"""The tasks of a group, each with its fragment; the names are the same for all versions."""


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """What the partials of a group compute, and since when; times in ms.

    See ``mistbow.plan.fragments.Partial`` for what the fields mean.
    """

    panes: tuple[Pane, ...]
    grain_ms: int
    reach_ms: int
    begin: int

    @property
    def name(self) -> str:
        """A short name, part of the ids of the partials."""
        return fingerprint(self)[:8]

    def serves(self, needed: "Version") -> bool:
        """Return whether partials of this version yield all that is needed."""
        return (
            {pane.id for pane in self.panes} == {pane.id for pane in needed.panes}
            and self.grain_ms == needed.grain_ms
            and self.reach_ms >= needed.reach_ms
            and self.begin <= needed.begin
        )


def plans_of(generations: Iterable[Generation]) -> dict[Group, Plan]:
    """Return the optimised plan of each group; merging happens within a group only."""
    members: dict[Group, list[Generation]] = defaultdict(list)
    for generation in generations:
        members[generation.group].append(generation)
    return {
        group: optimize(Plan(insights=tuple(member.insight for member in members[group]))).plan
        for group in sorted(members, key=lambda group: group.id)
    }


def version_for(plan: Plan, frontier: int, covered: Collection[str]) -> Version:
    """Return what a plan's partials have to compute.

    The results of the ``covered`` insights (uids) stand up to ``frontier``.
    """
    return Version(
        panes=plan.panes,
        grain_ms=plan.grain_ms,
        reach_ms=plan.reach_ms,
        begin=resume(plan, frontier, covered).needs,
    )


def whole(group: Group, plan: Plan, site: str) -> Tasks:
    """Return the one task of a group over one site, with its fragment."""
    feed = group.feed
    fragment = Whole(
        id=group.id,
        source=Place(site, RAW) if feed is None else Place(site, feed.stream, feed),
        target=Place(site, group.results),
        plan=plan,
        salience=group.options.salience,
    )
    return {WHOLE: fragment}


def over_sites(
    group: Group, plan: Plan, version: Version, sites: Sequence[str], own: str, patience_ms: int
) -> Tasks:
    """Return the tasks of a group over several sites, each with its fragment.

    Results are written at the site ``own``.
    """
    partials = {partial_task(site): _partial(group, version, site) for site in sites}
    merge = Merge(
        id=group.id,
        sources=tuple(partial.target for partial in partials.values()),
        target=Place(own, group.results),
        decisions=Place(own, group.decisions),
        plan=plan,
        patience_ms=patience_ms,
        salience=group.options.salience,
    )
    return {**partials, MERGE: merge}


def result_of(tasks: Tasks) -> Fragment:
    """Return the fragment that results come of."""
    return tasks[MERGE] if MERGE in tasks else tasks[WHOLE]


def partial_task(site: str) -> str:
    """Return the name of the task that reads a site's points."""
    return f"at-{site}"


def _partial(group: Group, version: Version, site: str) -> Partial:
    name = f"{group.id}.{version.name}.{slug(site)}"
    return Partial(
        id=name,
        source=Place(site, RAW),
        target=Place(site, panes_stream(name)),
        panes=version.panes,
        grain_ms=version.grain_ms,
        reach_ms=version.reach_ms,
        begin=version.begin,
        salience=group.options.salience,
    )
