"""The view of the fog for people: sites, workers, links, fragments, and flows between sites."""

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec

from analytics.fog_models import (
    FogFlow,
    FogFragment,
    FogLink,
    FogNode,
    FogPosition,
    FogSite,
    FogSnapshot,
    FogSource,
    Placement,
)
from analytics.health_models import Problem
from analytics.plan.fragments import Merge, Partial, Whole, kind_of
from analytics_enabler.catalogue import DataCatalogue
from analytics_enabler.execution import Reconciler
from analytics_enabler.execution.reports import PlacedTask
from analytics_enabler.fabric_view import FabricView
from analytics_enabler.live.problems import SiteParts, onset_key, site_problems
from analytics_enabler.live.site_statuses import SiteStatuses
from analytics_enabler.onsets import Onsets
from mistbow.client.agent import AsyncAgentClient
from mistbow.client.operation_model import ReplicaFact, ReplicaState
from mistbow.clock import Clock
from mistbow.errors import MistbowError, UnavailableError
from mistbow.fabric import Fabric, Site
from mistbow.streams.schemas import RAW

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

REPLICAS_AGE_MS = 15_000
"""The maximum age (ms) of the data about replicas."""

PATIENCE_S = 2.0
MAX_LIVE_LINKS = 2_000
"""The maximum number of links, those with the least latency, in live events and in the history."""


class FogView:
    """Builds the view of the fog from data that the enabler has already read."""

    def __init__(
        self,
        reconciler: Reconciler,
        fabric_view: FabricView,
        catalogue: DataCatalogue,
        agent: AsyncAgentClient,
        statuses: SiteStatuses,
        clock: Clock,
    ) -> None:
        self._reconciler = reconciler
        self._fabric_view = fabric_view
        self._catalogue = catalogue
        self._agent = agent
        self._statuses = statuses
        self._clock = clock
        self._onsets = Onsets[tuple[str | None, ...]](clock)
        """The beginnings of problems: key of a problem -> time."""
        self._replicas: dict[str, set[str]] = {}
        self._replicas_at: int | None = None

    async def refresh(self) -> None:
        """Read the replicas of all sites, unless they were read within ``REPLICAS_AGE_MS``."""
        now = self._clock()
        if self._replicas_at is not None and now - self._replicas_at < REPLICAS_AGE_MS:
            return
        self._replicas_at = now
        try:
            async with asyncio.timeout(PATIENCE_S):
                state = await self._agent.operations.replication()
        except (MistbowError, TimeoutError):
            return
        found: dict[str, set[str]] = {}
        known: list[tuple[ReplicaState | ReplicaFact, str]]
        known = [(replica, state.site) for replica in state.replicas]
        known += [(each, site) for site, facts in state.other_replicas.items() for each in facts]
        for replica, site in known:
            if replica.stream == RAW:
                found.setdefault(replica.source, set()).add(site)
        self._replicas = found

    def snapshot(self, max_links: int | None = None) -> FogSnapshot:
        """Return the present view; raises ``UnavailableError`` while the fabric is unknown.

        ``max_links``: the maximum number of links, those with the least latency; None: all links.
        """
        fabric = self._fabric_view.fabric
        if fabric is None:
            raise UnavailableError(
                "the enabler has not read the fabric yet", hint="Try again in some seconds."
            )
        fog = self._reconciler.fog(fabric)
        tasks = list(self._reconciler.status.placed_tasks())
        insights = self._insights()
        nodes = [FogNode.model_validate(msgspec.to_builtins(node)) for node in fog.nodes]
        fog_links = fog.links
        if max_links is not None and len(fog_links) > max_links:
            order = sorted(fog_links, key=lambda each: (each.latency_ms, each.source, each.target))
            fog_links = tuple(order[:max_links])
        flows = [*self._flows(tasks), *self._replica_flows()]
        loads = loads_of(flows)
        links = [
            FogLink(**msgspec.to_builtins(link), load_mbps=loads.get((link.source, link.target)))
            for link in fog_links
        ]
        fragments = [self._fragment(each, insights.get(each.group.id, [])) for each in tasks]
        problems = self._problems(fabric, nodes, links, fragments)
        return FogSnapshot(
            sites=sorted(site.name for site in fabric.sites),
            nodes=nodes,
            links=links,
            sources=[FogSource.model_validate(msgspec.to_builtins(each)) for each in fog.sources],
            at=self._clock(),
            site_states=list(self._sites(fabric, problems)),
            fragments=fragments,
            flows=flows,
        )

    def placements(self) -> list[Placement]:
        """Return the present placements of all fragments."""
        return [
            Placement(
                group=each.group.id,
                scheduler=each.group.scheduler,
                task=each.task,
                fragment=each.fragment.id,
                kind=kind_of(each.fragment),
                node=each.node,
                site=each.site,
                since=each.since,
            )
            for each in self._reconciler.status.placed_tasks()
        ]

    def _insights(self) -> dict[str, list[str]]:
        """Return group id -> the insights (ID/NAME) of the group."""
        found: dict[str, list[str]] = {}
        for generation in self._reconciler.running():
            name = generation.uid.rpartition("/")[0]
            of_group = found.setdefault(generation.group.id, [])
            if name not in of_group:
                of_group.append(name)
        return found

    def _problems(
        self,
        fabric: Fabric,
        nodes: Iterable[FogNode],
        links: Iterable[FogLink],
        fragments: Iterable[FogFragment],
    ) -> dict[str, list[Problem]]:
        """Return site -> its problems, each with the time since which it is observed."""
        nodes_of = by_key(nodes, lambda each: each.site)
        links_of = by_key(links, lambda each: each.source)
        fragments_of = by_key(fragments, lambda each: each.site)
        statuses, now = self._statuses.latest, self._clock()
        found: dict[str, list[Problem]] = {}
        for site in fabric.sites:
            name = site.name
            parts = SiteParts(
                nodes_of.get(name, ()),
                links_of.get(name, ()),
                fragments_of.get(name, ()),
                statuses.get(name),
            )
            found[name] = list(site_problems(site, parts, now))
        self._onsets.update(onset_key(each) for problems in found.values() for each in problems)
        return {
            site: [each.model_copy(update={"since": self._since(each)}) for each in problems]
            for site, problems in found.items()
        }

    def _since(self, problem: Problem) -> int | None:
        if problem.kind in ("site_silent", "site_suspected"):
            return self._fabric_view.unreachable_since(problem.subject)
        return self._onsets.get(onset_key(problem)) if problem.since is None else problem.since

    def _sites(self, fabric: Fabric, problems: Mapping[str, list[Problem]]) -> Iterator[FogSite]:
        series = self._catalogue.known_series
        counts: Counter[str] | None = None if series is None else Counter()
        if counts is not None and series is not None:
            for (name, _), number in series.counts.items():
                counts[name] += number
        statuses = self._statuses.latest
        for site in sorted(fabric.sites, key=lambda each: each.name):
            status = statuses.get(site.name)
            is_measured = status is not None and status.disk_size_bytes > 0
            yield FogSite(
                name=site.name,
                node=site.node,
                region=site.region,
                labels=dict(site.labels),
                reachable=site.reachable,
                suspected=site.suspected,
                unreachable_since=self._fabric_view.unreachable_since(site.name),
                position=_position(site),
                series=None if counts is None else counts[site.name],
                workers=sorted(worker.name for worker in site.workers),
                replicas=sorted(self._replicas.get(site.name, ())),
                disk_free_mb=status.disk_free_bytes / 1e6 if status and is_measured else None,
                disk_size_mb=status.disk_size_bytes / 1e6 if status and is_measured else None,
                problems=problems[site.name],
            )

    def _fragment(self, placed: PlacedTask, insights: list[str]) -> FogFragment:
        status = placed.status
        return FogFragment(
            group=placed.group.id,
            fragment=placed.fragment.id,
            task=placed.task,
            kind=kind_of(placed.fragment),
            node=placed.node,
            site=placed.site,
            since=placed.since,
            state=None if status is None else status.state,
            lag_ms=None if status is None else status.lag_ms,
            salience=placed.fragment.salience,
            bytes_per_s=self._reconciler.status.bytes_per_s(placed.fragment.id),
            insights=insights,
        )

    def _flows(self, tasks: list[PlacedTask]) -> Iterator[FogFlow]:
        merged_at = {each.group.id: each.site for each in tasks if isinstance(each.fragment, Merge)}
        for each in tasks:
            at, fragment, group = each.site, each.fragment, each.group.id
            if at is None:
                continue
            written = self._reconciler.status.bytes_per_s(fragment.id)
            if isinstance(fragment, Whole | Partial) and fragment.source.site != at:
                yield _flow(fragment.source.site, at, "points", group, None)
            if isinstance(fragment, Partial):
                merge = merged_at.get(group)
                if at != fragment.target.site:
                    yield _flow(at, fragment.target.site, "panes", group, written)
                if merge is not None and merge != fragment.target.site:
                    yield _flow(fragment.target.site, merge, "panes", group, written)
            elif fragment.target.site != at:
                yield _flow(at, fragment.target.site, "results", group, written)

    def _replica_flows(self) -> Iterator[FogFlow]:
        for site, replicas in sorted(self._replicas.items()):
            for replica in sorted(replicas):
                yield _flow(site, replica, "replica", None, None)


