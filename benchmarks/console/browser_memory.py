"""The memory of Chromium while one tab shows page after page of the console."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from playwright.sync_api import Browser, CDPSession, Page

from benchmarks.report import Figure

WARM_VISITS = 100
VISITS = 1000
MAX_GROWTH_MB = 2.0
MAX_GROWTH_NODES = 2000
_MEGABYTE = 2**20

_VISIT = """
([fragment, title, waitMs]) => new Promise((resolve, reject) => {
  const end = Date.now() + waitMs;
  location.hash = fragment;
  const check = () => {
    if (document.title.startsWith(title) && document.querySelector("main .page")) {
      requestAnimationFrame(resolve);
    } else if (Date.now() > end) {
      reject(new Error(`${fragment} has the title ${document.title}, not ${title}`));
    } else {
      setTimeout(check, 5);
    }
  };
  check();
})
"""
_MAX_VISIT_MS = 30_000


@dataclass(frozen=True)
class _Memory:
    """What a tab uses after a garbage collection."""

    heap_mb: float
    nodes: int
    listeners: int


def measure(browser: Browser, url: str, deployment_id: str, insight: str) -> Iterator[Figure]:
    """Yield the growth by visits of all pages, and of the page of an insight."""
    page = browser.new_page()
    page.goto(url)
    devtools = page.context.new_cdp_session(page)
    pages = (
        ("#/start", "Overview"),
        (f"#/insights/{deployment_id}/{insight}", insight),
        ("#/fog", "Fog"),
        ("#/write", "Write"),
        ("#/explore", "Explore"),
    )
    _visit(page, pages, WARM_VISITS)
    before = _used(page, devtools)
    _visit(page, pages, VISITS)
    after = _used(page, devtools)
    page.close()
    yield Figure(f"Chromium: heap after {WARM_VISITS} visits", "MB", [before.heap_mb])
    yield Figure(
        f"Chromium: growth of the heap by {VISITS:,} more visits",
        "MB",
        [after.heap_mb - before.heap_mb],
        at_most=MAX_GROWTH_MB,
    )
    yield Figure(
        "Chromium: growth of the nodes of documents by them",
        "nodes",
        [after.nodes - before.nodes],
        at_most=MAX_GROWTH_NODES,
    )
    yield Figure(
        "Chromium: growth of the listeners by them",
        "listeners",
        [after.listeners - before.listeners],
    )


def _visit(page: Page, pages: Sequence[tuple[str, str]], number: int) -> None:
    """Show pages one after the other, and the first one at the end."""
    for fragment, title in (*islice(cycle(pages), number), pages[0]):
        page.evaluate(_VISIT, [fragment, title, _MAX_VISIT_MS])


def _used(page: Page, devtools: CDPSession) -> _Memory:
    page.wait_for_timeout(1000)
    for _ in range(3):
        devtools.send("HeapProfiler.collectGarbage")
    heap = devtools.send("Runtime.getHeapUsage")["usedSize"]
    counters = devtools.send("Memory.getDOMCounters")
    return _Memory(heap / _MEGABYTE, counters["nodes"], counters["jsEventListeners"])
