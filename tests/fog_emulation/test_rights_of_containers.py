"""A stolen container of each service of each fog that Mistbow describes, against all its services.

The identities are those that the containers receive (fog_emulation/fog_trust.py). What they may do
is computed from the labels of the files, in the words of docs/security.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fastapi import FastAPI

from analytics_enabler.main import create_app as enabler
from analytics_enabler.settings import EnablerSettings
from analytics_worker.main import create_app as worker
from analytics_worker.settings import WorkerSettings
from fog_emulation.fog_trust import TOKENS, FogTrust, NodeTrust, node_trust
from fog_emulation.services import load_services
from mistbow.auth.callers import SERVICES_ONLY
from mistbow.auth.identity import IdentityFile
from monitoring_agent.main import create_app as monitor
from monitoring_agent.settings import MonitorSettings
from storage_agent.main import create_app as agent
from storage_agent.settings import AgentSettings
from tests.fog_emulation.cities import FILES
from tests.support.rights import OWN, PEER, PERSON, Attack, Caller, Service, bearer, rules, run

# It sends thousands of requests.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

CLOSED = "http://127.0.0.1:9"


@dataclass(frozen=True)
class Container:
    """A container, the folder with its files, and the trust that its labels configure."""

    name: str
    folder: Path
    trust: NodeTrust

    def reaches(self, kind: str, site: str) -> bool:
        reach = self.trust.reach_of(kind)
        return site == self.trust.site or site in reach or "*" in reach

    def scopes(self, kind: str, site: str) -> set[str]:
        if site == self.trust.site:
            return OWN[kind]
        return OWN[kind] - {"announce"} if self.reaches(kind, site) else PEER[kind]

    def forwarding(self, kind: str, site: str) -> set[str]:
        """Return its scopes for a request that it claims to forward for a person."""
        is_core = "*" in self.trust.reach_of(kind) and site != self.trust.site
        forwards = kind == "enabler" or (kind == "agent" and is_core)
        people = PERSON if forwards and self.reaches(kind, site) else set()
        return self.scopes(kind, site) - SERVICES_ONLY | people


def containers(file: Path, trust: FogTrust, home: Path, replica: int) -> Iterator[Container]:
    """Yield a container of each service with identities, with its files in a folder."""
    for name, service in load_services(file).items():
        needed = node_trust(service.labels, replica)
        if needed is not None and needed.identities:
            folder = home / f"{name}-{replica}"
            folder.mkdir(parents=True)
            for each, content in trust.files(needed).items():
                (folder / each).write_bytes(content)
            yield Container(name, folder, needed)


def app_of(kind: str, container: Container, url: str) -> FastAPI:
    given = {
        "home": container.folder / "home",
        "identity_file": container.folder / f"{kind}.identity",
        "tokens_file": container.folder / TOKENS,
        "own_urls": url,
        "max_requests": 10_000,
        "agent_url": url if kind == "agent" else CLOSED,
    }
    match kind:
        case "agent":
            given["site"] = container.trust.site
            return agent(AgentSettings.model_validate(given))
        case "worker":
            return worker(WorkerSettings.model_validate(given))
        case "monitor":
            if "agent" in container.trust.identities:
                given["identity_file"] = container.folder / "agent.identity"
            return monitor(MonitorSettings.model_validate(given))
    return enabler(EnablerSettings.model_validate(given))


def services(fog: list[Container]) -> Iterator[Service]:
    for container in fog:
        kinds = container.trust.identities
        # The monitoring agent of a container with an agent has the identity of this agent.
        for kind in (*kinds, "monitor") if "agent" in kinds else kinds:
            url = f"http://{container.name}-{kind}:80"
            app = app_of(kind, container, url)
            yield Service(kind, container.trust.site, app, url, rules(app), app.openapi())


def caller(container: Container, kind: str, here: str, elsewhere: str) -> Caller:
    is_agent, reaches = kind == "agent", container.reaches(kind, here)
    return Caller(
        f"{kind} of {container.name}",
        IdentityFile(container.folder / f"{kind}.identity"),
        container.scopes(kind, here),
        container.scopes(kind, elsewhere),
        is_peer_here=is_agent and not reaches,
        is_peer_elsewhere=is_agent and not container.reaches(kind, elsewhere),
        forwarding=container.forwarding(kind, here),
        as_peer=is_agent and reaches,
        is_enabler=kind == "enabler",
    )


@pytest.mark.parametrize(
    "file",
    [FILES[0], *(pytest.param(file, marks=pytest.mark.soak) for file in FILES[1:])],
    ids=lambda file: file.stem,
)
async def test_stolen_container_has_only_the_rights_of_its_labels(
    file: Path, tmp_path: Path
) -> None:
    trust = FogTrust(tmp_path / "trust")
    fog = list(containers(file, trust, tmp_path / "fog", 1))
    # Of a service with replicas, another replica was stolen: it is another site.
    stolen = list(containers(file, trust, tmp_path / "stolen", 2))
    sites = {each.trust.site for each in fog}
    attacks = []
    victims = list(services(fog))
    for service in victims:
        elsewhere = min(sites - {service.site})
        for container in stolen:
            for kind in container.trust.identities:
                by = caller(container, kind, service.site, elsewhere)
                attacks.append(Attack(service, by, elsewhere, as_peer=False))
        # The thief also has the tokens of all stolen containers of other sites.
        for name, token in tokens(trust, {each.trust.site for each in stolen} - {service.site}):
            attacks.append(Attack(service, Caller(name, bearer(token)), elsewhere))
    await run(attacks)
    assert {each.service.kind for each in attacks} == {"agent", "worker", "enabler", "monitor"}
    assert sum(attack.sent for attack in attacks) > 1000


def tokens(trust: FogTrust, sites: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the tokens of sites with their names; those of the core include one of people."""
    for site in sorted(sites):
        for role in ("sender", "reader", "admin"):
            if trust.token_file(site, role).exists():
                yield f"{role} of {site}", trust.token(site, role)
