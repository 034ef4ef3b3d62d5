"""Requests of a caller to every route of a service, and what its scopes permit.

The routes, their scopes, and the parameters of requests are read from the service. Each request is
also sent with the headers of forwarded requests.
"""

import asyncio
import re
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import stamina
from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts

from mistbow.auth.authentication import CALLER, CALLER_SITE, OPEN_PATHS, SIGNATURES
from mistbow.auth.identity import IdentityFile
from mistbow.auth.rules import AccessRule, rule_of
from mistbow.client.credentials import ServiceCredentials
from mistbow.http.documentation import DOCUMENTATION_PATHS
from storage_agent.membership.network import VIA

OWN = {
    "agent": {"join", "replicate", "ingest", "read", "append"},
    "worker": {"announce", "read", "append"},
    "enabler": {"announce", "adopt", "order", "read", "append"},
    "monitor": {"ingest", "read"},
}
"""The scopes of a service at its own site, by kind."""

PEER = {"agent": {"join", "replicate"}, "worker": set(), "enabler": set(), "monitor": set()}
"""The scopes of a service at sites that it does not reach, by kind."""

PERSON = {"ingest", "read", "append", "replicate", "order", "admin"}
"""The scopes of a token with the scope admin."""

_NAME = "{name:path}"
STATE = "deployments"
"""The name of a stream that only enablers and people write, and nobody deletes with a token."""

FOREIGN_REPLICA = "replicas/edge-west/raw"
"""The name of a stream that no agent of another site may read, except those of edge-west."""

_STATE_WRITES = {
    ("PUT", "/streams/{name:path}"),
    ("POST", "/streams/{name:path}"),
    ("PATCH", "/streams/{name:path}"),
    ("POST", "/streams/{name:path}/claim"),
}
_STATE_DELETION = ("DELETE", "/streams/{name:path}")

_ADMITTED_S, _REFUSED_S = 20.0, 200.0
"""How long the answer of an admitted request may take, which may wait, and that of a refused one,
which waits only for the other requests.
"""

_OF_A_PERSON = {CALLER: "person", SIGNATURES: "board", VIA: "core"}


@dataclass(frozen=True)
class Service:
    """A service at a site, with its rules: (method, path) -> rule."""

    kind: str
    site: str
    app: FastAPI
    url: str
    routes: dict[tuple[str, str], AccessRule | None]
    document: dict[str, Any]


@dataclass(frozen=True)
class Caller:
    """A caller, and its scopes here and at another site.

    ``forwarding``: its scopes for requests that it forwards; None: the same. ``as_peer``: whether
    it may forward requests of agents of this site; None: it is no service. ``is_enabler``: whether
    it writes the state of enablers with its own scopes.
    """

    name: str
    auth: Any
    here: set[str] = field(default_factory=set)
    elsewhere: set[str] = field(default_factory=set)
    is_peer_here: bool = False
    is_peer_elsewhere: bool = False
    forwarding: set[str] | None = None
    as_peer: bool | None = None
    is_enabler: bool = False


@dataclass(frozen=True)
class Target:
    """A route with its rule, and the value of the parameter ``name`` in its path."""

    method: str
    path: str
    rule: AccessRule
    name: str

    @property
    def url(self) -> str:
        return re.sub(r"\{[^}]*\}", "raw", self.path.replace(_NAME, self.name))

    @property
    def is_for_no_peer(self) -> bool:
        """Whether the service refuses all peers: it copies none of the named streams."""
        return self.path.startswith(f"/streams/{_NAME}")

    def permits(self, scopes: set[str], *, is_enabler: bool) -> bool:
        """Return whether the name permits a request of a caller with the scope of the route."""
        route = (self.method, self.path)
        if self.name != STATE or route not in {*_STATE_WRITES, _STATE_DELETION}:
            return True
        return route in _STATE_WRITES and (is_enabler or "admin" in scopes)


def rules(app: FastAPI) -> dict[tuple[str, str], AccessRule | None]:
    found = {}
    for context in iter_route_contexts(app.routes):
        if context.path not in DOCUMENTATION_PATHS:
            assert isinstance(context.original_route, APIRoute)
            for method in context.methods or ():
                found[method, context.path] = rule_of(context.original_route)
    return found


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def may(target: Target, scopes: set[str], is_peer: bool, *, is_enabler: bool) -> bool:
    """Return whether a caller is admitted; peers are admitted, and checked by the route."""
    if target.rule.scope in scopes:
        return target.permits(scopes, is_enabler=is_enabler)
    return target.rule.for_peers and is_peer


def parameters(service: Service, method: str, path: str) -> dict[str, str]:
    """Return values for the required parameters of the query."""
    required = (each for each in _query(service, method, path) if each.get("required"))
    return {each["name"]: "1" for each in required}


def forged_rights(caller: Caller, headers: Mapping[str, str]) -> tuple[set[str], bool]:
    """Return the most that headers of a forwarded request give: scopes, whether it is a peer."""
    if caller.as_peer is None or caller.forwarding is None:
        return caller.here, False
    if CALLER_SITE in headers:
        return ({"replicate"}, True) if caller.as_peer else (set(), False)
    return caller.forwarding, caller.is_peer_here


