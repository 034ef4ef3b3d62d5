"""The names of sent labels: different sent labels remain different, and can be restored."""

from hypothesis import given
from hypothesis import strategies as st

from mistbow.client.agent_model import Point
from storage_agent.ingest.entity_label import EntityLabel
from storage_agent.promql.labels import NAME, PointLabels, omit_original_names
from storage_agent.series import EXPORTED, merge_labels, remove_own_label
from storage_agent.settings import AgentSettings
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.points import PointEncoder

SETTINGS = AgentSettings(node="n1", site="s1")
ENTITY = EntityLabel("instance", "n1")
BASES = ("node", "site", "entityID", "group", "job", "instance", "metricID", "every_ms", "rack")
names = st.builds(
    lambda prefixes, base: EXPORTED * prefixes + base, st.integers(0, 2), st.sampled_from(BASES)
)
values = st.sampled_from(["a", "b", "e", "n1", "m"])
label_sets = st.dictionaries(names, values, max_size=6)


def shown(point: Point) -> dict[str, str]:
    """Return the labels that PromQL shows for a point, without the metric's name."""
    encoded = PointEncoder(SETTINGS, Catalogue()).encode([point])
    [attributes] = encoded.rows.values[2]
    series = [PointLabels.of_settings(SETTINGS)(point.metric, attributes)]
    omit_original_names([series])
    labels = dict(series[0])
    assert labels.pop(NAME) == point.metric
    return labels


def restored(labels: dict[str, str], *own: str) -> dict[str, str]:
    """Return the labels that a client sent, given the labels that PromQL shows."""
    for name in own:
        labels = remove_own_label(labels, name)
    return labels


@given(st.sets(st.sampled_from(BASES)), st.dictionaries(names, values))
def test_sent_labels_are_restored_from_merged_labels(own: set[str], sent: dict[str, str]) -> None:
    merged = merge_labels(dict.fromkeys(own, "own"), sent)
    assert {name: merged[name] for name in own} == dict.fromkeys(own, "own")
    assert restored(merged, *own) == sent


@given(label_sets)
def test_labels_of_remote_write_are_restored_from_those_in_promql(sent: dict[str, str]) -> None:
    labels = dict(sent)
    found = shown(Point("m", ENTITY.take(labels), 0, 1.0, labels=labels))
    if "metricID" not in sent:
        assert "metricID" not in found
    own = ["metricID"] if "metricID" in found else []
    assert restored(found, "node", "site", "entityID", *own) == sent


@given(label_sets, st.none() | values)
def test_labels_of_put_are_restored_from_those_in_promql(
    sent: dict[str, str], group: str | None
) -> None:
    found = shown(Point("m", "e", 0, 1.0, group=group, labels=sent))
    own = ["metricID"] if "metricID" in found else []
    if group is not None:
        own.append("group")
    assert restored(found, "node", "site", "entityID", *own) == sent


def test_entity_is_shown_although_a_setting_takes_it_from_the_label_of_its_name() -> None:
    settings = AgentSettings(remote_write_entity="entityID")
    labels = PointLabels.of_settings(settings)("m", '{"entityID": "e", "rack": "j"}')
    assert labels == ((NAME, "m"), ("entityID", "e"), ("rack", "j"))
