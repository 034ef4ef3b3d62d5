"""Queries of dashboards and rules, over series that arrived by remote write.

The answers equal those of a real Prometheus with the same series.
"""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from storage_agent.ingest.protocol import remote_v1_pb2 as v1
from tests.storage_agent.ingest.test_remote_write import send, series
from tests.storage_agent.promql.prometheus import serving_prometheus
from tests.storage_agent.promql.shop import BEGIN, END, shop
from tests.storage_agent.promql.test_like_prometheus import QueryTime, alike
from tests.support.programs import needs

pytestmark = needs("prometheus")

OWN = frozenset({"node", "site", "region", "rack"})
"""The labels that the agent adds to all of its series, as Prometheus adds external labels."""

QUERIES = [
    "up",
    'up{job="node"} == 0',
    "sum by (job) (up) / count by (job) (up)",
    '100 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m])) * 100',
    'sum without (cpu, mode) (rate(node_cpu_seconds_total{mode!~"idle|iowait"}[5m]))',
    "1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes",
    'node_filesystem_avail_bytes{fstype!="tmpfs"} / node_filesystem_size_bytes * 100 < 60',
    'predict_linear(node_filesystem_avail_bytes{mountpoint="/"}[20m], 4 * 3600) < 0',
    'sum by (instance, device) (irate(node_network_receive_bytes_total{device!="lo"}[1m]) * 8)',
    "topk(2, node_load1)",
    "node_load1 * on (instance) group_left (nodename) node_uname_info",
    "histogram_quantile(0.9, sum by (le, job) (rate(http_request_duration_seconds_bucket[5m])))",
    "sum by (handler) (rate(http_request_duration_seconds_sum[5m]))"
    " / sum by (handler) (rate(http_request_duration_seconds_count[5m]))",
    'sum by (job) (rate(http_requests_total{code=~"5.."}[5m])) / on (job) job:http_requests:rate5m',
    "node_load1 / ignoring (instance, job) group_left () cluster:node_load1:max",
    "max by (group, topic) (kafka_consumergroup_lag)",
    'label_replace(time() - process_start_time_seconds, "host", "$1", "instance", "(.*):.*")',
]
TIMES = [QueryTime(BEGIN + 1_600_123), QueryTime(BEGIN - 60_000, END + 600_000, 47_000)]


@pytest.fixture(scope="module")
def prometheus(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    labelled = [(each.labels, each.samples) for each in shop()]
    with (
        serving_prometheus(tmp_path_factory.mktemp("prometheus"), labelled) as url,
        httpx.Client(base_url=f"{url}/api/v1", timeout=30) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def agent(url: str, api: httpx.Client) -> httpx.Client:
    message = v1.Request(
        timeseries=[
            series(each.labels, *((value, ts) for ts, value in each.samples)) for each in shop()
        ]
    )
    assert send(url, message).status_code == 204
    return api


def without_own_labels(answer: dict[str, Any]) -> dict[str, Any]:
    rows = [
        {**row, "metric": {n: v for n, v in row["metric"].items() if n not in OWN}}
        for row in answer["data"]["result"]
    ]
    return {**answer, "data": {**answer["data"], "result": rows}}


@pytest.mark.parametrize("query", QUERIES)
def test_query_of_dashboard_is_answered_as_by_prometheus(
    prometheus: httpx.Client, agent: httpx.Client, query: str
) -> None:
    for asked in TIMES:
        expected = asked.of(prometheus, query)
        assert expected["data"]["result"], "the query finds something"
        found = without_own_labels(asked.of(agent, query))
        assert alike(expected, found, ordered=False), (str(expected)[:500], str(found)[:500])


@pytest.mark.parametrize(
    ("path", "selector"),
    [
        ("label/instance/values", '{job=~".+"}'),
        ("label/job/values", "up"),
        ("label/group/values", "kafka_consumergroup_lag"),
        ("label/nodename/values", "node_uname_info"),
        ("labels", "http_requests_total"),
        ("series", 'up{job="node"}'),
    ],
)
def test_variable_of_dashboard_lists_what_prometheus_lists(
    prometheus: httpx.Client, agent: httpx.Client, path: str, selector: str
) -> None:
    parameters = {"match[]": selector, "start": 0, "end": END / 1000}

    def listed(api: httpx.Client) -> list[Any]:
        found = api.get(path, params=parameters).json()["data"]
        if isinstance(found[0], str):
            return sorted({*found} - OWN)
        rows = [{n: v for n, v in row.items() if n not in OWN} for row in found]
        return sorted(rows, key=lambda row: sorted(row.items()))

    assert listed(agent) == listed(prometheus)
