"""HTTP routes of the fabric: sites, links, heartbeats, and announcements of services."""

from collections.abc import Callable

import msgspec
from fastapi import APIRouter, Depends, Request, Response

from mistbow.auth.answer_key import answer_headers
from mistbow.auth.callers import current_caller
from mistbow.auth.rules import requires
from mistbow.errors import ConflictError, ForbiddenError, NotFoundError
from mistbow.fabric import Enabler, Worker
from mistbow.http.parameters import only_parameters
from mistbow.openapi import raises
from storage_agent.http.decode import decode_body
from storage_agent.http.openapi import json_body
from storage_agent.http.responses import json_response
from storage_agent.membership.enablers import check_enabler
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.heartbeat import HEARTBEAT, Heartbeat, check_heartbeat
from storage_agent.membership.network import count_bytes
from storage_agent.membership.workers import check_worker

_WORKER = msgspec.json.Decoder(Worker)
_ENABLER = msgspec.json.Decoder(Enabler)
_EXAMPLE_ENABLER = {
    "domain": "north",
    "url": "http://edge-1:8000",
    "sites": {"sites": ["edge-1", "edge-2"]},
    "generation": 1795262400,
    "epoch": 3,
}
_EXAMPLE_HEARTBEAT = {
    "site": "a",
    "node": "edge-1",
    "url": "http://edge-1:8300",
    "instance": "1f",
    "knows": [],
}
_EXAMPLE_WORKER = {
    "name": "worker-1",
    "url": "http://edge-1:8100",
    "cores": 4,
    "memory_mb": 8000,
    "cores_free": 3,
    "memory_free_mb": 6000,
}
_PROBE_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


def fabric_routes(membership: FabricMembership, check_unused: Callable[[str], None]) -> APIRouter:
    """Return the routes for the fabric's sites, for heartbeats, and for workers' announcements.

    ``check_unused``: a function that raises ``ConflictError`` if copies or replicas still use a
    site.
    """
    routes = APIRouter(tags=["fabric"])

    @routes.get("/fabric", summary="All sites, their workers, and the links")
    @requires("read")
    async def fabric() -> Response:
        """Return all sites with their workers, and the links.

        The data of an unreachable site dates from the last contact with this site.
        """
        return json_response(msgspec.json.encode(membership.fabric()))

    @routes.post(
        "/fabric/greet",
        summary="For other agents",
        openapi_extra=json_body(Heartbeat, _EXAMPLE_HEARTBEAT),
    )
    @requires("join")
    @raises(ConflictError)
    async def receive_heartbeat(request: Request) -> Response:
        """Record another agent's heartbeat, and return this agent's heartbeat.

        Only services of the fog send heartbeats, because this agent contacts the addresses in them.
        """
        body = await request.body()
        heartbeat = decode_body(HEARTBEAT, body)
        check_heartbeat(heartbeat)
        _check_sender(heartbeat.site)
        answer = msgspec.json.encode(membership.receive_heartbeat(heartbeat))
        if membership.peers.get(heartbeat.site) is not None:
            # The metrics of strangers would grow without bound.
            count_bytes(heartbeat.site, "received", "heartbeat", len(body))
            count_bytes(heartbeat.site, "sent", "heartbeat", len(answer))
        return json_response(answer, headers=answer_headers(answer))

    @routes.post(
        "/fabric/probe",
        status_code=204,
        summary="For other agents",
        openapi_extra=_PROBE_BODY,
    )
    @requires("join")
    async def receive_probe(request: Request) -> None:
        """Receive bytes and drop them: the sender measures the bandwidth of the link."""
        await request.body()

    @routes.delete(
        "/fabric/sites/{name}",
        status_code=204,
        summary="Remove an unreachable site",
        dependencies=[Depends(only_parameters())],
    )
    @requires("admin")
    @raises(ConflictError, NotFoundError)
    async def forget(name: str) -> None:
        """Remove an unreachable site, until the site sends a heartbeat again.

        With identities, only an agent that reaches all sites (`*`) removes it from the whole
        fabric; another agent removes it only from its own view.
        """
        site = name.lower()
        membership.check_unreachable(site)
        check_unused(site)
        await membership.forget_site(site)

    @routes.put(
        "/workers/{name}",
        status_code=204,
        summary="Announce a worker",
        openapi_extra=json_body(Worker, _EXAMPLE_WORKER),
    )
    @requires("announce")
    @raises(ConflictError)
    async def announce(name: str, request: Request) -> None:
        """Record that a worker is alive; each worker sends this announcement every second.

        A worker is suspected, and later lost, if its announcements stop. While a worker is alive,
        another worker of the same name is refused with 409, unless it has the same address: then
        the worker was restarted. Only services of the fog announce workers, because the enabler
        contacts their addresses.
        """
        worker = decode_body(_WORKER, await request.body())
        check_worker(name, worker, on_loopback=not membership.has_token)
        membership.announce_worker(worker)

    @routes.delete(
        "/workers/{name}",
        status_code=204,
        summary="Remove a worker that leaves",
        dependencies=[Depends(only_parameters("instance"))],
    )
    @requires("append")
    async def leave(name: str, instance: str = "") -> None:
        """Remove a worker; the status is 204 even if the worker does not exist.

        With `instance`, a worker whose process has another id is not removed.
        """
        membership.remove_worker(name, instance)

    @routes.put(
        "/enablers/{domain}",
        status_code=204,
        summary="Announce an enabler",
        openapi_extra=json_body(Enabler, _EXAMPLE_ENABLER),
    )
    @requires("announce")
    async def announce_enabler(domain: str, request: Request) -> None:
        """Record that the enabler of a domain is alive; it sends this announcement every second.

        An enabler is lost after 3 s without an announcement. Only services of the fog announce
        enablers, because other enablers contact their addresses.
        """
        enabler = decode_body(_ENABLER, await request.body())
        check_enabler(domain, enabler, on_loopback=not membership.has_token)
        membership.announce_enabler(enabler)

    @routes.delete(
        "/enablers/{domain}",
        status_code=204,
        summary="Remove an enabler that leaves",
        dependencies=[Depends(only_parameters())],
    )
    @requires("announce")
    async def remove_enabler(domain: str) -> None:
        """Remove the enabler of a domain; the status is 204 also for an unknown enabler."""
        membership.remove_enabler(domain)

    return routes


def _check_sender(site: str) -> None:
    """Raise ``ForbiddenError`` if an agent with an identity claims another site than its own."""
    home = current_caller().home
    if home is not None and home != site:
        raise ForbiddenError(
            f"the {current_caller().name} is of the site {home}, but claims to be {site}",
            hint="MISTBOW_SITE must be the site of the agent's identity.",
        )
