"""The console at a real enabler: login, the rights of a session, log-out, and no complaints.

The storage agent does not answer, so the pages also show how they do without data.
"""

import re
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from analytics_enabler.api import events as events_module
from analytics_enabler.limits import MAX_EVENT_STREAMS
from analytics_enabler.main import create_app
from analytics_enabler.settings import EnablerSettings
from ignite_server.ports import free_ports
from mistbow.auth.callers import Scope
from mistbow.auth.token_file import new_token_file, read_token_file, write_token_file
from tests.support.chromium import playwright_chromium
from tests.support.conditions import eventually
from tests.support.console_complaints import complaints_of
from tests.support.http_server import served
from tests.support.tcp_server import tcp_server

WAIT_MS = 60_000.0
PAGES = {
    "start": "There are errors",
    "insights": "Continuous queries",
    "write": "Start from an example",
    "fog": "Reading the fog",
    "explore": "The metrics of the fog",
    "explore?view=sql": "One SELECT of DuckDB",
    "explore?view=promql": "The same data as for Grafana",
}
"""Page -> a text that no other page has."""


@dataclass(frozen=True)
class Enabler:
    """The address of an enabler, a token for reading, one for changing, and one to be revoked."""

    url: str
    tokens: Path
    viewer: str
    operator: str
    guest: str


@pytest.fixture(scope="module")
def browser(processes: None) -> Iterator[Browser]:
    with playwright_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def enabler(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Enabler]:
    with pytest.MonkeyPatch.context() as patch:
        # An idle stream ends at its next ping after its token is revoked.
        patch.setattr(events_module, "PING_S", 0.5)
        yield from _enabler(tmp_path_factory)


def _enabler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Enabler]:
    home = tmp_path_factory.mktemp("enabler")
    read, change = frozenset[Scope]({"read"}), frozenset[Scope]({"admin"})
    content, viewer = new_token_file().with_token("viewer", read, "", None)
    content, operator = content.with_token("operator", change, "", None)
    content, guest = content.with_token("guest", read, "", None)
    tokens = home / "tokens.json"
    write_token_file(tokens, content)
    agent = f"http://127.0.0.1:{free_ports(1)[0]}"
    settings = EnablerSettings(home=home, agent_url=agent, token="f" * 40, tokens_file=tokens)
    with served(create_app(settings)) as url:
        yield Enabler(url, tokens, viewer, operator, guest)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    context.set_default_timeout(WAIT_MS)
    expect.set_options(timeout=WAIT_MS)
    page = context.new_page()
    complaints = complaints_of(page)
    yield page
    context.close()
    assert complaints == []


def log_in(page: Page, enabler: Enabler, token: str) -> None:
    page.goto(enabler.url)
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()