def by_key(items: Iterable[T], key_of: Callable[[T], K]) -> dict[K, list[T]]:
    """Return key -> items.

    >>> by_key(["a", "bb", "c"], len)
    {1: ['a', 'c'], 2: ['bb']}
    """
    found: dict[K, list[T]] = {}
    for item in items:
        found.setdefault(key_of(item), []).append(item)
    return found


def _flow(
    source: str, target: str, kind: str, group: str | None, bytes_per_s: float | None
) -> FogFlow:
    return FogFlow(source=source, target=target, kind=kind, group=group, bytes_per_s=bytes_per_s)


def loads_of(flows: Iterable[FogFlow]) -> dict[tuple[str, str], float]:
    """Return (source, target) -> the load (Mbit/s) by the flows whose rate is known.

    >>> loads_of([_flow("a", "b", "panes", "g", 5e5), _flow("a", "b", "points", "h", 2.5e5)])
    {('a', 'b'): 6.0}
    """
    loads: dict[tuple[str, str], float] = {}
    for flow in flows:
        if flow.bytes_per_s is not None:
            between = (flow.source, flow.target)
            loads[between] = loads.get(between, 0.0) + flow.bytes_per_s * 8 / 1e6
    return loads


def _position(site: Site) -> FogPosition | None:
    for worker in site.workers:
        if worker.position is not None:
            found = worker.position
            return FogPosition(latitude=found.latitude, longitude=found.longitude)
    return None
