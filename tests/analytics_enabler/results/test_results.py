"""The enabler's results: reads of the latest results, and events for new results."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Queue
from typing import Any

import httpx
import pyarrow as pa
import pytest
from httpx_sse import connect_sse

from analytics.client.enabler import EnablerClient
from analytics.insight_models import InsightStatus, Result
from analytics_enabler.results import reader, streams
from mistbow.client.agent import AgentClient
from mistbow.errors import InvalidRequestError, NotFoundError, TooLargeError
from mistbow.streams.schemas import RESULT_ROWS
from tests.analytics_enabler.conftest import SharedSite
from tests.analytics_enabler.support import without_digest
from tests.support.conditions import eventually

RESULTS = "results/all.fair"
QUERIES = "a = COMPUTE AVG(x) BY node EVERY 1 s; b = COMPUTE MAX(x) EVERY 1 s"


class DeployedSite:
    """A deployment of two insights; the test writes their results."""

    def __init__(self, enabler: EnablerClient, agent: AgentClient) -> None:
        self.enabler = enabler
        self.agent = agent
        self.id = enabler.submit(QUERIES).deployment_id
        agent.create_stream(RESULTS, RESULT_ROWS)
        self.first = self.insight("a").first_tick
        self._uids = {insight.name: insight.uid for insight in enabler.show(self.id).insights}

    def insight(self, name: str) -> InsightStatus:
        """Return the current status of an insight."""
        shown = self.enabler.show(self.id).insights
        return next(insight for insight in shown if insight.name == name)

    def row(self, name: str, tick: int, value: float | None, revision: int = 0) -> dict[str, Any]:
        """Return a result as a row (``RESULT_ROWS``), ``tick`` ticks after the first tick."""
        return {
            "insight": self._uids[name],
            "key": '{"node":"n1"}' if name == "a" else "{}",
            "ts": self.first + 1000 * tick,
            "value": value,
            "revision": revision,
            "computed_at": self.first + 1000 * tick + 7,
        }

    def write(self, *rows: dict[str, Any]) -> None:
        self.agent.append(RESULTS, pa.RecordBatch.from_pylist(list(rows), schema=RESULT_ROWS))

    def values(self, **selection: Any) -> list[tuple[str, int, float | None]]:
        """Return the results that the API returns: (insight, ticks after the first tick, value)."""
        return [self.brief(r) for r in self.enabler.results(self.id, **selection).results]

    def brief(self, result: Result) -> tuple[str, int, float | None]:
        return result.insight, (result.ts - self.first) // 1000, result.value


@pytest.fixture
def enabler_url(shared_site: SharedSite) -> str:
    return shared_site.enabler


@pytest.fixture
def site(shared_site: SharedSite) -> Iterator[DeployedSite]:
    enabler, agent = EnablerClient(shared_site.enabler), AgentClient(shared_site.agent)
    yield DeployedSite(enabler, agent)
    enabler.close()
    agent.close()


def test_result_has_the_form_of_the_api(site: DeployedSite) -> None:
    site.write(site.row("a", 0, 1.5))
    (result,) = site.enabler.results(site.id).results
    assert result == Result(
        insight="a",
        key={"node": "n1"},
        ts=site.first,
        value=1.5,
        revision=0,
        computed_at=site.first + 7,
    )


def test_results_are_ordered_by_time_with_latest_revision(site: DeployedSite) -> None:
    site.write(site.row("a", 1, 1.0), site.row("b", 0, 2.0), site.row("a", 0, 3.0))
    site.write(site.row("a", 1, 9.0), site.row("a", 2, 4.0), site.row("b", 1, 5.0))
    site.write(site.row("a", 0, 3.5, revision=1), site.row("b", 1, None, revision=1))
    site.write(site.row("a", 0, 3.0), {**site.row("a", 0, 7.0), "insight": "d-other/a/1"})
    assert site.values() == [("a", 0, 3.5), ("b", 0, 2.0), ("a", 1, 1.0), ("a", 2, 4.0)]
    assert site.values(insight="b") == [("b", 0, 2.0)]
    assert site.values(limit=2) == [("a", 1, 1.0), ("a", 2, 4.0)]
    assert site.values(start=site.first + 1, end=site.first + 1000) == [("a", 1, 1.0)]


def test_results_are_read_in_shorter_times_if_they_are_many(
    site: DeployedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.write(*(site.row("a", tick, float(tick)) for tick in range(2500)))
    everything = [("a", tick, float(tick)) for tick in range(2500)]
    end = site.first + 2_499_000
    monkeypatch.setattr(streams, "MAX_READ_BYTES", 10_000)
    assert site.values(end=end, limit=100_000) == everything
    assert site.values(end=end, limit=3) == everything[-3:]
    monkeypatch.setattr(streams, "MAX_READ_BYTES", 10)
    with pytest.raises(TooLargeError, match=f"the results at the time {end} have more"):
        site.values(end=end)


def test_answer_with_too_many_bytes_is_refused_with_a_limit_that_fits(
    site: DeployedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.write(*(site.row("a", tick, float(tick)) for tick in range(1500)))
    everything = site.values(limit=100_000)
    assert everything == [("a", tick, float(tick)) for tick in range(1500)]
    monkeypatch.setattr(reader, "MAX_ANSWER_BYTES", 10_000)
    for path in ("", "/download"):
        url = f"{site.enabler.url}/api/insights/{site.id}/results{path}"
        refused = httpx.get(url, params={"limit": 100_000})
        assert refused.status_code == 413
        fitting = re.search(r"limit of about (\d+)", refused.json()["error"]["hint"])
        assert fitting is not None
        assert httpx.get(url, params={"limit": fitting[1]}).is_success
    assert site.values(limit=int(fitting[1])) == everything[-int(fitting[1]) :]


def test_latest_results_are_found_far_back(site: DeployedSite) -> None:
    # Ticks after the clock of the test, and long before the last: both are found by time.
    site.write(*(site.row("a", tick, float(tick)) for tick in range(0, 5000, 7)))
    everything = site.values(limit=100_000)
    assert everything == [("a", tick, float(tick)) for tick in range(0, 5000, 7)]
    assert site.values(limit=300) == everything[-300:]
    assert site.values(end=site.first + 700_000, limit=3) == everything[98:101]
    assert site.values(end=1) == []


def test_amended_insight_has_results_of_each_definition_for_its_period(site: DeployedSite) -> None:
    old = site.row("a", 0, 1.0)
    after_end = site.row("a", 1000, 2.0)
    since = site.insight("a").since
    eventually(lambda: site.agent.info("raw").frontier > since)
    site.enabler.amend(site.id, "a = COMPUTE SUM(x) BY node EVERY 1 s")
    new = site.insight("a")
    assert without_digest(new.uid).endswith("/a/2")
    site.write({**old, "ts": new.since}, after_end)
    site.write({**old, "insight": new.uid, "ts": new.first_tick, "value": 3.0})
    site.write({**old, "insight": new.uid, "ts": new.since, "value": 4.0})
    shown = [(r.ts, r.value) for r in site.enabler.results(site.id).results]
    assert shown == [(new.since, 1.0), (new.first_tick, 3.0)]


def test_invalid_parameters_are_rejected(site: DeployedSite, enabler_url: str) -> None:
    for query in (
        "limit=0",
        "limit=100001",
        "limit=x",
        "from=-1",
        "from=x",
        "from=2&to=1",
        "to=1e9",
        "to=253402300800000",
        "wait=5",
        "settled_until=1000&wait=61",
        "settled_until=x",
    ):
        answer = httpx.get(f"{enabler_url}/api/insights/{site.id}/results?{query}")
        assert answer.status_code == 400, query
        assert answer.json()["error"]["hint"]


@pytest.mark.parametrize("name", ["from", "to"])
@pytest.mark.parametrize("time", [1_795_262_400, 1_795_262_400 * 10**6, 1_795_262_400 * 10**9])
def test_times_of_another_unit_are_rejected_with_their_milliseconds(
    site: DeployedSite, enabler_url: str, name: str, time: int
) -> None:
    answer = httpx.get(f"{enabler_url}/api/insights/{site.id}/results?{name}={time}")
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["message"].startswith(f"{name}: {time} looks like ")
    assert "1795262400000" in error["hint"]


def test_unknown_insight_is_not_found(site: DeployedSite) -> None:
    with pytest.raises(NotFoundError, match="no insight zzz"):
        site.enabler.results(site.id, insight="zzz")
    with pytest.raises(NotFoundError):
        next(site.enabler.follow(site.id, insight="zzz"))


@contextmanager
def following(
    site: DeployedSite, url: str, **headers: str
) -> Iterator["Queue[tuple[str, Result]]"]:
    """Receive the results of a deployment as events; yield the queue of these events.

    An item of the queue is (event id, result). The stream of events is open when the queue is
    yielded.
    """
    events: Queue[tuple[str, Result]] = Queue()
    opened = threading.Event()
    client = httpx.Client(timeout=30)
    names = {name.replace("_", "-"): value for name, value in headers.items()}

    def run() -> None:
        path = f"{url}/api/insights/{site.id}/results/follow"
        try:
            with connect_sse(client, "GET", path, headers=names) as source:
                opened.set()
                for event in source.iter_sse():
                    assert event.event == "result"
                    events.put((event.id, Result.model_validate_json(event.data)))
        except httpx.HTTPError:
            return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert opened.wait(20)
    yield events
    client.close()


def test_follow_sends_new_results_and_revisions_only(site: DeployedSite, enabler_url: str) -> None:
    site.write(site.row("a", 0, 1.0))
    with following(site, enabler_url) as events:
        site.write(site.row("a", 0, 1.0), site.row("a", 0, 5.0))
        site.write(site.row("a", 1, 2.0), site.row("b", 1, 3.0))
        site.write(site.row("a", 1, 8.0), site.row("a", 0, 4.0, revision=1))
        site.write(site.row("b", 1, None, revision=2), site.row("b", 2, 9.0))
        seen = [site.brief(events.get(timeout=20)[1]) for _ in range(5)]
    assert seen[:3] == [("a", 1, 2.0), ("b", 1, 3.0), ("a", 0, 4.0)]
    assert seen[3:] == [("b", 1, None), ("b", 2, 9.0)]


def test_follow_resumes_after_last_event(site: DeployedSite, enabler_url: str) -> None:
    with following(site, enabler_url) as events:
        site.write(site.row("a", 0, 1.0))
        last_id, _ = events.get(timeout=20)
    site.write(site.row("a", 1, 2.0))
    site.write(site.row("a", 0, 1.0), site.row("a", 2, 3.0))
    with following(site, enabler_url, Last_Event_ID=last_id) as events:
        seen = [site.brief(events.get(timeout=20)[1]) for _ in range(2)]
    assert seen == [("a", 1, 2.0), ("a", 2, 3.0)]


@pytest.mark.parametrize(
    "event_id",
    [
        "x1",
        "7",
        "all.fair=",
        "all.fair=1,",
        "a=1;b=2",
        "a=-1",
        "a@",
        "a@1=2",
        "a/b/c=1",
        "/a=1",
        "a=1@",
    ],
)
def test_follow_rejects_invalid_event_id(
    site: DeployedSite, enabler_url: str, event_id: str
) -> None:
    path = f"{enabler_url}/api/insights/{site.id}/results/follow"
    answer = httpx.get(path, headers={"Last-Event-ID": event_id})
    assert answer.status_code == 400


def test_client_follows_through_amendment_until_deletion(site: DeployedSite) -> None:
    seen: Queue[tuple[str, int, float | None]] = Queue()
    after = site.enabler.results(site.id).next

    def run() -> None:
        for result in site.enabler.follow(site.id, after=after):
            seen.put(site.brief(result))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    site.write(site.row("a", 0, 1.0))
    assert seen.get(timeout=20) == ("a", 0, 1.0)
    site.enabler.amend(site.id, "a = COMPUTE SUM(x) BY node EVERY 1 s")
    new = site.insight("a")
    site.write({**site.row("a", 0, 2.0), "insight": new.uid, "ts": new.first_tick})
    assert seen.get(timeout=20)[2] == 2.0
    site.enabler.delete(site.id)
    site.agent.advance(RESULTS, frontier=new.first_tick)
    thread.join(20)
    assert not thread.is_alive()


def test_client_reports_from_after_to(site: DeployedSite) -> None:
    with pytest.raises(InvalidRequestError, match="is after"):
        site.enabler.results(site.id, start=2, end=1)
