"""The enabler's view of the fabric, read from the storage agent of its site."""

from collections.abc import Iterable

from mistbow.client.agent import AsyncAgentClient
from mistbow.fabric import Fabric


class FabricView:
    """The fabric at the last refresh, and the names of all sites seen so far.

    A site is removed when the agent reports it as forgotten.
    """

    def __init__(self, agent: AsyncAgentClient) -> None:
        self._agent = agent
        self._sites: set[str] = set()
        self.fabric: Fabric | None = None

    async def refresh(self) -> Fabric:
        """Read the fabric from the agent, and return it."""
        self.fabric = await self._agent.fabric()
        self.add_sites(site.name for site in self.fabric.sites)
        self._sites.difference_update(self.fabric.forgotten)
        return self.fabric

    def add_sites(self, sites: Iterable[str]) -> None:
        """Add names to the sites seen so far.

        Unreachable sites are added, too, because these sites may still store data.
        """
        self._sites.update(sites)

    @property
    def site_of_node(self) -> dict[str, str]:
        """Node -> site, for the nodes that store points."""
        sites = () if self.fabric is None else self.fabric.sites
        return {site.node: site.name for site in sites}

    @property
    def sites(self) -> tuple[str, ...]:
        """The names of all sites seen, sorted."""
        return tuple(sorted(self._sites))
