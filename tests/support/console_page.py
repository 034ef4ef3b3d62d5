"""The console in a tab of a real browser, and checks of its pages."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.support.console_complaints import complaints_of
from tests.support.suite import Suite

AXE = (Path(__file__).parents[1] / "console" / "vendor" / "axe.js").read_text()
SCREENSHOTS = os.environ.get("MISTBOW_SCREENSHOTS")
"""The folder for the screenshots of the documentation; None: none are taken."""
WAIT_MS = 60_000.0
SECOND_WORKER = "0-second"
"""The name of the second worker of the suite, which is the first one in the order of names."""

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
    """The console in a tab of a browser."""

    page: Page
    url: str

    def show(self, fragment: str) -> None:
        """Show a page of the console, and wait until it has content."""
        self.page.goto(f"{self.url}/#/{fragment}")
        self.page.reload()
        expect(self.page.locator(".page")).to_be_visible(timeout=WAIT_MS)

    def screenshot(self, name: str) -> None:
        """Take a screenshot for the documentation if SCREENSHOTS is set."""
        if SCREENSHOTS is not None:
            self.page.screenshot(path=Path(SCREENSHOTS) / f"console-{name}.png")


@contextmanager
def opened(browser: Browser, suite: Suite, **options: Any) -> Iterator[Console]:
    """Open the console in a browser context; fail if the page complained about anything."""
    context: BrowserContext = browser.new_context(
        viewport={"width": 1280, "height": 860}, **options
    )
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    complaints = complaints_of(page)
    yield Console(page, suite.url("enabler"))
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


def editor_of(console: Console, label: str) -> Locator:
    return console.page.get_by_role("textbox", name=label)


def run_sql(console: Console, query: str) -> Locator:
    """Run a query in the SQL box; return the rows of its answer, the heading included."""
    console.show("explore?view=sql")
    page = console.page
    editor_of(console, "SQL query").click()
    page.keyboard.press("Control+A")
    # Chromium itself would add a style to a text that replaces a styled one, which is forbidden.
    page.keyboard.press("Delete")
    page.keyboard.insert_text(query)
    page.get_by_role("button", name="Run", exact=True).click()
    return page.get_by_role("region", name="Rows", exact=True).get_by_role("row")


MEANS = (
    "SELECT ts // 1000 * 1000 AS ts, avg(value) AS mean FROM historical "
    "WHERE metric = 'delay' GROUP BY ALL ORDER BY ts"
)
"""A query in SQL whose rows are shown as a plot: the mean delay of each second."""


def run_promql(console: Console, query: str) -> None:
    """Run a query in the PromQL box."""
    console.show("explore?view=promql")
    console.page.get_by_label("PromQL query").fill(query)
    console.page.get_by_role("button", name="Run", exact=True).click()


PAGES = ("start", "insights", "insight", "write", "fog", "site", "explore", "sql", "promql")


def address(console: Console, suite: Suite, page: str) -> str:
    """Return the fragment of a page."""
    host = next(each for each in suite.enabler.list() if each.name == "host")
    site = suite.agent.fabric().sites[0].name
    return {
        "insight": f"insights/{host.deployment_id}",
        "site": f"fog/{site}",
        "explore": "explore/delay",
        "sql": "explore?view=sql",
        "promql": "explore?view=promql",
    }.get(page, page)


PLOTS = ("insight", "write", "explore", "sql", "promql")


def painted(console: Console, suite: Suite, name: str) -> None:
    """Show a page with all that it can show, plots included."""
    page = console.page
    if name == "sql":
        run_sql(console, MEANS)
    elif name == "promql":
        run_promql(console, "avg by (region) (delay)")
    else:
        console.show(address(console, suite, name))
    if name == "write":
        editor_of(console, "Text of the insights").click()
        page.keyboard.insert_text("mean = COMPUTE AVG(delay) BY region EVERY 10 SECONDS")
        page.get_by_role("tab", name="Plan").click()
        expect(page.get_by_text("Plan after the optimizer")).to_be_visible()
    if name in PLOTS:
        expect(page.locator(".plot canvas").first).to_be_visible()


VERDICTS = {"ok": "All is well", "degraded": "There are warnings", "failed": "There are errors"}


def shows_its_health(console: Console, suite: Suite) -> bool:
    """Return whether the overview shows the state and all problems that the API reports."""
    health, page = suite.enabler.health(), console.page
    assert page.locator("h1").inner_text() == VERDICTS[health.state]
    shown = page.locator(".problem").all_inner_texts()
    assert len(shown) == len(health.problems)
    for text, problem in zip(shown, health.problems, strict=True):
        assert problem.what.lower() in text.lower()
        assert f"To do: {problem.action}" in text
    assert f"{health.counts.sites_reachable} of {health.counts.sites}" in page.inner_text("dl")
    return True


DELAYS = """
([id, lateness, duration]) => new Promise((resolve) => {
  const delays = [];
  const source = new EventSource(`api/events?insights=${id}`);
  const take = (result) => {
    if (result.revision === 0) delays.push(Date.now() - result.ts - lateness);
  };
  source.addEventListener("result", (event) => take(JSON.parse(event.data)));
  source.addEventListener("results", (event) => JSON.parse(event.data).results.forEach(take));
  setTimeout(() => { source.close(); resolve(delays); }, duration);
})
"""
LATENESS_MS = 1000
"""The lateness of the suite's site."""


def delays_of(page: Page, deployment_id: str, duration_ms: int) -> list[float]:
    """Return the delays (ms) of the results that arrive at a page within a duration.

    A delay is from the time at which a result is due, which is its time plus the lateness of the
    site, to the event in the page. Only first revisions count: a correction is due later.
    """
    found = page.evaluate(DELAYS, [deployment_id, LATENESS_MS, duration_ms])
    return [float(each) for each in found]
