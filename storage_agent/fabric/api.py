"""The fabric over HTTP: who is there, greetings between agents, announcements of workers."""

from collections.abc import Callable

import msgspec
from fastapi import APIRouter, Request, Response

from mistbow.auth.rules import requires
from mistbow.fabric import Worker
from storage_agent.fabric.greeter import GREETING
from storage_agent.fabric.greeting import Greeting, check_greeting
from storage_agent.fabric.member import Member
from storage_agent.fabric.network import count
from storage_agent.fabric.workers import check_worker
from storage_agent.monitoring.api import takes
from storage_agent.monitoring.bodies import read_body

_WORKER = msgspec.json.Decoder(Worker)


def fabric_routes(member: Member, check_unused: Callable[[str], None]) -> APIRouter:
    """Return the routes of a member; ``check_unused`` raises if a site cannot be forgotten yet."""
    routes = APIRouter(tags=["fabric"])

    @routes.get("/fabric", summary="All sites, their workers, and the links")
    @requires("read")
    async def fabric() -> Response:
        """What cannot be reached now is told as it was last heard."""
        return _json(msgspec.json.encode(member.fabric()))

    @routes.post("/fabric/greet", summary="For other agents", openapi_extra=takes(Greeting))
    @requires("admin")
    async def greet(request: Request) -> Response:
        """Tell who is there, and be told."""
        body = await request.body()
        greeting = read_body(GREETING, body)
        check_greeting(greeting)
        said = msgspec.json.encode(member.greeted(greeting))
        if greeting.site != member.site:
            count(greeting.site, "received", "greeting", len(body))
            count(greeting.site, "sent", "greeting", len(said))
        return _json(said)

    @routes.delete("/fabric/sites/{name}", status_code=204, summary="Forget a site that is gone")
    @requires("admin")
    async def forget(name: str) -> None:
        """It is listed no more, here and at others, until it greets one of them again."""
        site = name.lower()
        member.check_gone(site)
        check_unused(site)
        await member.forget(site)

    @routes.put(
        "/workers/{name}",
        status_code=204,
        summary="A worker is alive",
        openapi_extra=takes(Worker),
    )
    @requires("admin")
    async def announce(name: str, request: Request) -> None:
        """To be repeated each second; a worker that is not heard for 3 s counts as dead."""
        worker = read_body(_WORKER, await request.body())
        check_worker(name, worker)
        member.hear(worker)

    @routes.delete("/workers/{name}", status_code=204, summary="A worker leaves")
    @requires("admin")
    async def leave(name: str) -> None:
        """Also answers 204 if it was not there."""
        member.leave(name)

    return routes


def _json(data: bytes) -> Response:
    return Response(data, media_type="application/json")