def editor_of(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Text of the insights")


def test_wrong_token_is_refused(page: Page, enabler: Enabler) -> None:
    log_in(page, enabler, "mistbow_wrong")
    expect(page.get_by_role("alert")).to_contain_text("not valid")
    expect(page.get_by_role("navigation")).to_have_count(0)


def test_console_that_arrives_incompletely_is_loaded_again(
    browser: Browser, enabler: Enabler
) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        complaints = complaints_of(page)
        page.route("**/console/app/live.js", lambda route: route.abort(), times=1)
        page.goto(enabler.url)
        expect(page.get_by_text("cannot be loaded")).to_be_visible()
        expect(page.get_by_role("button", name="Log in")).to_be_visible()
    [complaint] = complaints
    assert "main.js" in complaint


def test_reader_sees_pages_and_cannot_deploy(page: Page, enabler: Enabler) -> None:
    log_in(page, enabler, enabler.viewer)
    expect(page.get_by_text("(read only)")).to_be_visible()
    page.get_by_role("link", name="Write", exact=True).click()
    expect(editor_of(page)).to_be_visible()
    expect(page.get_by_text("Your token may read only")).to_be_visible()
    expect(page.get_by_role("button", name="Deploy", exact=True)).to_have_count(0)


@pytest.mark.parametrize("width", [1280, 390])
def test_session_is_out_of_reach_of_scripts_and_ends_by_log_out(
    page: Page, enabler: Enabler, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    log_in(page, enabler, enabler.operator)
    page.get_by_role("link", name="Write", exact=True).click()
    expect(page.get_by_role("button", name="Deploy", exact=True)).to_be_visible()
    assert page.evaluate("document.cookie") == ""
    assert enabler.operator not in page.evaluate("JSON.stringify(localStorage)")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("button", name="Log in")).to_be_visible()
    page.reload()
    expect(page.get_by_role("button", name="Log in")).to_be_visible()


def test_revoked_token_leads_an_open_page_back_to_the_login(page: Page, enabler: Enabler) -> None:
    log_in(page, enabler, enabler.guest)
    page.get_by_role("link", name="Write", exact=True).click()
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    editor_of(page).click()
    page.keyboard.insert_text("kept = COMPUTE AVG(delay)")
    write_token_file(enabler.tokens, read_token_file(enabler.tokens).without_token("guest"))
    expect(page.get_by_role("button", name="Log in")).to_be_visible()
    expect(page.get_by_role("status")).to_contain_text("Your session has ended")
    page.get_by_label("Token").fill(enabler.viewer)
    page.get_by_role("button", name="Log in").click()
    expect(editor_of(page)).to_have_text("kept = COMPUTE AVG(delay)")
    expect(page.get_by_text("Your session has ended")).to_have_count(0)
    page.get_by_role("button", name="Log out").click()
    # A page that is left before the answer would leave the session open.
    expect(page.get_by_role("button", name="Log in")).to_be_visible()
    log_in(page, enabler, enabler.guest)
    expect(page.get_by_role("alert")).to_contain_text("not valid")


def test_page_states_the_limit_of_streams_and_polls_instead(page: Page, enabler: Enabler) -> None:
    headers = {"Authorization": f"Bearer {enabler.viewer}"}
    limits = httpx.Limits(max_connections=MAX_EVENT_STREAMS)
    with ExitStack() as streams:
        client = streams.enter_context(httpx.Client(base_url=enabler.url, limits=limits))

        def is_opened() -> bool:
            opened = streams.enter_context(client.stream("GET", "/api/events", headers=headers))
            if not opened.is_success:
                opened.close()
            return opened.is_success

        for _ in range(MAX_EVENT_STREAMS):
            # The streams of the pages of earlier tests end a moment after these pages.
            eventually(is_opened, what="the enabler accepts a stream")
        log_in(page, enabler, enabler.viewer)
        status = page.get_by_role("status").filter(has_text="Not live")
        expect(status).to_contain_text(f"{MAX_EVENT_STREAMS} clients")
        expect(status).to_contain_text("polling every 5 s")
        expect(page.locator("h1")).to_be_visible()
    expect(page.get_by_text("Live", exact=True)).to_be_visible()


async def never_answer(reader: StreamReader, _: StreamWriter) -> None:
    while await reader.read(2**16):
        pass


@pytest.fixture
def slow_url(tmp_path: Path) -> Iterator[str]:
    """An enabler without a token, whose storage agent accepts requests and does not answer."""
    with tcp_server(never_answer) as port:
        settings = EnablerSettings(home=tmp_path, agent_url=f"http://127.0.0.1:{port}")
        with served(create_app(settings)) as url:
            yield url


def test_open_page_states_that_the_enabler_is_away_and_continues_when_it_is_back(
    page: Page, tmp_path: Path
) -> None:
    settings = EnablerSettings(home=tmp_path, agent_url=f"http://127.0.0.1:{free_ports(1)[0]}")
    [port] = free_ports(1)
    with served(create_app(settings), port) as url:
        page.goto(f"{url}/#/write")
        editor_of(page).click()
        page.keyboard.insert_text("kept = COMPUTE AVG(delay)")
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
    expect(page.get_by_text("The enabler has not answered since")).to_be_visible()
    expect(page.get_by_text("No answer", exact=True)).to_be_visible()
    page.keyboard.insert_text(" EVERY 1 SECOND")
    problems = page.get_by_role("status", name="Problems of the text")
    expect(problems).to_have_text("The text cannot be checked now.")
    with served(create_app(settings), port):
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        expect(page.get_by_text("The enabler has not answered since")).to_have_count(0)
        expect(editor_of(page)).to_have_text("kept = COMPUTE AVG(delay) EVERY 1 SECOND")
        expect(problems).to_contain_text("no errors")
        expect(page.get_by_text("The enabler does not answer")).to_have_count(0)


@pytest.mark.parametrize("view", ["sql", "promql"])
def test_query_that_takes_long_is_cancelled(page: Page, slow_url: str, view: str) -> None:
    page.goto(f"{slow_url}/#/explore?view={view}")
    if view == "promql":
        page.get_by_label("PromQL query").fill("up")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_text("Running …")).to_be_visible()
    with page.expect_event("requestfailed", lambda request: request.method == "POST"):
        page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled()
    expect(page.get_by_text("Nothing to show yet")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


SHOW_OR_HIDE = """
(hidden) => {
  Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
  document.dispatchEvent(new Event("visibilitychange"));
}
"""


def test_hidden_pages_leave_connections_to_others(browser: Browser, enabler: Enabler) -> None:
    # A browser opens six connections to a host.
    with browser.new_context() as context:
        for number in range(8):
            page = context.new_page()
            page.set_default_timeout(WAIT_MS)
            if number == 0:
                log_in(page, enabler, enabler.viewer)
            else:
                page.goto(enabler.url)
            expect(page.get_by_text("Live", exact=True)).to_be_visible()
            page.evaluate(SHOW_OR_HIDE, True)
        page.evaluate(SHOW_OR_HIDE, False)
        page.get_by_role("link", name="Insights", exact=True).click()
        expect(page.get_by_role("heading", name="Insights", exact=True)).to_be_visible()


def test_pages_are_shown_while_the_agent_does_not_answer(page: Page, enabler: Enabler) -> None:
    log_in(page, enabler, enabler.viewer)
    expect(page.get_by_role("navigation")).to_be_visible()
    for name, text in PAGES.items():
        page.goto(f"{enabler.url}/#/{name}")
        expect(page.get_by_role("main").get_by_text(text)).to_be_visible()


def test_fast_typing_arrives_whole_and_in_order(page: Page, enabler: Enabler) -> None:
    text = "worst = COMPUTE MAX(delay, 30 SECONDS) EVERY 1 SECOND -- typed faster than drawn"
    log_in(page, enabler, enabler.operator)
    page.get_by_role("link", name="Write", exact=True).click()
    editor = editor_of(page)
    editor.click()
    for _ in range(3):
        # One by one, as from a keyboard; the closing parenthesis is typed over the inserted one.
        page.keyboard.type(text)
        expect(editor).to_have_text(text)
        page.keyboard.press("Control+A")
        page.keyboard.press("Delete")


def test_click_beside_the_text_leaves_the_keyboard_to_the_editor(
    page: Page, enabler: Enabler
) -> None:
    log_in(page, enabler, enabler.operator)
    page.get_by_role("link", name="Write", exact=True).click()
    editor = editor_of(page)
    editor.click()
    page.keyboard.type("a")
    # A notice about the check would move the editor from below the mouse.
    expect(page.get_by_label("Problems of the text")).to_contain_text("line 1")
    scroller = page.locator(".cm-scroller")
    for x in (200, 8):
        box = scroller.bounding_box()
        assert box is not None
        # At its place at the time of the click, when it no longer moves.
        scroller.click(position={"x": x, "y": box["height"] - 10})
        page.keyboard.type("e")
    expect(editor).to_have_text("aee")


def test_example_replaces_an_example_and_asks_before_it_replaces_a_text(
    page: Page, enabler: Enabler
) -> None:
    log_in(page, enabler, enabler.operator)
    page.get_by_role("link", name="Write", exact=True).click()
    editor, dialog = editor_of(page), page.get_by_role("dialog")
    page.get_by_role("button", name="Mean of the last minute").click()
    expect(editor).to_contain_text("mean_now")
    leave_editor(page)
    page.get_by_role("link", name="Write", exact=True).click()
    expect(editor).to_contain_text("mean_now")
    page.get_by_role("button", name="Total of the latest values").click()
    expect(editor).to_contain_text("total_now")
    expect(editor).not_to_contain_text("mean_now")
    editor.click()
    page.keyboard.press("Control+End")
    page.keyboard.type(" -- mine")
    page.get_by_role("button", name="Mean of the last minute").click()
    expect(dialog.get_by_role("button", name="Replace my text")).to_be_visible()
    assert serious(page) == []
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    expect(editor).not_to_contain_text("mean_now")
    page.get_by_role("button", name="Mean of the last minute").click()
    dialog.get_by_role("button", name="Add the example below").click()
    expect(editor).to_contain_text(re.compile("total_now.*mine;.*mean_now", re.DOTALL))


def test_metric_begins_a_text_and_leaves_the_former_one(page: Page, enabler: Enabler) -> None:
    log_in(page, enabler, enabler.operator)
    page.get_by_role("link", name="Write", exact=True).click()
    editor = editor_of(page)
    editor.click()
    page.keyboard.insert_text("mine = COMPUTE AVG(delay)")
    leave_editor(page)
    page.goto(f"{enabler.url}/#/write?metric=bus.fare")
    expect(editor).to_have_text("mean_bus_fare = COMPUTE AVG(bus.fare, 1 MINUTE) EVERY 10 SECONDS")
    page.reload()
    editor.click()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text(" -- mine, too")
    leave_editor(page)
    page.goto(f"{enabler.url}/#/write?metric=passengers")
    expect(page.get_by_text("2 former texts of yours are stored")).to_be_visible()
    page.get_by_role("button", name="Take it back").click()
    expect(editor).to_contain_text("-- mine, too")
    page.get_by_role("button", name="Forget it").click()
    expect(page.get_by_role("button", name="Take it back")).to_have_count(0)


def leave_editor(page: Page) -> None:
    page.get_by_role("link", name="Insights", exact=True).click()
    expect(page.get_by_role("heading", name="Insights", exact=True)).to_be_visible()


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
    expect(page.get_by_role("button", name="Mean of the last minute")).to_be_visible()
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
