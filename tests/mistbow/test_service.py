"""The common parts of all services."""

from collections.abc import Callable
from importlib import import_module

import httpx
import pytest
from fastapi import APIRouter

from mistbow.auth.rules import requires
from storage_agent.settings import AgentSettings
from tests.support.http_server import plain_service, served


def test_first_request_builds_no_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    router = APIRouter(prefix="/numbers")

    @router.get("/{number}")
    @requires("read")
    async def show(number: int) -> int:
        return number

    app = plain_service(AgentSettings())
    app.include_router(router)
    built = []
    routing = import_module("fastapi.routing")
    build: Callable[..., object] = routing.get_dependant

    def observe(**arguments: object) -> object:
        built.append(arguments["path"])
        return build(**arguments)

    monkeypatch.setattr(routing, "get_dependant", observe)
    with served(app) as url:
        assert "/numbers/{number}" in built
        built.clear()
        assert httpx.get(f"{url}/numbers/7").json() == 7
        assert built == []
