"""Series with different attributes, whose labels differ in PromQL too."""

from itertools import combinations

import httpx
import msgspec
from hypothesis import given
from hypothesis import strategies as st

from mistbow.client import AgentClient, Point
from storage_agent.promql.labels import PointLabels, omit_original_names
from storage_agent.settings import AgentSettings
from tests.storage_agent.promql.fleet import END

_NAMES = (
    *("a.b", "a-b", "a_b", "exported_a_b", "exported.a_b", "exported_exported_a_b", "a,b"),
    *("0x", "_0x", "pod", "pod.name", "pod_name", "rack", "entityType"),
    *("__name__", "exported___name__", "metricID", "exported_metricID", "metric.ID"),
    *("attributeNames", "exported_attributeNames", "attribute.Names", "attributeNames="),
    *("job", "group", "exported_group", "instance", "host", "exported_entityID"),
)
_VALUES = st.sampled_from(["e", "n", "m", "a.b", ""])
_ATTRIBUTES = st.builds(
    lambda sent, entity: {**sent, "entityID": entity, "node": "n"},
    st.dictionaries(st.sampled_from(_NAMES), _VALUES, max_size=5),
    st.sampled_from(["e", "n", "m"]),
)
_SERIES = st.tuples(st.sampled_from(["m", "m.", "m_", "m,"]), _ATTRIBUTES)


@given(st.lists(_SERIES, min_size=2, max_size=4))
def test_labels_of_series_with_different_attributes_differ(
    series: list[tuple[str, dict[str, str]]],
) -> None:
    labels_of = PointLabels.of_settings(AgentSettings(node="n"))
    labels = [labels_of(metric, msgspec.json.encode(sent).decode()) for metric, sent in series]
    omit_original_names([labels])
    stated = [(metric, {n: v for n, v in sent.items() if v}) for metric, sent in series]
    for (one, of_one), (other, of_other) in combinations(zip(stated, labels, strict=True), 2):
        assert one == other or of_one != of_other


def test_series_whose_names_map_to_the_same_label_remain_apart(
    client: AgentClient, api: httpx.Client
) -> None:
    def asked(query: str) -> list[tuple[dict[str, str], str]]:
        body = api.get("query", params={"query": query, "time": END / 1000}).json()
        return [(each["metric"], each["value"][1]) for each in body["data"]["result"]]

    sent = ({"a.b": "1"}, {"a_b": "1"}, {"a-b": "1"})
    client.put(
        [Point("c1", "x", END - 9, 2.0**n, labels=labels) for n, labels in enumerate(sent)]
        + [Point("alone", "x", END - 9, 1, labels={"a.b": "1"})]
    )
    assert asked("sum(c1)") == [({}, "7")]
    assert asked('sum by (a_b) (c1{a_b="1"})') == [({"a_b": "1"}, "7")]
    assert asked('sum(c1{attributeNames=""})') == [({}, "2")]
    names = [labels.get("attributeNames") for labels, _ in asked("c1")]
    assert sorted(map(str, names)) == ["None", "a-b", "a.b"]
    [(labels, _)] = asked("alone")
    assert "attributeNames" not in labels
    # Where series need the label, all have it: those with equal attributes match.
    assert [value for _, value in asked("c1 - on(a_b, attributeNames) alone")] == ["0"]
    found = api.get("series", params={"match[]": "c1"}).json()["data"]
    assert [each.get("attributeNames") for each in found] == ["a-b", "a.b", None]
    names = api.get("labels", params={"match[]": "alone"}).json()["data"]
    assert "a_b" in names
    assert "attributeNames" not in names
