"""Every route of every service, called by every kind of caller: a generated matrix.

Routes of streams are called with three names: ``raw``, the state of an enabler, and a replica of
another site. The routes, their scopes, and the parameters of requests are read from the services.
What each caller may do is stated here a second time, in the words of docs/security.md. Each request
is also sent with the headers of forwarded requests.
"""

from datetime import timedelta
from typing import Any

import httpx
import pytest

from analytics_enabler.main import create_app as enabler
from analytics_enabler.settings import EnablerSettings
from analytics_worker.main import create_app as worker
from analytics_worker.settings import WorkerSettings
from mistbow.auth.callers import SERVICES_ONLY
from mistbow.auth.fog_keys import FogKeys
from mistbow.auth.identity import IdentityFile
from mistbow.auth.token_file import new_token_file, write_token_file
from mistbow.client.credentials import ServiceCredentials
from mistbow.clock import utc_now
from monitoring_agent.main import create_app as monitor
from monitoring_agent.settings import MonitorSettings
from storage_agent.main import create_app as agent
from storage_agent.settings import AgentSettings
from tests.support.rights import OWN, PEER, PERSON, Attack, Caller, Service, bearer, rules, run

# It sends thousands of requests.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

HERE, ELSEWHERE = "edge-north", "cloud"
CLOSED = "http://127.0.0.1:9"
KINDS = ("agent", "worker", "enabler", "monitor")

TOKENS = {"sender": {"ingest"}, "reader": {"read"}, "person": PERSON}


@pytest.fixture(scope="module")
def fog(tmp_path_factory: pytest.TempPathFactory) -> FogKeys:
    keys = FogKeys(tmp_path_factory.mktemp("fog") / "keys")
    keys.create()
    return keys


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    content, made = new_token_file(), {}
    for name, scope in (("sender", "ingest"), ("reader", "read"), ("person", "admin")):
        content, made[name] = content.with_token(name, frozenset({scope}), "", None)
    file = tmp_path_factory.mktemp("tokens") / "tokens.json"
    write_token_file(file, content)
    return {"file": file, **made}


