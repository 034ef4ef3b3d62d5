"""Every route of every service, called by every kind of caller: a generated matrix.

The routes, their scopes, and the parameters of requests are read from the services. What each
caller may do is stated here a second time, in the words of docs/security.md. Each request is also
sent with the headers of forwarded requests.
"""

import asyncio
import re
from collections.abc import Awaitable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import httpx
import pytest
import stamina
from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts

from analytics_enabler.main import create_app as enabler
from analytics_enabler.settings import EnablerSettings
from analytics_worker.main import create_app as worker
from analytics_worker.settings import WorkerSettings
from mistbow.auth.authentication import CALLER, CALLER_SITE, OPEN_PATHS, SIGNATURES
from mistbow.auth.callers import SERVICES_ONLY
from mistbow.auth.fog_keys import FogKeys
from mistbow.auth.identity import IdentityFile
from mistbow.auth.rules import AccessRule, rule_of
from mistbow.auth.token_file import new_token_file, write_token_file
from mistbow.client.credentials import ServiceCredentials
from mistbow.clock import utc_now
from mistbow.http.documentation import DOCUMENTATION_PATHS
from monitoring_agent.main import create_app as monitor
from monitoring_agent.settings import MonitorSettings
from storage_agent.main import create_app as agent
from storage_agent.membership.network import VIA
from storage_agent.settings import AgentSettings

# It sends thousands of requests.
pytestmark = pytest.mark.integration

HERE, ELSEWHERE = "edge-north", "cloud"
CLOSED = "http://127.0.0.1:9"
KINDS = ("agent", "worker", "enabler", "monitor")

OWN = {
    "agent": {"join", "replicate", "ingest", "read", "append"},
    "worker": {"announce", "read", "append"},
    "enabler": {"announce", "adopt", "order", "read", "append"},
    "monitor": {"ingest", "read"},
}
PEER = {"agent": {"join", "replicate"}, "worker": set(), "enabler": set(), "monitor": set()}
TOKENS = {
    "sender": {"ingest"},
    "reader": {"read"},
    "person": {"ingest", "read", "append", "replicate", "order", "admin"},
}

_OF_A_PERSON = {CALLER: "person", SIGNATURES: "board", VIA: "core"}
FORGED: tuple[Mapping[str, str], ...] = (_OF_A_PERSON, {**_OF_A_PERSON, CALLER_SITE: HERE})
"""The headers of forwarded requests, as an attacker adds them: of a person, of an agent here."""


@dataclass(frozen=True)
class Service:
    """A service at the site ``HERE``, with its rules: (method, path) -> rule."""

    kind: str
    app: FastAPI
    url: str
    routes: dict[tuple[str, str], AccessRule | None]
    document: dict[str, Any]


@dataclass(frozen=True)
class Caller:
    """A caller, and its scopes here and at another site.

    ``forwarding``: its scopes if it says that it forwards a request; None: the same.
    ``as_peer``: whether it may forward requests of agents of this site; None: it is no service.
    """

    name: str
    auth: Any
    here: set[str] = field(default_factory=set)
    elsewhere: set[str] = field(default_factory=set)
    is_peer_here: bool = False
    is_peer_elsewhere: bool = False
    forwarding: set[str] | None = None
    as_peer: bool | None = None


def rules(app: FastAPI) -> dict[tuple[str, str], AccessRule | None]:
    found = {}
    for context in iter_route_contexts(app.routes):
        if context.path not in DOCUMENTATION_PATHS:
            assert isinstance(context.original_route, APIRoute)
            for method in context.methods or ():
                found[method, context.path] = rule_of(context.original_route)
    return found


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
        made.append(Service(kind, app, url, rules(app), app.openapi()))
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
                   forwarding=own - SERVICES_ONLY | at_home),
            Caller(f"{kind} of a stolen edge", of(fog, f"stolen-{kind}", kind, "edge-south"),
                   peer, peer, is_peer_here=is_agent, is_peer_elsewhere=is_agent, as_peer=False,
                   forwarding=peer - SERVICES_ONLY),
            Caller(f"{kind} of the core", of(fog, f"core-{kind}", kind, "core", "*"),
                   own - {"announce"}, own - {"announce"}, as_peer=is_agent,
                   forwarding=own - SERVICES_ONLY | from_core),
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


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def may(rule: AccessRule, scopes: set[str], is_peer: bool) -> bool:
    """Return whether scopes satisfy a rule; peers are admitted, and checked by the route."""
    return rule.scope in scopes or (rule.for_peers and is_peer)


def parameters(service: Service, method: str, path: str) -> dict[str, str]:
    """Return values for the required parameters of the query."""
    operation = service.document["paths"].get(path, {}).get(method.lower(), {})
    return {
        each["name"]: "1"
        for each in operation.get("parameters", ())
        if each["in"] == "query" and each.get("required")
    }


def forged_rights(caller: Caller, headers: Mapping[str, str]) -> tuple[set[str], bool]:
    """Return the most that headers of a forwarded request give: scopes, whether it is a peer."""
    if caller.as_peer is None or caller.forwarding is None:
        return caller.here, False
    if CALLER_SITE in headers:
        return ({"replicate"}, True) if caller.as_peer else (set(), False)
    return caller.forwarding, caller.is_peer_here


