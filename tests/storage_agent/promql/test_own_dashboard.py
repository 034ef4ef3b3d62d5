"""The dashboard and the alert rules in ``deploy/``: our PromQL answers, and the metrics exist."""

from collections.abc import Iterator

import httpx
import prometheus_client
import pytest
from prometheus_client.core import Metric

import analytics_enabler.metrics
import mistbow.auth.identity
import mistbow.certificates
import monitoring_agent.metrics
import storage_agent.metrics
from analytics.plan.status import FragmentStatus
from analytics_worker.metrics import FragmentCollector
from storage_agent.ingest.protocol import remote_v1_pb2 as v1
from tests.deployment.monitoring_files import alerts, dashboard_queries, metrics_in
from tests.storage_agent.ingest.test_remote_write import send, series
from tests.storage_agent.promql.fleet import END

MODULES = (
    analytics_enabler.metrics,
    mistbow.auth.identity,
    mistbow.certificates,
    monitoring_agent.metrics,
    storage_agent.metrics,
)
ALERTS = [rule["expr"] for rule in alerts()]
USED = {metric for query in [*dashboard_queries(), *ALERTS] for metric in metrics_in(query)}


def families() -> Iterator[Metric]:
    """Yield the metrics that the services expose."""
    none: list[FragmentStatus] = []
    yield from FragmentCollector(lambda: none).collect()
    for module in MODULES:
        for value in vars(module).values():
            if isinstance(value, prometheus_client.metrics.MetricWrapperBase):
                yield from value.collect()


def test_each_metric_of_the_dashboard_and_the_alerts_is_exposed_by_a_service() -> None:
    suffixes = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket"]}
    exposed = {
        family.name + suffix for family in families() for suffix in suffixes.get(family.type, ())
    }
    assert USED - exposed == set()


@pytest.fixture(scope="module")
def stored(url: str) -> str:
    """Store five samples of each metric at the agent, 15 s apart; return its address."""
    found = []
    for metric in sorted(USED):
        labels = {"__name__": metric, "instance": "a", "id": "f", "site": "b", "kind": "proxy"}
        labels["direction"] = "sent"
        for le in ("0.1", "+Inf") if metric.endswith("_bucket") else ("",):
            values = [(10.0 * at, END - 60_000 + 15_000 * at) for at in range(5)]
            found.append(series({**labels, "le": le} if le else labels, *values))
    sent = send(url, v1.Request(timeseries=found))
    assert sent.status_code == 204, sent.text
    return url


@pytest.mark.parametrize("query", dashboard_queries())
def test_query_of_the_dashboard_has_a_result(stored: str, query: str) -> None:
    times = {"start": END / 1000 - 30, "end": END / 1000, "step": 15}
    answer = httpx.get(
        f"{stored}/api/v1/query_range", params={"query": query, **times}, timeout=30
    ).json()
    assert answer["status"] == "success", answer
    assert answer["data"]["result"]


@pytest.mark.parametrize("query", ALERTS)
def test_expression_of_an_alert_is_evaluated(stored: str, query: str) -> None:
    answer = httpx.get(
        f"{stored}/api/v1/query", params={"query": query, "time": END / 1000}, timeout=30
    ).json()
    assert answer["status"] == "success", answer
    assert answer["data"]["resultType"] == "vector"
