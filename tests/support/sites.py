"""Sites, each with an Ignite of its own, whose agents a test starts and stops."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from mistbow.client.agent import AgentClient
from mistbow.fabric import Site
from storage_agent.main import create_app
from storage_agent.settings import AgentSettings
from tests.support.conditions import eventually
from tests.support.http_server import served

TOKEN = "of-the-fog"  # noqa: S105 - of these tests only


@dataclass(frozen=True)
class AgentSite:
    """A site, and the address of its agent."""

    name: str
    home: Path
    ignite_port: int
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def settings(self, *peers: "AgentSite") -> dict[str, Any]:
        """Return the settings of this site's agent."""
        return {
            "home": self.home,
            "node": f"node-{self.name}",
            "site": self.name,
            "region": "r",
            "labels": "rack=7",
            "ignite_port": self.ignite_port,
            "agent_url": self.url,
            "peers": ",".join(peer.url for peer in peers),
            "token": TOKEN,
            "collect_routes": False,
        }

    @contextmanager
    def agent(self, *peers: "AgentSite", **settings: Any) -> Iterator[AgentClient]:
        """Serve this site's agent, and yield a client of it once it is ready."""
        served_as = AgentSettings.model_validate({**self.settings(*peers), **settings})
        with served(create_app(served_as), self.port):
            ready = f"{self.url}/readyz"
            headers = {"Authorization": f"Bearer {TOKEN}"}
            eventually(
                lambda: httpx.get(ready, headers=headers).is_success, what="the service is ready"
            )
            client = AgentClient(self.url, TOKEN)
            yield client
            client.close()


def site_of(client: AgentClient, name: str) -> Site:
    """Return a site as an agent describes it.

    Raises ``AssertionError`` while the agent does not list the site.
    """
    found = {site.name: site for site in client.fabric().sites}
    assert name in found, f"{name} is not among {sorted(found)}"
    return found[name]


def wait_until_reached(client: AgentClient, *names: str) -> None:
    """Wait until an agent reaches these sites, and has the facts of each."""

    def all_known() -> bool:
        return all(
            site_of(client, name).reachable and site_of(client, name).labels for name in names
        )

    eventually(all_known, what=f"{names} are in the fabric")