def takes_site(service: Service, method: str, path: str) -> bool:
    names = [each["name"] for each in _query(service, method, path)]
    return service.kind == "agent" and "site" in names


def _query(service: Service, method: str, path: str) -> list[dict[str, Any]]:
    """Return the parameters of the query, from the description of the service."""
    operations = service.document["paths"].get(path.replace(":path}", "}"), {})
    parameters = operations.get(method.lower(), {}).get("parameters", ())
    return [each for each in parameters if each["in"] == "query"]


class Attack:
    """Sends one caller's requests to one service, and counts them.

    ``elsewhere``: the other site of forwarded requests. ``as_peer``: whether it also claims to
    forward requests of an agent of the service's site.
    """

    def __init__(
        self, service: Service, caller: Caller, elsewhere: str, *, as_peer: bool = True
    ) -> None:
        self.service, self.caller, self.elsewhere = service, caller, elsewhere
        self._forged = [_OF_A_PERSON]
        if as_peer:
            self._forged.append({**_OF_A_PERSON, CALLER_SITE: service.site})
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
            await _status(client, "GET", "/metrics", {}, {}, _REFUSED_S)
            await asyncio.gather(*self._requests(client))

    def _requests(self, client: httpx.AsyncClient) -> Iterator[Awaitable[None]]:
        for (method, path), rule in self.service.routes.items():
            if path in OPEN_PATHS:
                continue
            assert rule is not None, f"{method} {path} declares no scope"
            for name in ("raw", STATE, FOREIGN_REPLICA) if _NAME in path else ("raw",):
                yield from self._requests_of(client, Target(method, path, rule, name))

    def _requests_of(self, client: httpx.AsyncClient, target: Target) -> Iterator[Awaitable[None]]:
        yield self._try(client, target, None)
        if takes_site(self.service, target.method, target.path):
            yield self._try(client, target, self.elsewhere)
        # As an attacker adds them: of a person, of an agent here.
        for headers in self._forged:
            yield self._try_forged(client, target, headers)

    async def _try(self, client: httpx.AsyncClient, target: Target, site: str | None) -> None:
        caller, rule = self.caller, target.rule
        scopes, is_peer = (
            (caller.here, caller.is_peer_here and not target.is_for_no_peer)
            if site is None
            else (caller.elsewhere, caller.is_peer_elsewhere)
        )
        is_admitted = may(target, scopes, is_peer, is_enabler=caller.is_enabler)
        status = await self._send(client, target, site, {}, is_admitted=is_admitted)
        is_refused = status in (401, 403, None)
        if not is_admitted:
            good = is_refused
        elif rule.scope in scopes and "read" not in scopes and rule.scope == "replicate":
            good = not 200 <= (status or 0) < 300  # the route checks whose data it is
        elif rule.scope not in scopes:
            good = not 200 <= (status or 0) < 300
        else:
            good = not is_refused
        if not good:
            at = site or "here"
            self.wrong.append(
                f"{caller.name}: {target.method} {target.url} at {at} ({rule.scope}): {status}"
            )

    async def _try_forged(
        self, client: httpx.AsyncClient, target: Target, headers: Mapping[str, str]
    ) -> None:
        """Send a request as if it were forwarded; it is refused unless the caller may forward."""
        scopes, is_peer = forged_rights(self.caller, headers)
        is_peer = is_peer and not target.is_for_no_peer
        # A forwarded caller is no service.
        is_admitted = may(target, scopes, is_peer, is_enabler=False)
        status = await self._send(client, target, None, headers, is_admitted=is_admitted)
        if is_admitted:
            good = target.rule.scope in scopes or not 200 <= (status or 0) < 300
        else:
            good = status in (401, 403, None)
        if not good:
            self.wrong.append(
                f"{self.caller.name}: {target.method} {target.url} with {headers}: {status}"
            )

    async def _send(
        self,
        client: httpx.AsyncClient,
        target: Target,
        site: str | None,
        headers: Mapping[str, str],
        *,
        is_admitted: bool,
    ) -> int | None:
        params = parameters(self.service, target.method, target.path)
        if site is not None:
            params["site"] = site
        self.sent += 1
        seconds = _ADMITTED_S if is_admitted else _REFUSED_S
        return await _status(client, target.method, target.url, params, headers, seconds)


async def _status(
    client: httpx.AsyncClient,
    method: str,
    target: str,
    params: dict[str, str],
    headers: Mapping[str, str],
    seconds: float,
) -> int | None:
    """Return the status of the answer; None: the service did not prove its identity.

    A request that is admitted may wait for what these services lack, such as Ignite: it is 503.
    """
    try:
        async with asyncio.timeout(seconds):
            answer = await client.request(method, target, params=params, headers=headers)
    except TimeoutError:
        return 503
    except httpx.RequestError:
        return None
    return answer.status_code


async def run(attacks: Iterable[Attack]) -> None:
    """Run attacks; raise ``AssertionError`` with the wrong answers."""
    attacks = list(attacks)
    # What is admitted would be tried again at services that are not there.
    stamina.set_active(False)
    try:
        await asyncio.gather(*(attack.run() for attack in attacks))
    finally:
        stamina.set_active(True)
    wrong = [line for attack in attacks for line in attack.wrong]
    assert not wrong, "\n".join(wrong)
