"""Sessions of browsers, which exchange a token for a cookie, and public pages."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import httpx
import pytest

from analytics_enabler.api import events as events_module
from analytics_enabler.main import create_app
from analytics_enabler.settings import EnablerSettings
from analytics_enabler.web.sessions import SESSION_S
from mistbow.auth.callers import Scope
from mistbow.auth.token_file import new_token_file, read_token_file, write_token_file
from mistbow.clock import system_clock
from tests.support.http_server import served
from tests.support.packages import declare, make_importable

FOG = "t0ken-of-the-whole-fog"
PAGE = """
from starlette.responses import PlainTextResponse

def pages():
    async def files(scope, receive, send):
        path = scope["path"].removeprefix(scope["root_path"])
        await PlainTextResponse(f"file {path}")(scope, receive, send)
    return {"/console/of-a-test": files}
"""


class Clock:
    """A clock that a test moves; it begins at the present."""

    def __init__(self) -> None:
        self.now = system_clock()

    def __call__(self) -> int:
        return self.now


@dataclass
class Service:
    """An enabler with tokens; ``viewer`` has the scope read, ``sensor`` has an entity prefix."""

    url: str
    clock: Clock
    file: Path
    viewer: str
    sensor: str

    def browser(self, token: str | None = None) -> httpx.Client:
        """Return a client with cookies, after a login with a token."""
        client = httpx.Client(base_url=self.url, headers={"Origin": self.url})
        if token is not None:
            headers = {"Authorization": f"Bearer {token}"}
            assert client.post("/api/session", headers=headers).is_success
        return client


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "some_console.py").write_text(PAGE)
    declare(packages, "mistbow.pages", {"of-a-test": "some_console:pages"})
    make_importable(packages, monkeypatch)
    read: frozenset[Scope] = frozenset({"read"})
    content, viewer = new_token_file().with_token("viewer", read, "", None)
    content, sensor = content.with_token("sensor", read, "bus-", None)
    file = tmp_path / "tokens.json"
    write_token_file(file, content)
    clock = Clock()
    agent = "http://127.0.0.1:9"
    settings = EnablerSettings(home=tmp_path, agent_url=agent, token=FOG, tokens_file=file)
    with served(create_app(settings, clock)) as url:
        yield Service(url, clock, file, viewer, sensor)


def test_login_sets_cookie_that_pages_cannot_read(service: Service) -> None:
    headers = {"Authorization": f"Bearer {service.viewer}"}
    answer = httpx.post(f"{service.url}/api/session", headers=headers)
    cookie = answer.headers["set-cookie"]
    assert {"httponly", "samesite=strict", "path=/"} <= {
        part.strip().lower() for part in cookie.split(";")
    }
    assert service.viewer not in cookie
    assert (answer.json()["name"], answer.json()["scopes"]) == ("viewer", ["read"])
    assert answer.json()["token_required"] is True


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_cookie_is_secure_if_the_page_has_tls(service: Service, scheme: str) -> None:
    """The enabler itself has no TLS; a proxy in front of it may have TLS."""
    headers = {"Origin": service.url.replace("http", scheme)}
    login = headers | {"Authorization": f"Bearer {service.viewer}"}
    begun = httpx.post(f"{service.url}/api/session", headers=login)
    cookie = begun.headers["set-cookie"]
    ended = httpx.delete(
        f"{service.url}/api/session", headers=headers | {"Cookie": cookie.partition(";")[0]}
    )
    for each in (cookie, ended.headers["set-cookie"]):
        assert ("secure" in each.lower()) == (scheme == "https")


def test_login_with_unknown_token_is_refused(service: Service) -> None:
    answer = httpx.post(f"{service.url}/api/session", headers={"Authorization": "Bearer wrong"})
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert httpx.get(f"{service.url}/api/session").status_code == 401


def test_cookie_has_rights_of_its_token(service: Service) -> None:
    browser = service.browser(service.viewer)
    assert browser.get("/api/session").json()["name"] == "viewer"
    assert browser.post("/api/insights/format", json={"queries": "x"}).is_success
    refused = browser.post("/api/insights", json={"queries": "a = COMPUTE AVG(x) EVERY 1 s"})
    assert refused.status_code == 403
    assert "scope admin" in refused.json()["error"]["message"]
    limited = service.browser(service.sensor)
    assert limited.get("/api/session").json()["entity_prefix"] == "bus-"
    for path in ("/api/fog", "/api/attributes", "/api/promql/labels"):
        assert limited.get(path).status_code == 403, path


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {},
    ],
)
def test_request_of_foreign_page_with_cookie_is_refused(
    service: Service, headers: dict[str, str]
) -> None:
    browser = service.browser(service.viewer)
    del browser.headers["Origin"]
    assert browser.post("/api/insights/format", json={"queries": "x"}, headers=headers).status_code
    answer = browser.delete("/api/session", headers=headers)
    assert answer.status_code == 403, answer.text
    assert browser.get("/api/session").is_success


def test_form_of_foreign_page_with_cookie_is_refused(service: Service) -> None:
    browser = service.browser(service.viewer)
    kind = {"Content-Type": "text/plain"}
    answer = browser.post("/api/insights/check", content="a = COMPUTE x", headers=kind)
    assert answer.status_code == 403
    own = {"Authorization": f"Bearer {service.viewer}", "Cookie": "", **kind}
    assert httpx.post(f"{service.url}/api/insights/check", content="a", headers=own).is_success


def test_session_ends_at_logout(service: Service) -> None:
    browser = service.browser(service.viewer)
    cookies = dict(browser.cookies)
    assert browser.delete("/api/session").status_code == 204
    assert not browser.cookies
    assert httpx.get(f"{service.url}/api/session", cookies=cookies).status_code == 401


def test_session_ends_after_its_duration_and_is_not_extended(service: Service) -> None:
    browser = service.browser(service.viewer)
    service.clock.now += (SESSION_S - 1) * 1000
    again = browser.post("/api/session")
    assert again.is_success
    assert "set-cookie" not in again.headers
    service.clock.now += 1000
    assert browser.get("/api/session").status_code == 401


def test_stream_ends_with_its_session(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "PING_S", 0.1)
    browser, other = service.browser(service.viewer), service.browser(service.viewer)
    with (
        browser.stream("GET", "/api/events?topics=decisions") as ended,
        other.stream("GET", "/api/events?topics=decisions") as continued,
    ):
        parts, others = ended.iter_raw(), continued.iter_raw()
        assert b"hello" in next(parts) + next(others)
        assert browser.delete("/api/session").is_success
        assert sum(1 for _ in islice(parts, 100)) < 50
        assert sum(1 for _ in islice(others, 20)) == 20


def test_revoked_token_ends_its_session(service: Service) -> None:
    browser = service.browser(service.viewer)
    write_token_file(service.file, read_token_file(service.file).without_token("viewer"))
    assert browser.get("/api/session").status_code == 401


def test_pages_need_no_token_and_grant_no_rights(service: Service) -> None:
    browser = service.browser()
    # Below the path of the console, which may be installed too.
    assert browser.get("/console/of-a-test/main.js").text == "file /main.js"
    assert browser.get("/").status_code in (200, 404)
    assert browser.get("/consoles").status_code == 401
    assert browser.post("/console/of-a-test/main.js").status_code == 401
    for path in ("/api/fog", "/openapi.json", "/console/../api/fog"):
        assert browser.get(path).status_code == 401, path


def test_enabler_without_pages_serves_none(tmp_path: Path) -> None:
    settings = EnablerSettings(home=tmp_path, agent_url="http://127.0.0.1:9", pages=False)
    with served(create_app(settings)) as url:
        answers = [httpx.get(f"{url}{path}") for path in ("/", "/console/app/main.js")]
    assert [each.status_code for each in answers] == [404, 404]


def test_enabler_without_token_describes_session_without_cookie(tmp_path: Path) -> None:
    settings = EnablerSettings(home=tmp_path, agent_url="http://127.0.0.1:9")
    with served(create_app(settings)) as url:
        answer = httpx.post(f"{url}/api/session")
        assert answer.json()["token_required"] is False
        assert answer.json()["scopes"] == ["admin"]
        assert "set-cookie" not in answer.headers
        assert httpx.get(f"{url}/console/x").status_code == 404
