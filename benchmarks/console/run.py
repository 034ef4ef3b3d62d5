"""Benchmark of the console: the cost of viewers, and the speed of large views."""

from benchmarks.console import arrival, browser_memory, large_views, viewers
from benchmarks.report import Report
from tests.support.chromium import playwright_chromium
from tests.support.conditions import eventually
from tests.support.sender import Sender
from tests.support.suite import Suite
from tests.support.traffic import Traffic

_METRIC = "delay"
_TRAFFIC = Traffic(metrics=(_METRIC,), entities=("bus1", "bus2", "bus3"), rate=100)
_INSIGHT = "watched"
_QUERY = f"{_INSIGHT} = COMPUTE AVG({_METRIC}, 10 SECONDS) BY entityID EVERY 1 SECOND"


def run(suite: Suite) -> Report:
    """Measure viewers of a live insight, then a page with 2,000 keys and a fog of 300 sites."""
    with Sender(suite.url("agent"), _TRAFFIC), playwright_chromium() as browser:
        deployment_id = suite.enabler.submit(_QUERY).deployment_id
        eventually(
            lambda: suite.enabler.results(deployment_id).results, timeout=60, what="a result"
        )
        figures = list(arrival.measure(browser, suite, deployment_id))
        figures += viewers.measure(suite, browser, deployment_id, _INSIGHT)
        url = suite.url("enabler")
        figures += browser_memory.measure(browser, url, deployment_id, _INSIGHT)
        figures += large_views.measure(browser)
    return Report(
        "The console",
        "Viewers: on the live page of an insight with three keys and a result of each per second, "
        "over the whole suite with its own insights. Arrival: all first revisions within a minute, "
        "from the time at which a result is due (its time and the lateness of 1 s) to its event in "
        "Chromium. Visits of Chromium: one tab that shows the "
        "pages one after the other. Large views: Chromium beside its data source, five first "
        "visits with an empty cache; all 2,000 keys have a new value each second, and 20 of 300 "
        "sites change. A delay is from an input to the next frame (Event Timing).",
        figures,
    )
