"""The sites whose points workers at other sites read, or can read."""

from collections.abc import Iterator, Mapping
from functools import cached_property

import msgspec

from analytics.insight_models import RemoteRead
from analytics_enabler.fragments import Tasks, data_site
from analytics_enabler.scheduling.driver.snapshot import available_workers, fog_of
from analytics_enabler.scheduling.model.jobs import Job
from analytics_enabler.scheduling.model.snapshot import Fog
from mistbow.fabric import Fabric


class PointAccess:
    """The sites whose points can be read from other sites, and the reads of these points."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._sites = {site.name: site for site in fabric.sites}
        self._site_of = {worker.name: site.name for site, worker in available_workers(fabric)}
        # Readers do not leave a site whose fault may be transient.
        readable = {site.name for site in fabric.sites if site.reachable or site.suspected}
        # The enabler's site may be outside its domain.
        self._readable = frozenset(readable | {fabric.site})

    @property
    def readable_sites(self) -> frozenset[str]:
        """The sites whose points can be read from other sites."""
        return self._readable

    def readable(self, job: Job) -> Job:
        """Return a job in which ``remotely_readable`` of each task is set."""
        tasks = [
            msgspec.structs.replace(task, remotely_readable=task.pinned in self._readable)
            for task in job.tasks
        ]
        return msgspec.structs.replace(job, tasks=tuple(tasks))

    def remote_reads(self, tasks: Tasks, nodes: Mapping[str, str]) -> Iterator[RemoteRead]:
        """Yield the reads of a group's points by workers at other sites than the points.

        ``nodes``: task -> node.
        """
        for task, fragment in tasks.items():
            node, site = nodes.get(task, ""), data_site(fragment)
            reader_site = self._site_of.get(node)
            if site is None or reader_site is None or reader_site == site:
                continue
            latency = self._fog.latency_ms(site, reader_site)
            yield RemoteRead(
                site=site,
                reason=self._reason(site),
                worker=node,
                worker_site=reader_site,
                latency_ms=latency if latency < float("inf") else None,
            )

    @cached_property
    def _fog(self) -> Fog:
        return fog_of(self._fabric)

    def _reason(self, site: str) -> str:
        if site not in self._readable:
            return "the site is unreachable"
        if site in self._sites and not self._sites[site].workers:
            return "the site has no worker"
        return "no worker of the site can run the insight"
