"""Where workers read the points of each site."""

from collections.abc import Iterator, Mapping

import msgspec

from analytics.insight_models import RemoteRead
from analytics.plan.fragments import Fragment, Merge, Partial, StreamLocation
from analytics_enabler.fragments import SiteAccess, Tasks
from analytics_enabler.scheduling.driver.snapshot import available_workers, fog_of
from analytics_enabler.scheduling.model.jobs import Job
from analytics_enabler.scheduling.model.snapshot import Fog
from mistbow.fabric import Fabric
from mistbow.streams.schemas import RAW

_MIN_GAIN_MS = 5.0
"""The difference of latencies (ms) from which on a reader changes to a nearer stream."""


class PointAccess:
    """The streams from which workers can read points, according to a snapshot of the fabric.

    ``fog``: the snapshot from which latencies are taken; None: the snapshot of this fabric.
    """

    def __init__(self, fabric: Fabric, fog: Fog | None = None) -> None:
        self.fog = fog_of(fabric) if fog is None else fog
        self._sites = {site.name: site for site in fabric.sites}
        self._site_of = {worker.name: site.name for site, worker in available_workers(fabric)}
        # Readers do not leave a site whose fault may be transient.
        self._suspected = {site.name for site in fabric.sites if site.suspected}
        reachable = self._suspected.union(site.name for site in fabric.sites if site.reachable)
        # The enabler's site may be outside its domain.
        self._reachable = frozenset(reachable | {fabric.site})

    @property
    def readable_sites(self) -> frozenset[str]:
        """The reachable sites, on which the result of ``readable`` depends."""
        return self._reachable

    def readable(self, job: Job, tasks: Tasks) -> Job:
        """Return a job with the sites at which its tasks can read their data (``read_at``).

        ``tasks``: the tasks of the job's group.
        """
        reading = [
            msgspec.structs.replace(task, read_at=self._read_at(tasks[task.id]))
            for task in job.tasks
        ]
        return msgspec.structs.replace(job, tasks=tuple(reading))

    def locate(self, tasks: Tasks, nodes: Mapping[str, str]) -> Tasks:
        """Return the tasks of a group, each partial with the stream from which it reads.

        ``nodes``: task -> node. A reader changes the stream if it can no longer read its present
        stream, or if another one is nearer by at least ``_MIN_GAIN_MS``.
        """
        located: Tasks = {}
        for task, fragment in tasks.items():
            located[task] = fragment
            if isinstance(fragment, Partial):
                source = self._source(fragment, nodes.get(task))
                if source != fragment.source:
                    located[task] = msgspec.structs.replace(fragment, source=source)
        return located

    def remote_reads(self, tasks: Tasks, nodes: Mapping[str, str]) -> Iterator[RemoteRead]:
        """Yield the reads of a group's points by workers at other sites than the points.

        ``nodes``: task -> node.
        """
        for task, fragment in tasks.items():
            node = nodes.get(task, "")
            reader_site = self._site_of.get(node)
            if isinstance(fragment, Merge) or reader_site is None:
                continue
            site = fragment.source.data_site
            if reader_site == site:
                continue
            latency = self.fog.latency_ms(fragment.source.site, reader_site)
            yield RemoteRead(
                site=site,
                reason=self._reason(site),
                worker=node,
                worker_site=reader_site,
                read_at=fragment.source.site,
                latency_ms=latency if latency < float("inf") else None,
            )

    def _reason(self, site: str) -> str:
        if site not in self._reachable:
            return "the site is unreachable"
        if site in self._sites and not self._sites[site].workers:
            return "the site has no worker"
        return "no worker of the site can run the insight"

    def _source(self, fragment: Partial, node: str | None) -> StreamLocation:
        site, present = fragment.source.data_site, fragment.source
        reader_site = None if node is None else self._site_of.get(node)
        if reader_site is None or present.site in self._suspected:
            return present
        if reader_site == site:
            return StreamLocation(site, RAW)
        latencies = {
            location: self.fog.latency_ms(location.site, reader_site)
            for location in self._locations(fragment)
        }
        if not latencies:
            return present
        nearest = min(latencies, key=lambda one: (latencies[one], one.site != site, one.site))
        if present in latencies and latencies[present] < latencies[nearest] + _MIN_GAIN_MS:
            return present
        return nearest

    def _read_at(self, fragment: Fragment) -> tuple[str, ...]:
        return tuple(sorted({location.site for location in self._locations(fragment)}))

    def _locations(self, fragment: Fragment) -> Iterator[StreamLocation]:
        """Yield the streams from which a worker at another site can read a fragment's points.

        Replicas are not among them: a change from a site to its replica stored some panes twice.
        """
        if isinstance(fragment, Merge):
            return
        site = fragment.source.data_site
        if site in self._reachable:
            is_partial = isinstance(fragment, Partial)
            yield StreamLocation(site, RAW) if is_partial else fragment.source


def sources_of(tasks: Tasks, access: SiteAccess) -> SiteAccess:
    """Return ``access`` with the replicas that the partial fragments of a group read."""
    partials = [each.source for each in tasks.values() if isinstance(each, Partial)]
    replicas = {source.data_site: source for source in partials if source.site != source.data_site}
    return msgspec.structs.replace(access, sources=replicas)
