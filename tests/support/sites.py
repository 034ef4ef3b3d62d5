"""Sites of a test, each with its own Ignite: agents of them as the test pleases."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from mistbow.client.agent import AgentClient
from mistbow.fabric import Site
from mistbow.settings import AgentSettings
from storage_agent.main import create_app
from tests.support.serving import served
from tests.support.waiting import eventually

TOKEN = "of-the-fog"  # noqa: S105 - of these tests only


@dataclass(frozen=True)
class Place:
    """Where a site's agent runs, if it runs."""

    name: str
    home: Path
    ignite_port: int
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def settings(self, *peers: "Place") -> dict[str, Any]:
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
    def agent(self, *peers: "Place", **settings: Any) -> Iterator[AgentClient]:
        """Serve this site's agent, and yield a client of it once it is ready."""
        served_as = AgentSettings.model_validate({**self.settings(*peers), **settings})
        with served(create_app(served_as), self.port):
            ready = f"{self.url}/readyz"
            headers = {"Authorization": f"Bearer {TOKEN}"}
            eventually(lambda: httpx.get(ready, headers=headers).is_success, what="it is ready")
            client = AgentClient(self.url, TOKEN)
            yield client
            client.close()


def site_of(client: AgentClient, name: str) -> Site:
    """Return what an agent says of a site; fails while it does not know it."""
    found = {site.name: site for site in client.fabric().sites}
    assert name in found, f"{name} is not among {sorted(found)}"
    return found[name]


def knows(client: AgentClient, *names: str) -> None:
    """Wait until an agent reaches these sites, and knows what they said of themselves."""

    def all_known() -> bool:
        return all(
            site_of(client, name).reachable and site_of(client, name).labels for name in names
        )

    eventually(all_known, what=f"{names} are known")
