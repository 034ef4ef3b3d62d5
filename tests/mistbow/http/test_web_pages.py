"""The requests of browsers that a service without a token answers or refuses."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request

from analytics_enabler.settings import EnablerSettings
from analytics_worker.settings import WorkerSettings
from mistbow.auth.rules import requires
from mistbow.http.web_pages import RequestHead, read_head, refusal
from mistbow.settings import own_address
from monitoring_agent.settings import MonitorSettings
from storage_agent.settings import AgentSettings
from tests.support.http_server import plain_service, served
from tests.test_routes_are_guarded import SERVICES

OWN = frozenset({"fog.example", "node-7"})
FOREIGN = "http://evil.example"
FORM = "application/x-www-form-urlencoded"
TOKEN = "of-the-fog"  # noqa: S105


def error_of(method: str = "GET", path: str = "/list", **parts: Any) -> str | None:
    """Return the message for a request to 127.0.0.1:8300; None: the request is permitted."""
    parts.setdefault("hosts", ("127.0.0.1:8300",))
    found = refusal(RequestHead(method=method, path=path, **parts), OWN)
    return None if found is None else found.message


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1:8300", "127.0.0.1", "127.8.9.1:80", "[::1]:8300", "localhost", "LocalHost:1"),
        *("localhost.:8300", "app.localhost:8300", "fog.example", "Fog.Example:443", "node-7:8300"),
    ],
)
def test_request_to_loopback_or_own_name_is_permitted(host: str) -> None:
    assert error_of(hosts=(host,)) is None


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8300", "localhost.evil.example", "127.0.0.1.evil.example"),
        *(
            "fog.example.evil.example",
            "0.0.0.0:8300",
            "10.0.0.7",
            "[::]:8300",
            "[fe80::1]",
            "",
            "x",
        ),
        *(
            "127.0.0.1:8300@evil.example",
            "evil.example#127.0.0.1",
            "localhost:80:80",
            "[::1",
            "::1",
        ),
    ],
)
def test_request_to_other_name_is_refused_with_the_name(host: str) -> None:
    message = error_of(hosts=(host,))
    assert message is not None
    assert repr(host) in message


def test_request_with_own_and_other_name_is_refused() -> None:
    assert error_of(hosts=("127.0.0.1:8300", "evil.example")) is not None


def test_request_of_a_program_is_permitted_with_any_body() -> None:
    assert error_of(hosts=()) is None
    for kind in (None, FORM, "text/plain", "multipart/form-data", "application/json"):
        assert error_of("POST", "/put", content_type=kind, has_body=True) is None


@pytest.mark.parametrize(
    "origin",
    [
        *(
            FOREIGN,
            "null",
            "",
            "http://127.0.0.1",
            "http://127.0.0.1:3000",
            "http://localhost:8300",
        ),
        *("http://[::1]:8300", "chrome-extension://127.0.0.1:8300", "127.0.0.1:8300"),
    ],
)
def test_request_of_another_origin_is_refused(origin: str) -> None:
    for method in ("GET", "POST", "OPTIONS", "DELETE"):
        message = error_of(method, origin=origin)
        assert message is not None
        assert message.startswith(f"Origin: {origin}")


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1:8300", "http://127.0.0.1:8300"),
        ("localhost:8300", "https://LOCALHOST:8300"),
        ("fog.example", "https://fog.example"),
        ("fog.example", "http://fog.example:80"),
        ("fog.example:443", "https://fog.example"),
        ("[::1]:8300", "http://[::1]:8300"),
    ],
)
def test_request_of_the_own_origin_is_permitted(host: str, origin: str) -> None:
    for site in (None, "same-origin"):
        assert error_of(hosts=(host,), origin=origin, fetch_site=site) is None


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_request_without_origin_of_another_site_or_port_is_refused(site: str) -> None:
    message = error_of(fetch_site=site)
    assert message is not None
    assert message.startswith(f"Sec-Fetch-Site: {site}")
    own = "http://127.0.0.1:8300"
    assert (error_of(fetch_site=site, origin=own) is None) == (site == "same-site")


def test_address_that_a_user_enters_is_permitted() -> None:
    assert error_of(fetch_site="none") is None
    assert error_of(fetch_site="same-origin") is None


@pytest.mark.parametrize(
    "kind",
    [FORM, "text/plain", "Text/Plain; charset=utf-8", "multipart/form-data; boundary=x", None],
)
def test_body_of_a_form_from_a_browser_is_refused_where_it_changes_something(
    kind: str | None,
) -> None:
    own: list[dict[str, str]] = [{"origin": "http://127.0.0.1:8300"}, {"fetch_site": "same-origin"}]
    for sender in own:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            message = error_of(method, "/put", content_type=kind, has_body=True, **sender)
            assert message is not None
            assert message.startswith("Content-Type: ")
            assert f"{method} /put" in message
        assert error_of("POST", "/api/v1/query", content_type=kind, has_body=True, **sender) is None
        assert error_of("POST", "/put", content_type="application/json", has_body=True) is None
        assert error_of("DELETE", "/streams/x", **sender) is None


def service(**settings: Any) -> FastAPI:
    """Return an application with one route, which counts the bytes of bodies."""
    app = plain_service(AgentSettings(**settings))

    @app.post("/body")
    @requires("ingest")
    async def body(request: Request) -> int:
        return len(await request.body())

    return app


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(service(host_names="fog.example")) as url:
        yield url


def test_refusal_states_the_problem_and_the_remedy_and_has_no_cors_headers(url: str) -> None:
    answer = httpx.post(f"{url}/body", content=b"{}", headers={"Origin": FOREIGN})
    assert (answer.status_code, answer.headers["Connection"]) == (403, "close")
    assert not [name for name in answer.headers if name.startswith("access-control")]
    body = answer.json()
    assert (body["error"]["code"], body["result"]) == ("forbidden", "ERROR")
    assert body["error"]["message"].startswith(f"Origin: {FOREIGN}")
    assert "reverse proxy" in body["error"]["hint"]
    named = httpx.get(f"{url}/healthz", headers={"Host": "evil.example"})
    assert (named.status_code, "MISTBOW_HOST_NAMES" in named.text) == (403, True)


def test_preflight_of_a_foreign_page_is_refused(url: str) -> None:
    asked = {"Origin": FOREIGN, "Access-Control-Request-Method": "DELETE"}
    assert httpx.options(f"{url}/body", headers=asked).status_code == 403


def test_form_of_curl_is_accepted(url: str) -> None:
    for kind in (FORM, "text/plain"):
        answer = httpx.post(f"{url}/body", content=b"{}", headers={"Content-Type": kind})
        assert (answer.status_code, answer.json()) == (200, 2)


def test_configured_name_is_an_own_name(url: str) -> None:
    assert httpx.get(f"{url}/healthz", headers={"Host": "fog.example:1"}).is_success


def test_service_with_a_token_answers_to_every_name() -> None:
    bearer = {"Authorization": f"Bearer {TOKEN}", "Host": "other.example"}
    with served(service(token=TOKEN)) as url:
        assert httpx.post(f"{url}/body", content=b"{}", headers=bearer).json() == 2
        assert httpx.post(f"{url}/body", headers={"Origin": FOREIGN}).status_code == 401


@pytest.mark.parametrize("name", SERVICES)
async def test_every_service_refuses_other_names_and_foreign_pages(
    name: str, tmp_path: Path
) -> None:
    transport = httpx.ASGITransport(SERVICES[name](tmp_path))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        assert (await client.get("/healthz")).status_code == 200
        foreign: list[dict[str, str]] = [
            {"Host": "evil.example"},
            {"Origin": FOREIGN},
            {"Sec-Fetch-Site": "cross-site"},
        ]
        for headers in foreign:
            assert (await client.get("/healthz", headers=headers)).status_code == 403


def test_own_addresses_are_the_configured_ones() -> None:
    assert AgentSettings().own_addresses == WorkerSettings().own_addresses == []
    given = AgentSettings(agent_url="http://edge-7:8300", own_urls="https://fog.example/7")
    assert given.own_addresses == ["http://edge-7:8300", "https://fog.example/7"]
    worker = WorkerSettings(worker_url="http://w.example:8100")
    assert worker.own_addresses == ["http://w.example:8100"]


@pytest.mark.parametrize("origins", [(FOREIGN, "http://a"), ("http://a", FOREIGN)])
def test_one_of_several_origins_suffices_for_a_refusal(origins: tuple[str, ...]) -> None:
    headers = [(b"host", b"a"), *((b"origin", each.encode()) for each in origins)]
    head = read_head({"method": "POST", "path": "/put", "headers": headers})
    assert refusal(head, frozenset({"a"})) is not None
    headers = [(b"host", b"a"), (b"origin", b"http://a")]
    own = read_head({"method": "GET", "path": "/list", "headers": headers})
    assert refusal(own, frozenset({"a"})) is None


def test_default_address_has_the_own_port(monkeypatch: pytest.MonkeyPatch) -> None:
    assert AgentSettings().agent_url == AgentSettings(agent_port=0).agent_url
    assert AgentSettings().agent_url == "http://127.0.0.1:8300"
    monkeypatch.setenv("MISTBOW_AGENT_PORT", "18310")
    assert AgentSettings().agent_url == "http://127.0.0.1:18310"
    assert AgentSettings(agent_url="http://a:1").agent_url == "http://a:1"
    assert WorkerSettings(worker_port=18110).worker_url == "http://127.0.0.1:18110"
    assert EnablerSettings(enabler_port=18010).enabler_url == "http://127.0.0.1:18010"
    assert own_address("agent_port", 8300)({"tls_cert": "a.pem"}) == "https://127.0.0.1:8300"


def test_own_names_are_the_configured_ones_without_the_host_name_of_the_machine() -> None:
    assert AgentSettings().own_names == frozenset()
    given = AgentSettings(node="Edge-7", agent_url="http://Fog.example:8300", host_names="a, B:80")
    assert given.own_names == {"edge-7", "fog.example", "a", "b"}
    worker = WorkerSettings(worker_url="https://w.example", agent_url="http://agent.example")
    assert worker.own_names == {"w.example"}
    assert MonitorSettings(node="n1").own_names == {"n1"}


def test_setting_with_no_host_name_is_rejected() -> None:
    with pytest.raises(ValueError, match="'http://' is not a host name"):
        AgentSettings(host_names="fog.example,http://")
