"""Web pages in a real browser read and change nothing at an agent, and its documentation works."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from fastapi import FastAPI
from fastapi.responses import HTMLResponse, RedirectResponse

from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from storage_agent.settings import AgentSettings
from tests.storage_agent.security.conftest import FOG, guarded, put
from tests.support.agents import running_agent
from tests.support.browser import Browser, Page, chromium
from tests.support.conditions import eventually
from tests.support.http_server import served

ATTACK = (Path(__file__).parent / "attack.js").read_text()
EVIL = "evil.example"
SECRET = "secret"  # noqa: S105 - an entity


@pytest.fixture(scope="module")
def browser(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("browser"), names={EVIL: "127.0.0.1"}) as browser:
        yield browser


@pytest.fixture(scope="module")
def page_port() -> Iterator[int]:
    """The port of a web server whose pages attack."""
    app = FastAPI()

    @app.get("/")
    async def page() -> HTMLResponse:
        return HTMLResponse("<!DOCTYPE html><title>page</title>")

    @app.get("/sandboxed")
    async def sandboxed() -> HTMLResponse:
        rule = {"Content-Security-Policy": "sandbox allow-scripts allow-forms"}
        return HTMLResponse("<!DOCTYPE html><title>page of the origin null</title>", headers=rule)

    @app.post("/redirect")
    async def redirect(to: str) -> RedirectResponse:
        return RedirectResponse(to)

    with served(app) as url:
        port = httpx.URL(url).port
        assert port is not None
        yield port


@pytest.fixture
def victim(browser: Browser, settings: AgentSettings) -> Iterator[str]:
    """The URL of an agent without a token, with a point and a stream."""
    with running_agent(settings) as url:
        httpx.post(f"{url}/put", json=put(SECRET)).raise_for_status()
        with closing(AgentClient(url)) as client:
            client.create_stream("victim", pa.schema([("n", pa.int64())]))
        yield url


def state_of(url: str) -> dict[str, Any]:
    """Return those data of the agent at a URL that no request from a web page may change."""
    with closing(AgentClient(url)) as client:
        streams = {each.name: (each.head, each.epoch) for each in client.streams()}
        return {
            "series": httpx.post(f"{url}/list", content=b"{}").json(),
            "points": httpx.post(f"{url}/get", content=b'{"from": 0}').json(),
            "streams": sorted(streams),
            "victim": streams["victim"],
            "config": httpx.get(f"{url}/config").json(),
        }


def attacked(page: Page, url: str, entity: str) -> list[tuple[str, int, str]]:
    """Attack the agent at ``url`` from a page; return the answers that the page could read."""
    found = page.run(f"({ATTACK})({json.dumps(url)}, {json.dumps(entity)})")
    asked = [each["request"]["url"] for each in page.events("Network.requestWillBeSent")]
    assert len([each for each in asked if each.startswith(f"{url}/")]) > 20, "the attack was sent"
    return [(what, status, text) for what, status, text in found]


@pytest.mark.parametrize(
    "origin",
    [
        "http://127.0.0.1:{}/",
        "http://localhost:{}/",
        f"http://{EVIL}:{{}}/",
        "http://127.0.0.1:{}/sandboxed",
    ],
)
def test_page_of_another_origin_reads_and_changes_nothing(
    browser: Browser, victim: str, page_port: int, origin: str
) -> None:
    before = state_of(victim)
    page = Page(browser)
    page.open(origin.format(page_port))
    assert attacked(page, victim, "evil") == []
    assert state_of(victim) == before


def test_page_reads_and_changes_nothing_after_dns_rebinding(browser: Browser, victim: str) -> None:
    before = state_of(victim)
    # The name of the page has the address of the agent now: both have the same origin.
    own = f"http://{EVIL}:{httpx.URL(victim).port}"
    page = Page(browser)
    page.open(f"{own}/healthz")
    assert page.run("location.origin") == own
    answers = attacked(page, own, "evil")
    assert len(answers) > 10
    for what, status, text in answers:
        assert status in (403, 0), (what, text)
        assert f"Host: '{EVIL}:" in text, what
    assert state_of(victim) == before


def wait_for(page: Page, condition: str) -> None:
    """Wait until an expression is true in a page."""
    eventually(lambda: page.run(condition), what=condition)


OPERATIONS_ARE_SHOWN = "document.querySelectorAll('.opblock').length > 40"


def is_quiet(page: Page) -> bool:
    """Return whether a page has nothing to draw, and no request without an answer."""
    page.run("new Promise((done) => requestIdleCallback(done, {timeout: 1000}))")
    sent = {each["requestId"] for each in page.events("Network.requestWillBeSent")}
    ends = ("Network.loadingFinished", "Network.loadingFailed")
    return sent <= {each["requestId"] for end in ends for each in page.events(end)}


def check_offline(page: Page, url: str) -> None:
    """Check that a page has loaded files of its own service only, and that no rule blocked it."""
    eventually(lambda: is_quiet(page), what="all files are loaded")
    asked = [each["request"]["url"] for each in page.events("Network.requestWillBeSent")]
    assert len([each for each in asked if each.startswith(f"{url}/")]) >= 5
    assert all(each.startswith((f"{url}/", "data:", "about:")) for each in asked)
    assert page.events("Log.entryAdded") == []


def test_documentation_is_shown_without_a_network(browser: Browser, victim: str) -> None:
    page = Page(browser)
    page.open(f"{victim}/docs")
    wait_for(page, OPERATIONS_ARE_SHOWN)
    check_offline(page, victim)


CLICK = """
(selector, text) => {
  const found = [...document.querySelectorAll(selector)].find(
    (each) => !text || each.textContent.trim().startsWith(text));
  if (found) found.click();
  return Boolean(found);
}
"""


def click(page: Page, selector: str, text: str = "") -> None:
    """Wait for an element whose text begins with ``text``, and click on it."""
    script = f"({CLICK})({json.dumps(selector)}, {json.dumps(text)})"
    eventually(lambda: page.run(script), what=f"{selector} {text} is shown")


def test_documentation_with_a_token_takes_a_login_and_sends_requests(
    browser: Browser, ignite: IgniteServer, tmp_path: Path
) -> None:
    page = Page(browser)
    with guarded(tmp_path, ignite.port) as agent:
        page.log_in_with(FOG)
        page.open(f"{agent.url}/docs")
        wait_for(page, OPERATIONS_ARE_SHOWN)
        # The browser repeats this login on its own, so it permits nothing else.
        statuses = "Promise.all(['readyz', 'docs'].map(async (p) => (await fetch(p)).status))"
        assert page.run(statuses) == [401, 200]
        # The button "Authorize" adds the token to the requests that the page sends for its user.
        click(page, ".btn.authorize")
        field = "document.querySelector('.auth-container input')"
        wait_for(page, f"{field} !== null")
        page.run(f"{field}.focus()")
        page.call("Input.insertText", text=FOG)
        wait_for(page, f"{field}.value === {json.dumps(FOG)}")
        click(page, ".auth-btn-wrapper .authorize")
        wait_for(page, f"{field} === null")
        click(page, ".btn-done")
        click(page, ".opblock-summary-path", "/readyz")
        click(page, ".try-out__btn")
        click(page, ".execute")
        status = ".live-responses-table .response .response-col_status"
        shown = f"document.querySelector('{status}')?.textContent"
        assert eventually(lambda: page.run(shown), what="an answer is shown").startswith("200")
