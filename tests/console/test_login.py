"""The console at a real enabler: login, the rights of a session, log-out, and no complaints.

The storage agent does not answer, so the pages also show how they do without data.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from analytics_enabler.main import create_app
from analytics_enabler.settings import EnablerSettings
from ignite_server.ports import free_ports
from mistbow.auth.callers import Scope
from mistbow.auth.token_file import new_token_file, write_token_file
from tests.support.chromium import playwright_chromium
from tests.support.http_server import served

WAIT_MS = 60_000.0
PAGES = ("start", "insights", "write", "fog", "explore", "explore?view=sql", "explore?view=promql")


@dataclass(frozen=True)
class Enabler:
    """The address of an enabler, and a token for reading and one for changing."""

    url: str
    viewer: str
    operator: str


@pytest.fixture(scope="module")
def browser(processes: None) -> Iterator[Browser]:
    with playwright_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def enabler(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Enabler]:
    home = tmp_path_factory.mktemp("enabler")
    read, change = frozenset[Scope]({"read"}), frozenset[Scope]({"admin"})
    content, viewer = new_token_file().with_token("viewer", read, "", None)
    content, operator = content.with_token("operator", change, "", None)
    write_token_file(home / "tokens.json", content)
    agent = f"http://127.0.0.1:{free_ports(1)[0]}"
    settings = EnablerSettings(
        home=home, agent_url=agent, token="f" * 40, tokens_file=home / "tokens.json"
    )
    with served(create_app(settings)) as url:
        yield Enabler(url, viewer, operator)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    context.set_default_timeout(WAIT_MS)
    expect.set_options(timeout=WAIT_MS)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda message: (
            complaints.append(message.text) if "Content Security Policy" in message.text else None
        ),
    )
    yield page
    context.close()
    assert complaints == []


def log_in(page: Page, enabler: Enabler, token: str) -> None:
    page.goto(enabler.url)
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()


def test_wrong_token_is_refused(page: Page, enabler: Enabler) -> None:
    log_in(page, enabler, "mistbow_wrong")
    expect(page.get_by_role("alert")).to_contain_text("not valid")
    expect(page.get_by_role("navigation")).to_have_count(0)


def test_reader_sees_pages_and_cannot_deploy(page: Page, enabler: Enabler) -> None:
    log_in(page, enabler, enabler.viewer)
    expect(page.get_by_text("(read only)")).to_be_visible()
    page.get_by_role("link", name="Write", exact=True).click()
    expect(page.get_by_role("textbox", name="Text of the insights")).to_be_visible()
    expect(page.get_by_text("Your token may read only")).to_be_visible()
    expect(page.get_by_role("button", name="Deploy", exact=True)).to_have_count(0)


def test_session_is_out_of_reach_of_scripts_and_ends_by_log_out(
    page: Page, enabler: Enabler
) -> None:
    log_in(page, enabler, enabler.operator)
    page.get_by_role("link", name="Write", exact=True).click()
    expect(page.get_by_role("button", name="Deploy", exact=True)).to_be_visible()
    assert page.evaluate("document.cookie") == ""
    assert enabler.operator not in page.evaluate("JSON.stringify(localStorage)")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("button", name="Log in")).to_be_visible()
    page.reload()
    expect(page.get_by_role("button", name="Log in")).to_be_visible()


def test_pages_are_shown_while_the_agent_does_not_answer(page: Page, enabler: Enabler) -> None:
    log_in(page, enabler, enabler.viewer)
    expect(page.get_by_role("navigation")).to_be_visible()
    for name in PAGES:
        page.goto(f"{enabler.url}/#/{name}")
        expect(page.locator(".page, .starting")).to_be_visible()


def test_fast_typing_arrives_whole_and_in_order(page: Page, enabler: Enabler) -> None:
    text = "worst = COMPUTE MAX(delay, 30 SECONDS) EVERY 1 SECOND -- typed faster than drawn"
    log_in(page, enabler, enabler.operator)
    page.get_by_role("link", name="Write", exact=True).click()
    editor = page.get_by_role("textbox", name="Text of the insights")
    editor.click()
    for _ in range(3):
        # One by one, as from a keyboard; the closing parenthesis is typed over the inserted one.
        page.keyboard.type(text)
        expect(editor).to_have_text(text)
        page.keyboard.press("Control+A")
        page.keyboard.press("Delete")


AXE = (Path(__file__).parent / "vendor" / "axe.js").read_text()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_login_and_editor_are_accessible(page: Page, enabler: Enabler, theme: str) -> None:
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    page.goto(enabler.url)
    expect(page.get_by_label("Token")).to_be_visible()
    assert serious(page) == []
    log_in(page, enabler, enabler.operator)
    page.get_by_role("link", name="Write", exact=True).click()
    expect(page.get_by_role("button", name="Deploy", exact=True)).to_be_visible()
    assert serious(page) == []


def serious(page: Page) -> list[str]:
    """Return the serious findings of axe-core on a page."""
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document)")["violations"]
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:200]} {each['nodes'][0]['failureSummary']}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]
