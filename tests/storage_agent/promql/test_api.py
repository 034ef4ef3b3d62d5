"""The Prometheus HTTP API over points and results, as Grafana uses it, and its errors."""

from typing import Any

import httpx
import pytest

from mistbow.client import AgentClient, Point
from mistbow.client.agent_model import Container, Pod
from mistbow.streams.schemas import RESULT_ROWS, results_stream
from storage_agent.promql import parameters, parse
from storage_agent.promql.errors import PromqlError
from tests.storage_agent.promql.fleet import END, MINUTE
from tests.storage_agent.promql.results import result_table
from tests.support.conditions import eventually

COMMON = {"node": "n1", "site": "n1", "region": "r1", "rack": "7"}
NOW = END / 1000


@pytest.fixture(scope="module", autouse=True)
def _filled(client: AgentClient) -> None:
    pod = Pod(uuid="u", name="p", namespace="s")
    client.put(
        [
            Point("cpu load", "a", END - 1000, 1.5, units="%", desc="Load", group="g", pod=pod),
            Point("cpu_load", "a", END - 1000, 2.5, container=Container(name="c")),
            Point("disk", "a", END - 1000, 3, labels={"a.b": "first", "a_b": True, "on": 1.5}),
            Point("disk", "a", END - 1000, 4, labels={"a.b": "second"}),
            Point("gone", "b", END - 60 * MINUTE, 1),
        ]
    )
    client.create_stream(results_stream("all.fair"), RESULT_ROWS)
    rows = (
        ("d1/mean load/1", '{"rack":"7","x":null}', END - 2000, 10.0, 0),
        ("d1/mean load/1", '{"rack":"7","x":null}', END - 1000, 11.0, 0),
        ("d1/mean load/1", '{"rack":"7","x":null}', END - 1000, 12.0, 1),
        ("d1/mean load/1", '{"rack":"8"}', END - 1000, 20.0, 0),
        ("d1/mean load/1", '{"rack":"8"}', END - 1000, None, 1),
    )
    client.append(results_stream("all.fair"), result_table(*rows))


def asked(api: httpx.Client, query: str) -> dict[Any, str]:
    """Return the result of an instant query: labels that are not common to all series -> value."""
    body = api.get("query", params={"query": query, "time": NOW}).json()
    assert body["status"] == "success", body
    return {
        tuple(sorted(set(row["metric"].items()) - set(COMMON.items()))): row["value"][1]
        for row in body["data"]["result"]
    }


def test_labels_are_attributes_of_points(api: httpx.Client) -> None:
    pod = (("pod", "p"), ("pod_namespace", "s"), ("pod_uuid", "u"))
    name = (("__name__", "cpu_load"), ("entityID", "a"))
    assert asked(api, "cpu_load") == {
        (*name, ("group", "g"), ("metricID", "cpu load"), *pod): "1.5",
        (name[0], ("container", "c"), name[1]): "2.5",
    }
    assert list(asked(api, '{__name__="cpu load"}').values()) == ["1.5"]
    assert list(asked(api, '{__name__!="cpu load",entityID="a",metricID=""}').values()) == [
        "2.5",
        "3",
        "4",
    ]
    assert asked(api, "disk * 1") == {
        (("a_b", "true"), ("entityID", "a"), ("exported_a_b", "first"), ("on", "1.5")): "3",
        (("a_b", "second"), ("entityID", "a")): "4",
    }


def test_results_have_their_latest_revision(api: httpx.Client) -> None:
    own_labels = {"deployment": "d1", "generation": "1", "metricID": "insight:d1/mean load/1"}
    expected = {**own_labels, "__name__": "insight:mean_load"}
    assert asked(api, "insight:mean_load") == {tuple(sorted(expected.items())): "12"}
    assert asked(api, '{__name__="insight:d1/mean load/1",rack="7"} offset 3s') == {}
    assert list(asked(api, "idelta(insight:mean_load[2s])").values()) == ["2"]


def test_labels_series_and_metadata_are_listed(api: httpx.Client) -> None:
    def data(path: str, **parameters: Any) -> Any:
        body = api.get(path, params=parameters).json()
        assert body["status"] == "success", body
        return body["data"]

    assert {"__name__", "entityID", "rack", "pod", "a_b", "deployment"} <= set(data("labels"))
    names = ["cpu_load", "disk", "gone", "insight:mean_load"]
    assert data("label/__name__/values") == names
    assert data("label/__name__/values", start=NOW - 300) == [n for n in names if n != "gone"]
    assert data("label/a_b/values", **{"match[]": "disk"}) == ["second", "true"]
    assert data("label/rack/values", **{"match[]": "{deployment='d1'}"}) == ["7", "8"]
    both = {"match[]": ["gone", 'disk{a_b="second"}']}
    assert data("series", **both) == [
        {**COMMON, "__name__": "disk", "entityID": "a", "a_b": "second"},
        {**COMMON, "__name__": "gone", "entityID": "b"},
    ]
    assert len(data("series", **both, limit=1)) == 1
    assert api.post("series", data=both).json()["data"] == data("series", **both)
    assert data("metadata", metric="cpu_load") == {
        "cpu_load": [
            {"type": "unknown", "help": "Load", "unit": "%"},
            {"type": "unknown", "help": "", "unit": ""},
        ]
    }
    assert data("status/buildinfo")["version"] == "2.42.0"


