"""Checks of the quality of points by a worker with Spark, in the share that a placement sets."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from analytics.client.enabler import EnablerClient
from analytics.fog_models import FogSource
from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.clock import system_clock
from mistbow.streams.schemas import quality_stream
from tests.analytics_enabler.live_site import LiveSite
from tests.support.conditions import eventually

STEP_MS = 200
QUERY = "pressed = COMPUTE AVG(pressure, 4 SECONDS) EVERY 2 SECONDS WITH SCHEDULER=quality"


@contextmanager
def bad_points(agent: AgentClient) -> Iterator[None]:
    """Send a regular series without every fourth point; every third value is out of range."""
    ended = threading.Event()

    def send() -> None:
        tick = system_clock() // STEP_MS
        while not ended.wait(0.05):
            due = range(tick, system_clock() // STEP_MS)
            tick = due.stop
            points = [
                Point(
                    metric="pressure",
                    entity="pump",
                    ts=number * STEP_MS,
                    value=150.0 if number % 3 == 0 else 50.0,
                    min_val=0,
                    max_val=100,
                )
                for number in due
                if number % 4
            ]
            if points:
                agent.put(points)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def is_near(figure: float | None, right: float) -> bool:
    return figure is not None and abs(figure - right) < 0.1


# At a site with the points of other tests, the quality is not always known within minutes.
@pytest.mark.soak
@pytest.mark.timeout(420)
def test_worker_checks_points_and_schedulers_see_their_quality(
    live_site: LiveSite, live_enabler: EnablerClient, live_enabler_url: str
) -> None:
    sender = AgentClient(live_site.agent_url)
    with bad_points(sender):
        live_enabler.submit(QUERY, name="checked")

        def source() -> FogSource | None:
            # The figures of a few periods may differ: points arrive late on a busy machine.
            for each in live_enabler.fog().sources:
                if is_near(each.completeness, 0.75) and is_near(each.accuracy, 2 / 3):
                    return each
            return None

        found = eventually(
            source, timeout=300, pause=1.0, what="the quality of the points is known"
        )
        [status] = live_site.worker.list()
        stream = quality_stream(found.site)
        rows = live_site.agent.read(stream, 0, live_site.agent.info(stream).head).table
        [fragment] = live_enabler.explain(QUERY).groups[0].fragments
        metrics = httpx.get(f"{live_enabler_url}/metrics").text
    sender.close()
    assert (status.checked, fragment.checked) == (1.0, 1.0)
    assert status.points_checked > 0
    assert status.check_cpu_s > 0
    assert set(rows["metric"].to_pylist()) == {"pressure"}
    assert set(rows["fragment"].to_pylist()) == {status.id}
    assert fragment.estimated is not None
    assert 0 < (fragment.estimated.check_core_s or 0) < 0.1
    assert f'mistbow_site_accuracy_ratio{{site="{found.site}"}}' in metrics
