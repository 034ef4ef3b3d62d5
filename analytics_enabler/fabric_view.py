"""The enabler's view of the fabric, read from the storage agent of its site."""

from collections.abc import Iterable

from analytics_enabler.onsets import Onsets
from mistbow.client.agent import AsyncAgentClient
from mistbow.clock import Clock
from mistbow.fabric import Fabric


class FabricView:
    """The fabric at the last refresh, and the names of all sites seen so far.

    A site is removed when the agent reports it as forgotten.
    """

    def __init__(self, agent: AsyncAgentClient, clock: Clock) -> None:
        self._agent = agent
        self._sites: set[str] = set()
        self._unreachable = Onsets[str](clock)
        self._workerless = Onsets[str](clock)
        self._workers: dict[str, tuple[str, ...]] = {}
        self.fabric: Fabric | None = None

    async def refresh(self) -> Fabric:
        """Read the fabric from the agent, and return it."""
        self.fabric = await self._agent.fabric()
        self.add_sites(site.name for site in self.fabric.sites)
        self._sites.difference_update(self.fabric.forgotten)
        self._note_outages(self.fabric)
        return self.fabric

    def add_sites(self, sites: Iterable[str]) -> None:
        """Add names to the sites seen so far.

        Unreachable sites are added, too, because these sites may still store data.
        """
        self._sites.update(sites)

    def unreachable_since(self, site: str) -> int | None:
        """Return the time (ms) since which a site is unreachable; None: the site is reachable."""
        return self._unreachable.get(site)

    def workerless_since(self, site: str) -> int | None:
        """Return the time (ms) since which a reachable site has no worker.

        None: the site has a worker, or is unreachable.
        """
        return self._workerless.get(site)

    def last_workers(self, site: str) -> tuple[str, ...]:
        """Return the names of the workers that a site has, or had last."""
        return self._workers.get(site, ())

    def _note_outages(self, fabric: Fabric) -> None:
        reachable = {site.name: site for site in fabric.sites if site.reachable}
        self._unreachable.update(self._sites - reachable.keys())
        self._workerless.update(name for name, site in reachable.items() if not site.workers)
        for name, site in reachable.items():
            if site.workers:
                self._workers[name] = tuple(worker.name for worker in site.workers)

    @property
    def site_of_node(self) -> dict[str, str]:
        """Node -> site, for the nodes that store points."""
        sites = () if self.fabric is None else self.fabric.sites
        return {site.node: site.name for site in sites}

    @property
    def sites(self) -> tuple[str, ...]:
        """The names of all sites seen, sorted."""
        return tuple(sorted(self._sites))
