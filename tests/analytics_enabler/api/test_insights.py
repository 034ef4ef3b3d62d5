"""The API that deploys, checks and explains insights."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from analytics.client.enabler import EnablerClient
from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.clock import system_clock
from mistbow.errors import (
    InvalidQueryError,
    InvalidRequestError,
    NotFoundError,
    PreconditionFailedError,
    ReusedKeyError,
)
from tests.analytics_enabler.conftest import SharedSite
from tests.analytics_enabler.support import without_digest
from tests.support.conditions import eventually

QUERY = "cpu_now = COMPUTE AVG(cpu.util, 10 SECONDS) BY node EVERY 5 SECONDS"
TWO = f"{QUERY}; cpu_peak = COMPUTE MAX(cpu.util, 10 SECONDS) BY node EVERY 5 SECONDS"


def test_submit_show_list_delete(lone_enabler: EnablerClient) -> None:
    accepted = lone_enabler.submit(TWO, name="host")
    assert accepted.insights == ["cpu_now", "cpu_peak"]
    deployment_id = accepted.deployment_id
    eventually(lambda: lone_enabler.show(deployment_id).status == "waiting for a worker")
    shown = lone_enabler.show(deployment_id)
    assert (shown.name, shown.queries) == ("host", TWO)
    assert shown.status_since is not None
    since = datetime.fromtimestamp(shown.status_since // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert re.fullmatch(
        rf"the site n1 has no worker since {since}: no worker has announced itself there\. The "
        r"enabler uses a worker there as soon as it announces itself: start `mistbow worker`\.",
        shown.error or "",
    )
    assert [each.error for each in shown.insights] == [shown.error] * 2
    assert [each.state_since for each in shown.insights] == [shown.status_since] * 2
    assert without_digest(shown.insights[0].uid) == f"{accepted.deployment_id}/cpu_now/1"
    assert shown.insights[0].first_tick > shown.insights[0].since > 0
    only_shown = {"placement": [], "ended": [], "decisions": []}
    assert lone_enabler.list() == [shown.model_copy(update=only_shown)]
    lone_enabler.delete(accepted.deployment_id)
    assert lone_enabler.list() == []
    with pytest.raises(NotFoundError):
        lone_enabler.show(accepted.deployment_id)
    with pytest.raises(NotFoundError):
        lone_enabler.delete(accepted.deployment_id)


def test_submit_with_same_key_deploys_once(lone_enabler: EnablerClient) -> None:
    first = lone_enabler.submit(QUERY, idempotency_key="k")
    assert lone_enabler.submit(QUERY, idempotency_key="k") == first
    assert len(lone_enabler.list()) == 1
    with pytest.raises(ReusedKeyError, match="other insights"):
        lone_enabler.submit(TWO, idempotency_key="k")
    with pytest.raises(InvalidRequestError):
        lone_enabler.submit(QUERY, idempotency_key="k" * 201)
    assert lone_enabler.submit(QUERY).deployment_id != first.deployment_id


def test_change_of_a_former_version_is_refused(lone_enabler: EnablerClient) -> None:
    accepted = lone_enabler.submit(QUERY, name="host")
    first = lone_enabler.show(accepted.deployment_id)
    assert first.version == accepted.version
    second = lone_enabler.amend(first.deployment_id, TWO, version=first.version)
    shown = lone_enabler.show(first.deployment_id)
    assert (shown.version, shown.amended_at) == (second.version, shown.updated_at)
    assert shown.amended_by == shown.owner
    # As after an answer that was lost.
    assert lone_enabler.amend(first.deployment_id, TWO, version=first.version) == second
    with pytest.raises(PreconditionFailedError, match="has changed since") as refused:
        lone_enabler.amend(first.deployment_id, QUERY, version=first.version)
    assert refused.value.details["queries"] == TWO
    assert refused.value.details["version"] == second.version
    with pytest.raises(PreconditionFailedError):
        lone_enabler.delete(first.deployment_id, version=first.version)
    lone_enabler.pause(first.deployment_id)
    lone_enabler.amend(first.deployment_id, QUERY, version=second.version)
    lone_enabler.amend(first.deployment_id, TWO)
    lone_enabler.delete(first.deployment_id, version=second.version)


def test_etag_of_an_answer_is_the_condition_of_the_next_request(shared_site: SharedSite) -> None:
    with httpx.Client(base_url=shared_site.enabler) as client:
        submitted = client.post("/api/insights", json={"queries": QUERY})
        path = f"/api/insights/{submitted.json()['deployment_id']}"
        tag = submitted.headers["etag"]
        assert tag == client.get(path).headers["etag"] == f'"{submitted.json()["version"]}"'
        amended = client.put(path, json={"queries": TWO}, headers={"If-Match": tag})
        assert amended.headers["etag"] not in ("", tag)
        refused = client.delete(path, headers={"If-Match": tag})
        assert refused.status_code == 412
        assert refused.json()["error"]["code"] == "precondition_failed"
        assert client.delete(path, headers={"If-Match": "nothing"}).status_code == 400
        assert client.delete(path, headers={"If-Match": "*"}).status_code == 204


def test_insight_continues_after_deletion_of_referenced_insight(
    lone_enabler: EnablerClient,
) -> None:
    text = "twice = COMPUTE 2 * INSIGHT once EVERY 5 SECONDS"
    once = lone_enabler.submit("once = COMPUTE AVG(cpu) EVERY 5 SECONDS").deployment_id
    twice = lone_enabler.submit(text, idempotency_key="twice").deployment_id
    shared = lone_enabler.explain("c = COMPUTE INSIGHT twice EVERY 5 SECONDS").shared
    assert {f"{once}/once/1", f"{twice}/twice/1"} <= {*map(without_digest, shared[0].others)}
    with pytest.raises(InvalidQueryError, match="there is no insight `once`"):
        lone_enabler.amend(once, text)  # it would replace the insight that it refers to
    lone_enabler.delete(once)
    (left,) = lone_enabler.show(twice).insights
    assert left.text == text
    assert lone_enabler.submit(text, idempotency_key="twice").deployment_id == twice
    with pytest.raises(InvalidQueryError, match="there is no insight `once`"):
        lone_enabler.amend(twice, text)
    lone_enabler.delete(twice)


def test_results_are_empty_before_first_computation(lone_enabler: EnablerClient) -> None:
    deployment_id = lone_enabler.submit(QUERY).deployment_id
    assert lone_enabler.results(deployment_id).results == []


def test_api_accepts_bodies_of_the_specification(enabler_url: str) -> None:
    insights = f"{enabler_url}/api/insights"
    text = {"Content-Type": "text/plain; charset=utf-8"}
    answer = httpx.post(insights, content=QUERY, headers=text)
    assert answer.status_code == 201
    location = f"{insights}/{answer.json()['deployment_id']}"
    assert httpx.put(location, json={"queries": TWO}).json()["insights"] == ["cpu_now", "cpu_peak"]
    assert httpx.get(location).json()["queries"] == TWO
    for method, path in (("DELETE", ""), ("PUT", ""), ("POST", "/pause"), ("POST", "/resume")):
        refused = httpx.request(
            method, f"{location}{path}?dry_run=true", content=QUERY, headers=text
        )
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_request")
    assert httpx.get(location).json()["queries"] == TWO
    assert httpx.delete(location).status_code == 204
    assert httpx.get(location).status_code == 404


def test_insight_since_is_frontier_of_raw_stream(
    enabler: EnablerClient, agent: AgentClient
) -> None:
    before = agent.info("raw").frontier
    deployment_id = enabler.submit(QUERY).deployment_id
    (insight,) = enabler.show(deployment_id).insights
    assert before <= insight.since <= agent.info("raw").frontier
    assert insight.first_tick % 5000 == 0
    assert 0 < insight.first_tick - insight.since <= 5000


def test_rejected_submission_lists_problems_with_positions(enabler: EnablerClient) -> None:
    with pytest.raises(InvalidQueryError) as caught:
        enabler.submit("a = COMPUTE AVGG(x) EVERY 5 s; b = COMPUTE AVG(x)")
    assert caught.value.hint == "Did you mean `AVG`?"
    assert "no function `AVGG` (and 1 more)" in caught.value.message
    errors = [problem for problem in caught.value.details if problem["severity"] == "error"]
    places = [(problem["line"], problem["column"], problem["length"]) for problem in errors]
    assert places == [(1, 13, 4), (1, 44, 3)]
    assert enabler.list() == []


def test_check_reports_errors_and_warnings(enabler: EnablerClient, agent: AgentClient) -> None:
    agent.put([Point("cpu.util", "h1", 1_700_000_000_000, 1.0)])
    answer = enabler.check("a = COMPUTE AVG(cpu.utl) / 0 EVERY 5 s")
    assert answer.ok
    assert [problem.severity for problem in answer.problems] == ["warning", "warning"]
    assert answer.problems[0].hint == "Did you mean `cpu.util`?"
    assert not enabler.check("a = COMPUTE AVG(cpu.util").ok
    accepted = enabler.submit("a = COMPUTE AVG(cpu.utl) EVERY 5 s")
    assert "cpu.utl" in accepted.warnings[0].message
    assert enabler.show(accepted.deployment_id).warnings == accepted.warnings


def test_window_that_began_before_the_points_is_shown(
    enabler: EnablerClient, agent: AgentClient
) -> None:
    now, hour = system_clock(), 3_600_000
    young, old = ("api.young", now - 20_000), ("api.old", now - hour - 60_000)
    agent.put([Point(metric, "a", ts, 1.0) for metric, ts in (young, ("api.young", now), old)])
    text = "; ".join(
        f"{name} = COMPUTE AVG(api.{name}, 1 HOUR) EVERY 1 SECOND" for name in ("young", "old")
    )
    deployment = enabler.submit(text).deployment_id
    windows = eventually(
        lambda: [
            window
            for each in enabler.show(deployment).insights
            if (window := each.window) is not None
        ],
        timeout=30,
    )
    (window,) = windows
    assert (window.metric, window.points_from) == young
    assert window.ends_at - window.begins_at == hour
    (listed,) = [each for each in enabler.list() if each.deployment_id == deployment]
    assert all(each.window is None for each in listed.insights)


def test_check_warns_of_the_value_of_one_of_several_entities(
    enabler: EnablerClient, agent: AgentClient
) -> None:
    now = system_clock()
    agent.put([Point("api.riders", bus, now, 1.0, labels={"line": "7"}) for bus in ("b1", "b2")])

    def messages() -> list[str]:
        problems = enabler.check("a = COMPUTE api.riders BY line EVERY 1 s").problems
        return [problem.message for problem in problems]

    warning = (
        "`api.riders` without a function is the latest value of a single entity, and there are 2 "
        "with `line=7`"
    )
    # The enabler remembers the metrics and the points for some seconds.
    eventually(lambda: messages() == [warning], timeout=30, what="the points are known")


def test_check_compares_texts_and_metrics_with_the_points_that_came_in(
    enabler: EnablerClient, agent: AgentClient
) -> None:
    now = system_clock()
    points = [Point("api.disease", "a", now, 1.0, labels={"diagnosis": "flu"})]
    agent.put([*points, Point("api.price", "a", now, 1.0)])
    text = 'a = COMPUTE COUNT(api.disease WHEN diagnosis == "malaria", 1 h) EVERY 1 s'
    silent = "no recent point of `api.disease` has the diagnosis `malaria`; values seen: flu"

    def messages(queries: str) -> list[str]:
        return [problem.message for problem in enabler.check(queries).problems]

    # The enabler remembers the metrics and the values for some seconds.
    eventually(lambda: messages(text) == [silent], timeout=30, what="the values are known")
    (number,) = messages("a = COMPUTE COUNT(api.disease WHEN diagnosis > 5, 1 h) EVERY 1 s")
    assert number == (
        "no recent point of `api.disease` has a number as its diagnosis; values seen: flu (texts)"
    )
    (key,) = messages("a = COMPUTE COUNT(api.disease, 1 h) BY ward EVERY 1 s")
    assert key.startswith("no recent point of `api.disease` has the attribute `ward`")
    unread = "a = COMPUTE COUNT(api.disease, 1 h) EVERY 1 s WITH ALLOW WHEN api.price < 10"
    (message,) = messages(unread)
    assert message.startswith("`api.price` is a metric that this insight does not read")
    with pytest.raises(InvalidQueryError, match="does not read"):
        enabler.submit(unread)


def test_explain_reports_shared_windows(enabler: EnablerClient) -> None:
    deployment_id = enabler.submit(QUERY).deployment_id
    headroom = "headroom = COMPUTE 100 - AVG(cpu.util, 10 SECONDS) BY node EVERY 5 SECONDS"
    (shared,) = enabler.explain(headroom).shared
    assert [*map(without_digest, shared.others)] == [f"{deployment_id}/cpu_now/1"]
    assert f"with cpu_now of {deployment_id}; computed once" in enabler.explain_text(headroom)


JSON = {"Content-Type": "application/json"}
TEXT = {"Content-Type": "text/plain"}
BAD = [
    (b"", JSON, 400, "invalid_request"),
    (b"{", JSON, 400, "invalid_request"),
    (b"[]", JSON, 400, "invalid_request"),
    (b'"text"', JSON, 400, "invalid_request"),
    (b"null", JSON, 400, "invalid_request"),
    (b"NaN", JSON, 400, "invalid_request"),
    (b"{}", JSON, 400, "invalid_request"),
    (b'{"queries": 5}', JSON, 400, "invalid_request"),
    (b'{"queries": null}', JSON, 400, "invalid_request"),
    (b'{"queries": ["a"]}', JSON, 400, "invalid_request"),
    (b'{"queries": ""}', JSON, 400, "invalid_request"),
    (b'{"queries": " \\n"}', JSON, 400, "invalid_request"),
    (b'{"queries": "\\ud800"}', JSON, 400, "invalid_request"),
    (b'{"queries": "\\u0000"}', JSON, 400, "invalid_query"),
    (b'{"queries": "a", "extra": 1}', JSON, 400, "invalid_request"),
    (b'{"queries": "a", "name": 7}', JSON, 400, "invalid_request"),
    (b'{"queries": "a", "name": ""}', JSON, 400, "invalid_request"),
    (b'{"queries": "\xff"}', JSON, 400, "invalid_request"),
    (b"[" * 100_000, JSON, 400, "invalid_request"),
    (b'{"queries": ' + b"[" * 100_000, JSON, 400, "invalid_request"),
    (b"", TEXT, 400, "invalid_request"),
    (b"\xff\xfe", TEXT, 400, "invalid_request"),
    (b"SELECT * FROM cpu", TEXT, 400, "invalid_query"),
    (b"a = COMPUTE " + b"(" * 50_000, TEXT, 400, "invalid_query"),
    (b"a = COMPUTE AVG(x) / 1e999 EVERY 5 s", TEXT, 400, "invalid_query"),
    (b"a = COMPUTE AVG(x) EVERY 99999999999999999999 s", TEXT, 400, "invalid_query"),
    (b"a" * 1_000_001, TEXT, 413, "too_large"),
    (b"a" * 10_000_000, TEXT, 413, "too_large"),
    (QUERY.encode(), {"Content-Type": "application/xml"}, 415, "unsupported"),
    (QUERY.encode(), {}, 415, "unsupported"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_invalid_body_is_rejected_with_4xx(shared_site: SharedSite, number: int) -> None:
    body, headers, status, code = BAD[number]
    for path in ("", "/check", "/explain"):
        answer = httpx.post(
            f"{shared_site.enabler}/api/insights{path}", content=body, headers=headers, timeout=30
        )
        if code == "invalid_query" and path:
            assert answer.status_code == 200
            assert answer.json()["problems"]
            continue
        assert answer.status_code == status, answer.text[:500]
        error: dict[str, Any] = answer.json()["error"]
        assert error["code"] == code
        assert error["message"]
        assert error.get("hint") or code == "invalid_query"
        assert "Traceback" not in json.dumps(error)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/insights/d-none", 404),
        ("/api/insights/d-none/results", 404),
        ("/api/insights/d-none/results/follow", 404),
        ("/api/insights/%00/results", 404),
        ("/api/other", 404),
    ],
)
def test_unknown_path_is_rejected(shared_site: SharedSite, path: str, status: int) -> None:
    answer = httpx.get(f"{shared_site.enabler}{path}")
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == "not_found"


def test_openapi_documents_every_path(shared_site: SharedSite) -> None:
    paths = httpx.get(f"{shared_site.enabler}/openapi.json").json()["paths"]
    submit = paths["/api/insights"]["post"]
    assert set(submit["requestBody"]["content"]) == {"application/json", "text/plain"}
    assert "/api/insights/{deployment_id}/results/follow" in paths
