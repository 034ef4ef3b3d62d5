"""The console in a tab of a real browser, and checks of its pages."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from tests.support.suite import Suite

AXE = (Path(__file__).parents[1] / "console" / "vendor" / "axe.js").read_text()
SCREENSHOTS = os.environ.get("MISTBOW_SCREENSHOTS")
"""The folder for the screenshots of the documentation; None: none are taken."""
WAIT_MS = 60_000.0

FOCUSED = """
() => {
  let element = document.activeElement;
  while (element.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
  return element.getAttribute("aria-label") ?? element.innerText ?? "";
}
"""
MAX_TABS = 80


def tab_to(page: Page, name: str) -> None:
    """Press Tab until the element with a name has the focus."""
    for _ in range(MAX_TABS):
        page.keyboard.press("Tab")
        if page.evaluate(FOCUSED).strip() == name:
            return
    raise AssertionError(f"{MAX_TABS} times Tab do not reach {name}")


@dataclass
class Console:
    """The console in a tab of a browser, and everything that the tab complained about."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)

    def show(self, fragment: str) -> None:
        """Show a page of the console, and wait until it has content."""
        self.page.goto(f"{self.url}/#/{fragment}")
        self.page.reload()
        expect(self.page.locator(".page")).to_be_visible(timeout=WAIT_MS)

    def screenshot(self, name: str) -> None:
        """Take a screenshot for the documentation, if it is asked for."""
        if SCREENSHOTS is not None:
            self.page.screenshot(path=Path(SCREENSHOTS) / f"console-{name}.png")


def policy_violations(message: ConsoleMessage, page: Page) -> Iterator[str]:
    """Yield what violated the policy of the page, and where."""
    if "Content Security Policy" in message.text:
        yield f"{message.text} at {message.location} of {page.url}"


@contextmanager
def opened(browser: Browser, suite: Suite, **options: Any) -> Iterator[Console]:
    """Open the console in a browser context; fail if the page complained about anything."""
    context: BrowserContext = browser.new_context(
        viewport={"width": 1280, "height": 860}, **options
    )
    context.set_default_timeout(WAIT_MS)
    console = Console(context.new_page(), suite.url("enabler"))
    page, complaints = console.page, console.complaints
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
    page.on("console", lambda message: complaints.extend(policy_violations(message, page)))
    yield console
    context.close()
    assert complaints == []


def serious_findings(page: Page) -> list[str]:
    """Return the serious findings of axe-core on a page."""
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:160]}"
        for each in page.evaluate("axe.run(document)")["violations"]
        if each["impact"] in ("serious", "critical")
    ]


def check_accessible_dialog(page: Page) -> None:
    """Check that a page whose dialog is open has no serious finding."""
    page.evaluate(AXE)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        assert serious_findings(page) == [], scheme
    page.emulate_media(color_scheme="light")