def takes_site(service: Service, method: str, path: str) -> bool:
    operation = service.document["paths"].get(path, {}).get(method.lower(), {})
    names = [each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"]
    return service.kind == "agent" and "site" in names


class Attack:
    """Sends one caller's requests to one service, and counts them."""

    def __init__(self, service: Service, caller: Caller) -> None:
        self.service, self.caller = service, caller
        self.sent = 0
        self.wrong: list[str] = []

    async def run(self) -> None:
        transport = httpx.ASGITransport(self.service.app, raise_app_exceptions=False)
        auth = headers = None
        if isinstance(self.caller.auth, IdentityFile):
            auth = ServiceCredentials(self.service.url, self.caller.auth)
        else:
            headers = self.caller.auth
        async with httpx.AsyncClient(
            transport=transport, base_url=self.service.url, auth=auth, headers=headers
        ) as client:
            # The first request begins the session of the others.
            await _status(client, "GET", "/metrics", {})
            await asyncio.gather(*self._requests(client))

    def _requests(self, client: httpx.AsyncClient) -> Iterator[Awaitable[None]]:
        for (method, path), rule in self.service.routes.items():
            if path in OPEN_PATHS:
                continue
            assert rule is not None, f"{method} {path} declares no scope"
            yield self._try(client, method, path, rule, None)
            if takes_site(self.service, method, path):
                yield self._try(client, method, path, rule, ELSEWHERE)
            for headers in FORGED:
                yield self._try_forged(client, method, path, rule, headers)

    async def _try(
        self, client: httpx.AsyncClient, method: str, path: str, rule: AccessRule, site: str | None
    ) -> None:
        caller = self.caller
        scopes, is_peer = (
            (caller.here, caller.is_peer_here)
            if site is None
            else (caller.elsewhere, caller.is_peer_elsewhere)
        )
        status = await self._send(client, method, path, site, {})
        is_refused = status in (401, 403, None)
        if not may(rule, scopes, is_peer):
            good = is_refused
        elif rule.scope in scopes and "read" not in scopes and rule.scope == "replicate":
            good = not 200 <= (status or 0) < 300  # the route checks whose data it is
        elif rule.scope not in scopes:
            good = not 200 <= (status or 0) < 300
        else:
            good = not is_refused
        if not good:
            at = site or "here"
            self.wrong.append(f"{caller.name}: {method} {path} at {at} ({rule.scope}): {status}")

    async def _try_forged(
        self,
        client: httpx.AsyncClient,
        method: str,
        path: str,
        rule: AccessRule,
        headers: Mapping[str, str],
    ) -> None:
        """Send a request as if it were forwarded; it is refused unless the caller may forward."""
        scopes, is_peer = forged_rights(self.caller, headers)
        status = await self._send(client, method, path, None, headers)
        if may(rule, scopes, is_peer):
            good = rule.scope in scopes or not 200 <= (status or 0) < 300
        else:
            good = status in (401, 403, None)
        if not good:
            self.wrong.append(f"{self.caller.name}: {method} {path} with {headers}: {status}")

    async def _send(
        self,
        client: httpx.AsyncClient,
        method: str,
        path: str,
        site: str | None,
        headers: Mapping[str, str],
    ) -> int | None:
        params = parameters(self.service, method, path) | ({} if site is None else {"site": site})
        target = re.sub(r"\{[^}]*\}", "raw", path)
        self.sent += 1
        return await _status(client, method, target, params, headers)


async def _status(
    client: httpx.AsyncClient,
    method: str,
    target: str,
    params: dict[str, str],
    headers: Mapping[str, str] | None = None,
) -> int | None:
    """Return the status of the answer; None: the service did not prove its identity.

    A request that is admitted may wait for what these services lack, such as Ignite: it is 503.
    """
    try:
        async with asyncio.timeout(20.0):
            answer = await client.request(method, target, params=params, headers=headers)
    except TimeoutError:
        return 503
    except httpx.RequestError:
        return None
    return answer.status_code


async def test_each_caller_may_do_what_its_scopes_say(
    services: list[Service], callers: list[Caller]
) -> None:
    attacks = [Attack(service, caller) for service in services for caller in callers]
    # What is admitted would be tried again at services that are not there.
    stamina.set_active(False)
    try:
        await asyncio.gather(*(attack.run() for attack in attacks))
    finally:
        stamina.set_active(True)
    sent = sum(attack.sent for attack in attacks)
    wrong = [line for attack in attacks for line in attack.wrong]
    assert not wrong, "\n".join(wrong)
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
                # The running session goes on.
                assert (await client.get("/metrics")).status_code == 200
        assert served[0] != served[1]
        async with httpx.AsyncClient(
            transport=transport, base_url=service.url, auth=auth
        ) as client:
            fog.revoke(name)
            with pytest.raises(httpx.RequestError, match=f"agent {name} is revoked"):
                await client.get("/metrics")
