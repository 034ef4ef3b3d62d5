"""The search for metrics: filters, pages, and the entity prefix of a token."""

import pytest

from analytics_enabler.metric_search import MetricFilter, find_metrics, find_series
from mistbow.client.agent_model import NodeData, Series, SeriesPoint
from mistbow.errors import InvalidRequestError

HOSTILE = "<img src=x onerror=alert(1)>"


def series(metric: str, entity: str, value: float = 1.0, **metadata: str) -> Series:
    return Series(metric, entity, [SeriesPoint(7, value)], **metadata)


NODES = [
    NodeData(
        "n1",
        [
            series("cpu.util", "host-1", name="Processor", units="%", entity_type="host"),
            series("cpu.util", "host-2", entity_type="host"),
            series("delay", "bus-1", desc="behind the timetable", units="seconds"),
        ],
    ),
    NodeData("n2", [series("delay", "bus-2", float("nan")), series(HOSTILE, "bus-2")]),
    NodeData("n3", [], missing="it does not answer"),
]
SITES = {"n1": "edge", "n2": "cloud", "n3": "far"}


def names(cursor: str | None = None, limit: int = 100, **wanted: object) -> list[str]:
    filter_ = MetricFilter(**wanted)  # type: ignore[arg-type]
    return [each.metric for each in find_metrics(NODES, SITES, filter_, cursor, limit).metrics]


def test_metric_has_entities_and_sites_of_all_nodes() -> None:
    page = find_metrics(NODES, SITES, MetricFilter(), None, 100)
    assert page.missing_sites == ["far"]
    found = {each.metric: each for each in page.metrics}
    assert found["delay"].sites == ["cloud", "edge"]
    assert found["cpu.util"].entities == ["host-1", "host-2"]
    assert (found["cpu.util"].name, found["cpu.util"].entity_types) == ("Processor", ["host"])
    assert HOSTILE in found


def test_words_match_all_metadata_in_either_case() -> None:
    assert names(words=("TIMETABLE",)) == ["delay"]
    assert names(words=("processor", "%")) == ["cpu.util"]
    assert names(words=("processor", "timetable")) == []
    assert names(words=("Bus-1",)) == ["delay"]
    assert names(words=("HOST", "%")) == ["cpu.util"]


def test_words_match_the_names_and_values_of_attributes() -> None:
    def found(*words: str) -> list[str]:
        attributes = {"delay": "region\nwest\nnew town"}
        page = find_metrics(NODES, SITES, MetricFilter(words=words), None, 100, attributes)
        return [each.metric for each in page.metrics]

    assert found("WEST") == found("Region", "timetable") == found("town", "bus-1") == ["delay"]
    assert found("west", "processor") == []


def test_filters_by_site_entity_and_metric() -> None:
    assert names(site="cloud") == [HOSTILE, "delay"]
    assert names(entity="host-2") == ["cpu.util"]
    assert names(metric="delay", site="edge") == ["delay"]
    assert names(metrics=frozenset(["cpu.util"])) == ["cpu.util"]


def test_entity_prefix_hides_metrics_and_entities_of_others() -> None:
    page = find_metrics(NODES, SITES, MetricFilter(prefix="bus-1"), None, 100)
    assert [(each.metric, each.entities) for each in page.metrics] == [("delay", ["bus-1"])]
    assert page.total == 1


def test_pages_have_each_metric_once() -> None:
    found: list[str] = []
    cursor = None
    while True:
        page = find_metrics(NODES, SITES, MetricFilter(), cursor, 1)
        found += [each.metric for each in page.metrics]
        cursor = page.next
        if cursor is None:
            break
    assert found == sorted({"cpu.util", "delay", HOSTILE})


@pytest.mark.parametrize("cursor", ["", "zz", "delay", "5", "é", "cursor=", "A" * 40])
def test_cursor_that_is_no_next_of_a_page_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidRequestError, match="cursor: the value is not the `next` of a page"):
        find_metrics(NODES, SITES, MetricFilter(), cursor, 1)


def test_changed_cursor_is_refused() -> None:
    cursor = find_metrics(NODES, SITES, MetricFilter(), None, 1).next
    assert cursor is not None
    for changed in (cursor[:-2], f"{cursor}QQ", f"B{cursor[1:]}", f"{cursor[:-3]}Q{cursor[-2:]}"):
        with pytest.raises(InvalidRequestError):
            find_metrics(NODES, SITES, MetricFilter(), changed, 1)


def test_series_without_finite_value_has_none() -> None:
    page = find_series(NODES, SITES, MetricFilter("delay"), 0, 1)
    assert [(each.site, each.entity) for each in page.series] == [("cloud", "bus-2")]
    latest = page.series[0].latest
    assert latest is not None
    assert (latest.ts, latest.value) == (7, None)
    assert (page.next, page.total) == ("1", 2)
    assert find_series(NODES, SITES, MetricFilter("delay"), 1, 1).next is None
