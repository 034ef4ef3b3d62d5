"""Previews: the results of a text over stored points, computed by a worker with Spark."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from analytics.client.enabler import EnablerClient
from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.clock import system_clock
from mistbow.errors import NotFoundError
from mistbow.streams.schemas import RAW
from tests.support.conditions import eventually

TEXT = """
mean = COMPUTE AVG(preview.x, 2 SECONDS) BY entityID EVERY 1 SECONDS;
high = COMPUTE MAX(preview.x, 5 SECONDS) WHEN > 3 EVERY 1 SECONDS
"""


@contextmanager
def sending(agent: AgentClient) -> Iterator[None]:
    """Store points of two entities all the time within the ``with``."""
    stop = threading.Event()

    def send() -> None:
        number = 0
        while not stop.wait(0.1):
            now = system_clock()
            values = {"e-1": number % 7, "e-2": number % 3}
            agent.put([Point("preview.x", each, now, value) for each, value in values.items()])
            number += 1

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_preview_equals_the_results_of_a_deployment(
    live_enabler: EnablerClient, agent: AgentClient
) -> None:
    with sending(agent):
        deployment = live_enabler.submit(TEXT).deployment_id

        def enough() -> bool:
            found = live_enabler.results(deployment, limit=10_000).results
            return len({each.ts for each in found}) >= 5

        eventually(enough, timeout=120, what="the deployment has results at five ticks")
        preview = live_enabler.preview(TEXT, minutes=5, limit=20_000)
    assert preview.ok
    assert (preview.insights, preview.missing_sites) == (["mean", "high"], [])
    assert preview.start is not None
    assert preview.end is not None
    computed = {(r.insight, str(r.key), r.ts): r.value for r in preview.results}
    assert all(preview.start < ts <= preview.end for _, _, ts in computed)
    first, last = min(ts for _, _, ts in computed), max(ts for _, _, ts in computed)

    def deployed() -> dict[tuple[str, str, int], float | None]:
        found = live_enabler.results(deployment, limit=10_000).results
        return {(r.insight, str(r.key), r.ts): r.value for r in found if r.ts <= last}

    def is_complete() -> bool:
        found = deployed()
        begin = min(ts for _, _, ts in found)
        return found.keys() == {each for each in computed if each[2] >= begin}

    eventually(is_complete, timeout=120, what="the deployment has the results of the preview")
    found = deployed()
    assert len({ts for _, _, ts in found}) >= 5
    assert {each[0] for each in found} == {"mean", "high"}
    assert first <= min(ts for _, _, ts in found)
    for identity, value in found.items():
        assert computed[identity] == pytest.approx(value, rel=1e-9), identity


def test_preview_has_the_latest_results_up_to_its_limit(
    live_enabler: EnablerClient, agent: AgentClient
) -> None:
    now = system_clock()
    agent.put([Point("preview.y", "e", now - 1000 * n, float(n)) for n in range(20)])
    # The last point is in the window of the next tick.
    eventually(lambda: agent.info(RAW).frontier >= now + 1000)
    text = "a = COMPUTE SUM(preview.y, 1 SECONDS) EVERY 1 SECONDS; b = COMPUTE preview.y EVERY 1 s"
    preview = live_enabler.preview(text, insight="a", minutes=1, limit=5)
    assert preview.truncated
    assert len(preview.results) == 5
    assert {each.insight for each in preview.results} == {"a"}
    whole = live_enabler.preview(text, insight="a", minutes=1)
    assert not whole.truncated
    assert sum(each.value or 0 for each in whole.results) == sum(range(20))
    assert whole.results[-5:] != []
    assert [r.ts for r in preview.results] == [r.ts for r in whole.results][-5:]


def test_preview_without_every_spans_the_whole_hour(
    live_enabler: EnablerClient, agent: AgentClient
) -> None:
    now = system_clock()
    times = [now - minutes * 60_000 for minutes in (55, 40, 2)]
    agent.put([Point("preview.rare", "e", ts, 1.0) for ts in times])
    text = "a = COMPUTE COUNT(preview.rare, 20 MINUTES)"
    preview = live_enabler.preview(text, minutes=60)
    assert preview.start is not None
    assert preview.end is not None
    assert preview.end - preview.start == 3_600_000
    assert [(each.ts, each.value) for each in preview.results] == [
        (times[0], 1.0),
        (times[1], 2.0),
        (times[2], 1.0),
    ]


def test_preview_without_values_states_the_reason_and_the_units(
    live_enabler: EnablerClient, agent: AgentClient
) -> None:
    # The points are between the same two ticks.
    now = system_clock() // 1000 * 1000 - 500
    values = enumerate((4.0, 9.5, 7.0))
    agent.put([Point("preview.z", "e", now - n, v, units="seconds") for n, v in values])
    eventually(lambda: agent.info(RAW).frontier >= now + 1000)
    preview = live_enabler.preview(
        "a = COMPUTE MAX(preview.z, 1 MINUTE) WHEN > 20 EVERY 1 SECONDS;"
        "b = COMPUTE MAX(preview.z WHEN > 20, 1 MINUTE) EVERY 1 SECONDS;"
        "c = COMPUTE MAX(preview.none, 1 MINUTE) EVERY 1 SECONDS;"
        "d = COMPUTE COUNT(preview.z, 1 MINUTE) EVERY 1 SECONDS",
        minutes=2,
    )
    assert {each.insight for each in preview.results} == {"d"}
    assert preview.silent.keys() == {"a", "b", "c"}
    assert re.fullmatch(
        r"its condition was true for none of \d+ values? of 9\.5", preview.silent["a"]
    )
    assert preview.silent["b"].startswith(
        "no point satisfies the conditions on its points; without"
    )
    assert preview.silent["c"] == "no point of `preview.none` came in, or too few for its functions"
    eventually(
        lambda: live_enabler.preview("a = COMPUTE preview.z EVERY 1 s").units == {"a": "seconds"}
    )
    assert preview.units.keys() == {"a", "b", "c", "d"}
    assert preview.units["d"] is None


def test_preview_of_invalid_text_has_its_problems(live_enabler: EnablerClient) -> None:
    preview = live_enabler.preview("a = COMPUTE AVG(")
    assert not preview.ok
    assert preview.problems
    assert preview.results == []
    with pytest.raises(NotFoundError, match="no insight b"):
        live_enabler.preview("a = COMPUTE AVG(x) EVERY 1 s", insight="b")