def test_new_labels_are_listed_at_once(api: httpx.Client, client: AgentClient) -> None:
    assert api.get("label/fresh/values").json()["data"] == []
    client.put([Point("fresh", "a", END - 1000, 1, labels={"fresh": "yes"})])
    assert api.get("label/fresh/values").json()["data"] == ["yes"]


@pytest.mark.parametrize(
    ("path", "parameters", "status", "kind", "words"),
    [
        ("query", {}, 400, "bad_data", 'parameter "query": the parameter is missing'),
        ("query", {"query": "1 +"}, 400, "bad_data", "invalid promql query"),
        ("query", {"query": "a", "time": "noon"}, 400, "bad_data", "cannot parse 'noon'"),
        ("query", {"query": "a @ -1"}, 400, "bad_data", "before 1970"),
        ("query", {"query": "a offset 1e400"}, 400, "bad_data", "query"),
        ("query", {"query": "a[9999999999y]"}, 400, "bad_data", "duration"),
        ("query", {"query": "a offset 9999999y"}, 400, "bad_data", "duration"),
        ("query", {"query": "vector(1)[9999999y:1s] offset 9999999y"}, 400, "bad_data", "duration"),
        ("query", {"query": "(" * 600 + "a" + ")" * 600}, 400, "bad_data", "too long"),
        ("query", {"query": "abs(" * 450 + "a" + ")" * 450}, 400, "bad_data", "nested too deeply"),
        ("query", {"query": "histogram_sum(a)"}, 422, "execution", "histogram_sum() is not supp"),
        ("query", {"query": "limitk(1, a)"}, 422, "execution", "limitk() is not supported"),
        ("query", {"query": 'a{b="c" or d="e"}'}, 422, "execution", "not supported"),
        ("query", {"query": "disk[1h:1ms]"}, 422, "execution", "more than 200000 samples"),
        ("query", {"query": "disk", "timeout": "0.1ms"}, 400, "bad_data", "duration"),
        ("query_range", {"query": "a", "start": 1, "end": 0, "step": 1}, 400, "bad_data", "end"),
        ("query_range", {"query": "a", "start": 0, "end": 1, "step": 0}, 400, "bad_data", "step"),
        (
            "query_range",
            {"query": "a[1m]", "start": 0, "end": 1, "step": 1},
            400,
            "bad_data",
            "range",
        ),
        (
            "query_range",
            {"query": "a", "start": 0, "end": 11_000, "step": 1},
            400,
            "bad_data",
            "11,000",
        ),
        ("series", {}, 400, "bad_data", "match[]"),
        ("series", {"match[]": "sum(a)"}, 400, "bad_data", "not a series selector"),
        ("labels", {"limit": "-1"}, 400, "bad_data", "limit"),
        ("label/a-b/values", {}, 400, "bad_data", "invalid label name"),
        ("rules", {}, 404, "not_found", "the service has no route /api/v1/rules"),
        ("query", {"query": "1", "site": "nowhere"}, 404, "not_found", "no site nowhere"),
    ],
)
def test_invalid_request_is_rejected_as_by_prometheus(
    api: httpx.Client, path: str, parameters: dict[str, Any], status: int, kind: str, words: str
) -> None:
    answer = api.get(path, params=parameters)
    body = answer.json()
    assert (answer.status_code, body["status"], body["errorType"]) == (status, "error", kind), body
    assert words in body["error"]


def test_times_are_seconds_or_rfc_3339(api: httpx.Client) -> None:
    for time in ("2023-11-14T22:13:20Z", "1700000000", "1.7e9"):
        body = api.post("query", data={"query": "time()", "time": time}).json()
        assert body["data"] == {"resultType": "scalar", "result": [1700000000.0, "1700000000"]}
    eventually(lambda: asked(api, "disk"), what="now is the agent's clock")


def test_very_long_forms_and_queries_are_refused_before_they_are_parsed(
    api: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parse, "_STRINGS_AND_COMMENTS", None)
    with pytest.raises(PromqlError, match="too long"):
        parse.parse("x" * (64 * 2**10 + 1))
    monkeypatch.setattr(parameters, "parse_qsl", None)
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = api.post("query", content="query=" + "%41" * 2**20, headers=headers)
    assert (answer.status_code, answer.json()["errorType"]) == (400, "bad_data")
    assert "at most 1048576 are allowed" in answer.json()["error"]


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ("query=disk&site=elsewhere", "site: send this parameter in the URL"),
        ("query=disk&query=gone", "query: the form has this parameter more than once"),
    ],
)
def test_form_that_names_a_site_or_repeats_a_parameter_is_refused(
    api: httpx.Client, form: str, problem: str
) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = api.post("query", content=form, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(problem)
