"""Facts about sites and series."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_agent.membership.facts import REMOVED, SITE, Facts, encode_fact, encode_series
from storage_agent.series import series_key
from storage_agent.timeseries.selection import describe

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_DESCRIPTIONS = st.fixed_dictionaries(
    {}, optional={"entityType": _TEXTS, "name": _TEXTS, "pod": st.dictionaries(_TEXTS, _TEXTS)}
)


@given(metric=_TEXTS, entity=_TEXTS, description=_DESCRIPTIONS)
def test_facts_of_many_series_are_encoded_like_single_facts(
    metric: str, entity: str, description: dict[str, object]
) -> None:
    text = msgspec.json.encode(description)
    single = series_key((metric, entity)), encode_fact(describe(metric, entity, text))
    assert list(encode_series([(metric, entity, text)])) == [single]


def test_prefix_selects_facts_that_are_not_about_series() -> None:
    facts = Facts()
    link, site = '{"latency_ms": 1}', '{"node": "n", "url": "http://n:1"}'
    series = '{"metricID": "link/", "entityID": "e"}'
    applied = {"link/b": link, "link/a": link, SITE: site, 'series/["link/","e"]': series}
    for key, event in applied.items():
        facts.apply(key, event)
    facts.apply("link/c", REMOVED)
    assert facts.with_prefix("link/") == ["link/a", "link/b"]
    assert [key for key, _ in facts.series_events()] == ['series/["link/","e"]']
    assert sorted(facts) == ["link/a", "link/b", 'series/["link/","e"]', SITE]


def worker(**changed: object) -> str:
    about = {"name": "w", "url": "http://w:1", "cores": 1, "memory_mb": 9}
    return encode_fact({**about, "cores_free": 1, "memory_free_mb": 9, **changed})


@pytest.mark.parametrize(
    ("key", "event"),
    [
        (SITE, "{}"),
        ("forgotten", '{"c": "long ago"}'),
        ("forgotten", "[" * 5000),
        ("worker/w", '{"name": "w"}'),
        ("enabler/all", "7"),
        ("link/b", '{"latency_ms": "far"}'),
        ("instability/w", "[]"),
        ("credential/site", "{}"),
        ('series/["m","e"]', '{"metricID": "m"}'),
        ('series/["m","e"]', '{"metricID": "m", "entityID": "other"}'),
        ("series/m", '{"metricID": "m", "entityID": "e"}'),
        ('series/["m","e"]', '{"metricID": "m", "entityID": "e", "pod": "p"}'),
        ('series/["m","e"]', '{"metricID": "m", "entityID": "e", "pod": null}'),
        ('series/["m","e"]', '{"metricID": "m", "entityID": "e", "container": {"id": 7}}'),
        ('series/["m","e"]', '{"metricID": "m", "entityID": "e", "name": 7}'),
        ('series/["m","e"]', '{"metricID": "m", "entityID": "e", "minVal": "low"}'),
        (SITE, "no JSON"),
        # With these, the fabric, the policy or the plan of another site would fail.
        (SITE, '{"node": "n", "url": "no address"}'),
        ("worker/w", worker(name="other")),
        ("worker/w", worker(cores=-1)),
        ("enabler/all", '{"domain": "north", "url": "http://e:1"}'),
        ("link/b", '{"latency_ms": -5}'),
        ("link/b", '{"latency_ms": 1, "loss": 7}'),
        ("link/b", '{"latency_ms": 1, "bandwidth_mbps": 0}'),
        ("instability/w", '{"instability": -1, "at": 0}'),
        ("instability/w", '{"instability": 1, "at": -1}'),
        ("health", '{"instability": -1, "at": 0, "room": 9}'),
        ("health", "{}"),
        ("copies", '[{"id": 7}]'),
        ("copies", '[{"id": "a", "target": "b", "why": "", "since": 0, "filter": {"x": 1}}]'),
        ("replicas", "{}"),
        ("restrictions", '[{"stay_in": "north"}]'),
    ],
)
def test_malformed_fact_of_a_stolen_site_is_ignored(key: str, event: str) -> None:
    facts = Facts()
    facts.apply(key, event)
    assert dict(facts) == {}


def test_fact_of_a_later_version_is_kept() -> None:
    facts = Facts()
    facts.apply("worker/w", worker(colour="red"))
    assert list(facts) == ["worker/w"]
    facts.apply("worker/w", REMOVED)
    facts.apply("colour/w", '{"hue": 7}')
    facts.apply("link/b", '{"latency_ms": 1.5, "colour": "red"}')
    assert sorted(facts) == ["colour/w", "link/b"]
