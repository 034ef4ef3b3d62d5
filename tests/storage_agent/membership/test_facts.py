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
        (SITE, "no JSON"),
    ],
)
def test_malformed_fact_of_a_stolen_site_is_ignored(key: str, event: str) -> None:
    facts = Facts()
    facts.apply(key, event)
    assert dict(facts) == {}


def test_fact_of_a_later_version_is_kept() -> None:
    facts = Facts()
    facts.apply("colour/w", '{"hue": 7}')
    facts.apply("link/b", '{"latency_ms": 1.5, "colour": "red"}')
    assert sorted(facts) == ["colour/w", "link/b"]
