"""The time from when results are due to their arrival in Chromium, and until the first arrival."""

import time
from collections.abc import Iterator
from statistics import quantiles

from playwright.sync_api import Browser, expect

from benchmarks.report import Figure
from tests.support.console_page import delays_of
from tests.support.suite import Suite

MAX_DELAY_MS = 1000
MAX_FIRST_S = 10.0
_MEASURED_MS = 60_000
_SUBMISSIONS = 3
_FIRST = "first{} = COMPUTE MAX(delay, {} SECONDS) BY entityID EVERY 1 SECOND"


def measure(browser: Browser, suite: Suite, deployment_id: str) -> Iterator[Figure]:
    """Yield the delays of results in a minute, and the times from submissions to first results."""
    page = browser.new_page()
    page.goto(suite.url("enabler"))
    delays = delays_of(page, deployment_id, _MEASURED_MS)
    yield Figure("arrival of results after they are due", "ms", delays, at_most=MAX_DELAY_MS)
    most = quantiles(delays, n=20)[-1]
    yield Figure("the same, 95th percentile", "ms", [most], at_most=MAX_DELAY_MS)
    firsts = []
    for number in range(_SUBMISSIONS):
        submitted = time.monotonic()
        new = suite.enabler.submit(_FIRST.format(number, number + 2)).deployment_id
        page.goto(f"{suite.url('enabler')}/#/insights/{new}")
        expect(page.locator(".key-row").first).to_be_visible(timeout=60_000)
        firsts.append(time.monotonic() - submitted)
        suite.enabler.delete(new)
    page.close()
    yield Figure("first result on its page after the submission", "s", firsts, at_most=MAX_FIRST_S)
