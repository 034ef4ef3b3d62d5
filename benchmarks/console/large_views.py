"""The time to the first view, and the delay of interactions, with many keys and many sites."""

import statistics
from collections.abc import Callable, Iterator

from playwright.sync_api import Browser, Page

from benchmarks.console.large_fog import DEPLOYMENT, INSIGHT, KEYS, SITES, create_app
from benchmarks.report import Figure
from tests.support.http_server import served

MAX_PAINT_MS = 2000
MAX_DELAY_MS = 200
_VISITS = 5

# The delay of an interaction is from the input to the next frame (Event Timing).
_OBSERVE = """
window.delays = [];
new PerformanceObserver((list) => list.getEntries().forEach((each) => {
  if (each.interactionId) window.delays.push(each.duration);
})).observe({type: "event", durationThreshold: 16, buffered: true});
"""
_SHOWN = """
([selector, count]) => new Promise((resolve) => {
  const check = () => document.querySelectorAll(selector).length >= count
    ? requestAnimationFrame(() => setTimeout(() => resolve(performance.now()), 0))
    : setTimeout(check, 5);
  check();
})
"""


def measure(browser: Browser) -> Iterator[Figure]:
    """Yield the figures of the page of an insight with many keys, and of a fog of many sites."""
    with served(create_app()) as url:
        insight = f"{url}/#/insights/{DEPLOYMENT}/{INSIGHT}"
        yield from _figures(browser, f"{KEYS} keys", insight, ".key-row", 10, _use_keys)
        yield from _figures(
            browser, f"{SITES} sites", f"{url}/#/fog", "[data-site]", SITES, _use_map
        )


def _figures(
    browser: Browser, what: str, url: str, selector: str, count: int, use: Callable[[Page], None]
) -> Iterator[Figure]:
    paints: list[float] = []
    delays: list[float] = []
    for _ in range(_VISITS):
        # A new context has an empty cache, as at the first visit.
        context = browser.new_context(viewport={"width": 1280, "height": 860})
        page = context.new_page()
        page.add_init_script(_OBSERVE)
        page.goto(url)
        paints.append(page.evaluate(_SHOWN, [selector, count]))
        use(page)
        page.wait_for_timeout(300)
        delays += page.evaluate("window.delays") or [0.0]
        context.close()
    yield Figure(f"{what}: time to the whole view", "ms", paints, at_most=MAX_PAINT_MS)
    delays.sort()
    yield Figure(f"{what}: delay of an interaction, median", "ms", [statistics.median(delays)])
    yield Figure(
        f"{what}: longest delay of an interaction", "ms", [delays[-1]], at_most=MAX_DELAY_MS
    )


def _use_keys(page: Page) -> None:
    for number in range(4):
        page.locator(".key-row").nth(number).click()
    page.get_by_label("Search keys").click()
    page.keyboard.type("bus-12", delay=60)
    page.get_by_label("Sort by").select_option("key")
    page.get_by_role("button", name="Latest results").click()
    page.get_by_role("button", name="Keys", exact=True).click()
    page.get_by_label("Shown range").get_by_role("button", name="1 h").click()
    page.wait_for_timeout(1000)


def _use_map(page: Page) -> None:
    for number in (3, 90, 200, 299):
        page.locator(f'[data-site="site-{number}"]').focus()
        page.keyboard.press("Enter")
        page.wait_for_timeout(150)
    page.get_by_role("button", name="Zoom in").click()
    page.get_by_role("button", name="Zoom out").click()
    page.get_by_role("button", name="All", exact=True).click()
    page.get_by_label("Find a site").click()
    page.keyboard.type("site-150", delay=60)
    page.wait_for_timeout(1000)
