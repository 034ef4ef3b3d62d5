"""Every error of every route of every service has one form, or the form of the route's protocol."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from analytics_enabler.main import create_app as enabler
from analytics_enabler.settings import EnablerSettings
from analytics_worker.main import create_app as worker
from analytics_worker.settings import WorkerSettings
from mistbow.auth.rules import requires
from mistbow.auth.token_file import new_token_file, write_token_file
from mistbow.errors import MistbowError
from mistbow.service import create_service
from monitoring_agent.main import create_app as monitor
from monitoring_agent.settings import MonitorSettings
from storage_agent.api.error_forms import ERROR_FORMS
from storage_agent.main import create_app as agent
from storage_agent.settings import AgentSettings
from tests.support.http_server import served
from tests.test_routes_are_guarded import DOCUMENTS

# The tests send hundreds of requests, and wait for seconds.
pytestmark = pytest.mark.integration

_SERVICES: dict[str, Callable[..., FastAPI]] = {
    "agent": lambda **settings: agent(AgentSettings(**settings)),
    "enabler": lambda **settings: enabler(EnablerSettings(**settings)),
    "worker": lambda **settings: worker(WorkerSettings(**settings)),
    "monitor": lambda **settings: monitor(MonitorSettings(**settings)),
}
_FOG = "the-token-of-the-fog"
_BAD = "?from=x&to=x&time=x&start=x&end=x&limit=x&max_rows=x&epoch=x&match=x&format=x&precision=x"


def check_form(answer: httpx.Response, path: str) -> None:
    """Fail unless the body of an error has the form that the clients of a path expect."""
    where = f"{answer.request.method} {path} {answer.status_code}: {answer.text[:200]}"
    kind = answer.headers["content-type"]
    if answer.request.method == "HEAD":
        return
    if path == "/api/v1/write":
        assert kind.startswith("text/plain"), where
        assert answer.text.strip(), where
        return
    assert kind == "application/json", where
    body = answer.json()
    if path.startswith("/api/v1/"):
        assert body.keys() == {"status", "errorType", "error"}, where
        assert body["status"] == "error", where
        assert isinstance(body["error"], str), where
    elif path in ("/write", "/ping") or path.startswith("/api/v2/"):
        assert body.keys() == {"code", "message", "error"}, where
        assert body["message"] == body["error"], where
    else:
        assert body["result"] == "ERROR", where
        assert body["message"] == body["error"]["message"], where
        assert body["message"], where
        assert body["error"]["code"] != "http", where
        assert body["error"].keys() <= {"code", "message", "hint", "details"}, where


def routes_of(app: FastAPI) -> Iterator[tuple[str, str]]:
    """Yield (method, path) of each route, with a name in place of each parameter."""
    for context in iter_route_contexts(app.routes):
        if context.path not in DOCUMENTS:
            parts = ("x" if "{" in part else part for part in context.path.split("/"))
            for method in sorted(context.methods or ()):
                yield method, "/".join(parts)


def requests_to(method: str, path: str, tokens: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield requests to a route that are invalid, each for another reason."""
    fog = {"Authorization": f"Bearer {_FOG}"}
    yield {"method": method, "url": path}
    for token in tokens.values():
        yield {"method": method, "url": path, "headers": {"Authorization": f"Bearer {token}"}}
    yield {"method": "TRACE", "url": path, "headers": fog}
    yield {"method": method, "url": f"{path}/no/such/route", "headers": fog}
    yield {"method": method, "url": path + _BAD, "headers": fog}
    if method not in ("GET", "HEAD"):
        for content in (b"x" * 4000, b"{", b"\xff", b"[]", b'{"no": "field"}'):
            yield {"method": method, "url": path, "headers": fog, "content": content}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", _SERVICES)
def test_errors_of_all_routes_have_the_form_of_their_protocol(name: str, tmp_path: Path) -> None:
    file, content, tokens = tmp_path / "tokens.json", new_token_file(), {}
    for scope in ("ingest", "read"):
        content, tokens[scope] = content.with_token(scope, frozenset({scope}), "e-", None)  # type: ignore[arg-type]
    write_token_file(file, content)
    app = _SERVICES[name](
        home=tmp_path, token=_FOG, tokens_file=file, max_body_bytes=2000, host="127.0.0.1"
    )
    seen: dict[int, int] = {}
    with served(app, lifespan="off") as url, httpx.Client(base_url=url, timeout=30) as client:
        for method, path in routes_of(app):
            for request in requests_to(method, path, tokens):
                # The body of a success is not read: a stream of events does not end.
                with client.stream(**request) as answer:
                    if answer.status_code >= 400:
                        answer.read()
                        seen[answer.status_code] = seen.get(answer.status_code, 0) + 1
                        check_form(answer, answer.request.url.path)
    assert {401, 403, 404, 405} <= seen.keys(), seen
    print(f"{name}: {sum(seen.values())} errors: {dict(sorted(seen.items()))}")


_PATHS = ("/own", "/api/v1/query", "/api/v1/write", "/write", "/api/v2/write", "/ping")


def failing_service(**settings: Any) -> tuple[FastAPI, asyncio.Event, asyncio.Event]:
    """Return a service whose routes fail, and two events of its slow route.

    The first event is set when the route has been called; the second lets the route answer.
    """

    async def ready() -> list[str]:
        return ["the moon"]

    app = create_service("t", AgentSettings(**settings), readiness=ready, error_forms=ERROR_FORMS)
    started, released = asyncio.Event(), asyncio.Event()

    @requires("read")
    async def fail() -> None:
        raise RuntimeError("a secret that must not be shown")

    @requires("read")
    async def wait() -> None:
        started.set()
        await released.wait()

    for path in _PATHS:
        app.add_api_route(path, fail, methods=["POST"])
    app.add_api_route("/slow", wait)
    return app, started, released


@pytest.mark.parametrize("path", _PATHS)
async def test_unexpected_error_has_the_form_of_its_path(path: str, tmp_path: Path) -> None:
    app, *_ = failing_service(home=tmp_path)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.post(path)
    assert answer.status_code == 500
    assert "secret" not in answer.text
    check_form(answer, path)


@pytest.mark.parametrize("path", _PATHS)
async def test_refusal_of_a_busy_service_has_the_form_of_its_path(
    path: str, tmp_path: Path
) -> None:
    app, started, released = failing_service(home=tmp_path, max_requests=1)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        slow = asyncio.ensure_future(client.get("/slow"))
        await started.wait()
        answer = await client.post(path)
        released.set()
        await slow
    assert answer.status_code in (429, 503)
    assert answer.headers["Retry-After"] == "1"
    check_form(answer, path)


async def test_service_that_is_not_ready_lists_the_reasons_beside_the_error(tmp_path: Path) -> None:
    app, *_ = failing_service(home=tmp_path)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get("/readyz")
    assert answer.status_code == 503
    check_form(answer, "/readyz")
    assert answer.json()["waiting_for"] == ["the moon"]


@pytest.mark.parametrize(("path", "shown"), [("/api/v1/write", b"a: b"), ("/own", b"\\u2014")])
def test_error_form_quotes_any_text(path: str, shown: bytes) -> None:
    error = MistbowError("the text \ud800 — a:\nb", details=[{"where": "1"}])
    form = ERROR_FORMS.find(path)
    content = json.dumps(error.body()).encode() if form is None else form(error, 400)[0]
    assert shown in content
