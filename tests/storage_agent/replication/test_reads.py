"""The counts of the most frequent reads, and the filters of counted reads."""

import httpx
import pytest

from mistbow.client.operation_model import SeriesFilter
from storage_agent.http.points import GetBody
from storage_agent.replication.filters import canonical_text
from storage_agent.replication.policy.read_counts import ReadCounts, requested_filter
from storage_agent.timeseries.catalogue import Catalogue
from tests.storage_agent.conftest import ManualClock
from tests.support.sites import TOKEN, AgentSite, wait_until_reached


def test_frequent_read_outlasts_single_reads(clock: ManualClock) -> None:
    reads = ReadCounts(clock)
    often = SeriesFilter(metric=("cpu",))
    for number in range(3000):
        clock.now += 10
        reads.count("a", SeriesFilter(entity=(f"node-{number}",)))
        if number % 100 == 0:
            reads.count("b", often)
    rates = {(by, canonical_text(wanted)): rate for by, wanted, rate in reads.per_minute()}
    assert 900 <= len(rates) <= 1000
    # 30 reads in half a minute; the latest single reads are counted too.
    assert 15 < rates["b", canonical_text(often)] < 25
    last, first = (canonical_text(SeriesFilter(entity=(f"node-{n}",))) for n in (2999, 0))
    assert ("a", last) in rates
    assert ("a", first) not in rates


def catalogue_of_pods(pods: int, entities_per_pod: int) -> Catalogue:
    """Return a catalogue of the metrics cpu and disk, with entities ``e<pod>-<number>``."""
    catalogue = Catalogue()
    for pod in range(pods):
        for number in range(entities_per_pod):
            for metric in ("cpu", "disk"):
                entity = f"e{pod}-{number}"
                metadata = {
                    "metricID": metric,
                    "entityID": entity,
                    "entityType": "vm",
                    "pod": {"name": f"p{pod}", "namespace": "s"},
                    "container": {"name": f"c{pod}"},
                }
                catalogue.describe((metric, entity), metadata)
    return catalogue


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (GetBody(), SeriesFilter()),
        (GetBody(metricID="cpu", groupName=["g"]), SeriesFilter(metric=("cpu",), group=("g",))),
        (GetBody(podName="p1"), SeriesFilter(entity=("e1-0", "e1-1"))),
        (
            GetBody(metricID="cpu", containerName=["c0"]),
            SeriesFilter(metric=("cpu",), entity=("e0-0", "e0-1")),
        ),
        (GetBody(podName="p0", entityID="e0-1"), SeriesFilter(entity=("e0-1",))),
        (GetBody(podName="p0", entityID="e1-1"), None),
        (GetBody(podNamespace="other"), None),
        # Of more than 100 entities.
        (GetBody(podNamespace="s"), None),
        (GetBody(entityType="vm"), None),
        (GetBody(entityType="vm", metricID="cpu"), SeriesFilter(metric=("cpu",))),
    ],
    ids=str,
)
async def test_filter_of_a_read_includes_only_the_entities_of_its_pods(
    body: GetBody, expected: SeriesFilter | None
) -> None:
    assert await requested_filter(body, catalogue_of_pods(60, 2)) == expected


def test_aggregates_count_as_reads_of_the_requesting_site(places: list[AgentSite]) -> None:
    a, b, _ = places
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with a.agent(b) as at_a, b.agent() as at_b:
        wait_until_reached(at_a, "b")
        for name, nodes in (("own", None), ("other", ["b"])):
            body = {"metricID": [name], "agg": "sum", "from": 0, "nodes": nodes}
            url = b.url if nodes is None else a.url
            assert httpx.post(f"{url}/query", json=body, headers=headers).is_success
        counted = {(each.by, each.filter.metric) for each in at_b.operations.replication().reads}
        assert counted == {("b", ("own",)), ("a", ("other",))}
