"""The enabler's view of the fabric, read from the storage agent of its site.

The enabler plans only the sites of its domain.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from analytics_enabler.onsets import Onsets
from mistbow.client.agent import AsyncAgentClient
from mistbow.clock import Clock
from mistbow.domains import Selector
from mistbow.fabric import Fabric, Site

ALL_SITES = Selector()


def all_sites() -> Selector:
    """Return the selector of a domain that has all sites."""
    return ALL_SITES


def has_site(selector: Selector, site: Site) -> bool:
    """Return whether a domain has a site; the label ``region`` is the region of the site."""
    return selector.selects(site.name, {"region": site.region, **site.labels})


LONG_MS = 120_000
"""The time (ms) after which a site is expected to stay without a worker, or with one.

A worker that was killed is back within half a minute, and on a busy machine within two.
"""


@dataclass(frozen=True, slots=True)
class WorkerlessSites:
    """All sites without a worker (``now``), and the sites without a worker for ``LONG_MS``.

    ``confined``: the sites that have had only workers confined to their own site for ``LONG_MS``.
    Such a worker reads the points of its site only if the site stores its panes itself.
    """

    now: frozenset[str] = frozenset()
    long: frozenset[str] = frozenset()
    confined: frozenset[str] = frozenset()


def _is_confined(site: Site) -> bool:
    return bool(site.workers) and all(worker.own_site_only for worker in site.workers)


class FabricView:
    """The sites of the domain at the last refresh, and the names of all that were seen so far.

    ``selector``: returns the sites of the domain, which another identity can change.

    A site is removed when the agent reports it as forgotten.
    """

    def __init__(
        self, agent: AsyncAgentClient, clock: Clock, selector: Callable[[], Selector] = all_sites
    ) -> None:
        self._agent = agent
        self._clock = clock
        self._selector = selector
        self._sites: set[str] = set()
        self._outside: set[str] = set()
        self._unreachable = Onsets[str](clock)
        self._workerless = Onsets[str](clock)
        self._confined = Onsets[str](clock)
        self._workers: dict[str, tuple[str, ...]] = {}
        self.fabric: Fabric | None = None
        """The fabric with only the sites of the domain; None: not read yet."""
        self.whole: Fabric | None = None
        """The whole fabric; None: not read yet."""

    async def refresh(self) -> Fabric:
        """Read the fabric from the agent, and return the part in the domain."""
        self.whole = await self._agent.fabric()
        selector = self._selector()
        sites = tuple(site for site in self.whole.sites if has_site(selector, site))
        self.fabric = msgspec.structs.replace(self.whole, sites=sites)
        self.add_sites(site.name for site in sites)
        self._sites.difference_update(self.whole.forgotten)
        self._outside = {site.name for site in self.whole.sites} - {site.name for site in sites}
        self._note_outages(self.fabric)
        return self.fabric

    def add_sites(self, sites: Iterable[str]) -> None:
        """Add names to the sites seen so far.

        Unreachable sites are added, too, because these sites may still store data; forgotten sites
        are not, although placements still name them.
        """
        forgotten = () if self.whole is None else self.whole.forgotten
        self._sites.update(set(sites).difference(forgotten))

    def reachable_sites(self) -> tuple[str, ...]:
        """Return the names of the sites of the domain that are reachable now."""
        sites = () if self.fabric is None else self.fabric.sites
        return tuple(site.name for site in sites if site.reachable)

    def unreachable_since(self, site: str) -> int | None:
        """Return the time (ms) since which a site is unreachable; None: the site is reachable."""
        return self._unreachable.get(site)

    def workerless_since(self, site: str) -> int | None:
        """Return the time (ms) since which a reachable site has no worker.

        None: the site has a worker, or is unreachable.
        """
        return self._workerless.get(site)

    @property
    def own_site(self) -> str:
        """The site of the enabler; empty: not known yet."""
        return "" if self.fabric is None else self.fabric.site

    @property
    def own_site_text(self) -> str:
        """The site of the enabler, for texts: its name, or a description while it is unknown."""
        return self.own_site or "of the enabler"

    @property
    def workerless(self) -> WorkerlessSites:
        """The sites without a worker; unreachable sites count by the last contact with them."""
        sites = () if self.fabric is None else self.fabric.sites
        now = frozenset(site.name for site in sites if not site.workers)
        limit = self._clock() - LONG_MS
        return WorkerlessSites(
            now=now,
            long=self._workerless.until(limit) & now,
            confined=self._confined.until(limit) - now,
        )

    def last_workers(self, site: str) -> tuple[str, ...]:
        """Return the names of the workers that a site has, or had last."""
        return self._workers.get(site, ())

    @property
    def site_of_worker(self) -> dict[str, str]:
        """Worker -> site, also for workers that a site had last."""
        return {name: site for site, names in self._workers.items() for name in names}

    def _note_outages(self, fabric: Fabric) -> None:
        reachable = {site.name: site for site in fabric.sites if site.reachable}
        self._unreachable.update(self._sites - reachable.keys())
        self._workerless.update(name for name, site in reachable.items() if not site.workers)
        self._confined.update(name for name, site in reachable.items() if _is_confined(site))
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
        """The names of all sites of the domain that were seen, sorted."""
        # A placement of a former, larger domain may name further sites.
        return tuple(sorted(self._sites - self._outside))