@pytest.fixture(scope="module")
def services(
    fog: FogKeys, tokens: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> list[Service]:
    end = utc_now() + timedelta(days=1)
    made = []
    for kind, make, settings in (
        ("agent", agent, AgentSettings),
        ("worker", worker, WorkerSettings),
        ("enabler", enabler, EnablerSettings),
        ("monitor", monitor, MonitorSettings),
    ):
        url = f"http://the-{kind}:80"
        given = {
            "home": tmp_path_factory.mktemp(kind),
            "identity_file": fog.issue(f"the-{kind}", kind, HERE, end),
            "tokens_file": tokens["file"],
            "own_urls": url,
            "max_requests": 10_000,
            "agent_url": url if kind == "agent" else CLOSED,
            **({"site": HERE} if kind == "agent" else {}),
            # An enabler without a reach has the domain of its name only.
            **({"domain": "the-enabler"} if kind == "enabler" else {}),
        }
        app = make(settings.model_validate(given))
        made.append(Service(kind, HERE, app, url, rules(app), app.openapi()))
    return made


@pytest.fixture(scope="module")
def callers(
    fog: FogKeys, tokens: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> list[Caller]:
    end = utc_now() + timedelta(days=1)
    foreign = FogKeys(tmp_path_factory.mktemp("foreign") / "keys")
    foreign.create()

    def of(keys: FogKeys, name: str, kind: str, site: str, *reach: str) -> IdentityFile:
        return IdentityFile(keys.issue(name, kind, site, end, reach))

    found = [Caller("nobody", None), Caller("wrong token", bearer("mistbow_wrong"))]
    for name, scopes in TOKENS.items():
        found.append(Caller(name, bearer(tokens[name]), scopes, scopes))
    for kind in KINDS:
        is_agent = kind == "agent"
        own, peer = OWN[kind], PEER[kind]
        # An enabler forwards the requests of people; the agents of a site do not to each other.
        people = TOKENS["person"]
        at_home = people if kind == "enabler" else set()
        from_core = people if kind in ("enabler", "agent") else set()
        found += [
            Caller(f"{kind} of the site", of(fog, f"own-{kind}", kind, HERE), own, peer,
                   is_peer_elsewhere=is_agent, as_peer=is_agent,
                   forwarding=own - SERVICES_ONLY | at_home, is_enabler=kind == "enabler"),
            Caller(f"{kind} of a stolen edge", of(fog, f"stolen-{kind}", kind, "edge-south"),
                   peer, peer, is_peer_here=is_agent, is_peer_elsewhere=is_agent, as_peer=False,
                   forwarding=peer - SERVICES_ONLY),
            Caller(f"{kind} of the core", of(fog, f"core-{kind}", kind, "core", "*"),
                   own - {"announce"}, own - {"announce"}, as_peer=is_agent,
                   forwarding=own - SERVICES_ONLY | from_core, is_enabler=kind == "enabler"),
            Caller(f"foreign {kind}", of(foreign, f"foreign-{kind}", kind, HERE)),
            Caller(f"expired {kind}", expired(fog, kind)),
            Caller(f"revoked {kind}", revoked(fog, kind)),
        ]  # fmt: skip
    return found


def expired(keys: FogKeys, kind: str) -> IdentityFile:
    """Return an identity that has expired, but not by the clock of the caller."""
    path = keys.issue(f"expired-{kind}", kind, HERE, utc_now() + timedelta(milliseconds=1))
    return IdentityFile(path, clock=lambda: utc_now() - timedelta(hours=1))


def revoked(keys: FogKeys, kind: str) -> IdentityFile:
    """Return an identity that a thief has copied before its revocation."""
    name = f"revoked-{kind}"
    copy = keys.folder.parent / name
    copy.write_bytes(keys.issue(name, kind, HERE, utc_now() + timedelta(days=1)).read_bytes())
    keys.revoke(name)
    return IdentityFile(copy)


async def test_each_caller_has_only_the_rights_of_its_scopes(
    services: list[Service], callers: list[Caller]
) -> None:
    attacks = [Attack(service, caller, ELSEWHERE) for service in services for caller in callers]
    await run(attacks)
    sent = sum(attack.sent for attack in attacks)
    routes = sum(len(service.routes) for service in services)
    assert sent > len(callers) * (routes - 3 * len(services))
    print(f"{sent} requests: {routes} routes, {len(callers)} callers")


def test_no_service_has_the_scope_of_people() -> None:
    assert all("admin" not in scopes for scopes in OWN.values())


def test_routes_that_only_services_may_call_take_no_token(services: list[Service]) -> None:
    only = [
        f"{method} {path}"
        for service in services
        for (method, path), rule in service.routes.items()
        if rule is not None and rule.services_only
    ]
    assert sorted(only) == [
        "DELETE /enablers/{domain}",
        "POST /api/insights/{deployment_id}/adopt",
        "POST /fabric/greet",
        "POST /fabric/probe",
        "PUT /enablers/{domain}",
        "PUT /workers/{name}",
    ]


async def test_each_service_reads_new_identities_and_revocations_without_a_restart(
    fog: FogKeys, services: list[Service]
) -> None:
    end = utc_now() + timedelta(days=1)
    for service in services:
        copy = fog.folder.parent / f"caller-of-{service.kind}"
        name = copy.name
        copy.write_bytes(fog.issue(name, "agent", HERE, end).read_bytes())
        caller, transport = IdentityFile(copy), httpx.ASGITransport(service.app)
        served = []
        for _ in range(2):
            auth = ServiceCredentials(service.url, caller, kind=service.kind)  # type: ignore[arg-type]
            async with httpx.AsyncClient(
                transport=transport, base_url=service.url, auth=auth
            ) as client:
                assert (await client.get("/metrics")).status_code == 200
                assert auth.peer is not None
                served.append(auth.peer.id)
                fog.issue(f"the-{service.kind}", service.kind, HERE, end)
                # The open session continues.
                assert (await client.get("/metrics")).status_code == 200
        assert served[0] != served[1]
        async with httpx.AsyncClient(
            transport=transport, base_url=service.url, auth=auth
        ) as client:
            fog.revoke(name)
            with pytest.raises(httpx.RequestError, match=f"agent {name} is revoked"):
                await client.get("/metrics")
