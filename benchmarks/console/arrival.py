"""The time from when results are due to their arrival in Chromium."""

from collections.abc import Iterator

from playwright.sync_api import Browser

from benchmarks.report import Figure

MAX_DELAY_MS = 1000
_MEASURED_MS = 20_000
_LATENESS_MS = 1000

_DELAYS = """
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


def measure(browser: Browser, url: str, deployment_id: str) -> Iterator[Figure]:
    """Yield the delays of the first revisions of results, in the order of their arrival."""
    page = browser.new_page()
    page.goto(url)
    delays = page.evaluate(_DELAYS, [deployment_id, _LATENESS_MS, _MEASURED_MS])
    page.close()
    yield Figure("arrival of results after they are due", "ms", delays, at_most=MAX_DELAY_MS)
