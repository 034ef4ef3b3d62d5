"""The sites and workers as the agent of this site sees them, looked at again and again."""

from collections.abc import Iterable

from mistbow.client.agent import AsyncAgentClient
from mistbow.fabric import Fabric


class Landscape:
    """The fabric as of the last look, and all sites that it ever had and are not forgotten."""

    def __init__(self, agent: AsyncAgentClient) -> None:
        self._agent = agent
        self._seen: set[str] = set()
        self.fabric: Fabric | None = None

    async def look(self) -> Fabric:
        """Ask for the fabric as it is now."""
        self.fabric = await self._agent.fabric()
        self.remember(site.name for site in self.fabric.sites)
        self._seen.difference_update(self.fabric.forgotten)
        return self.fabric

    def remember(self, sites: Iterable[str]) -> None:
        """Count these sites among those that there are; a site that is cut off still has data."""
        self._seen.update(sites)

    @property
    def site_of_node(self) -> dict[str, str]:
        """The site of each node that stores points."""
        sites = () if self.fabric is None else self.fabric.sites
        return {site.node: site.name for site in sites}

    @property
    def sites(self) -> tuple[str, ...]:
        """The names of all sites, in order."""
        return tuple(sorted(self._seen))
