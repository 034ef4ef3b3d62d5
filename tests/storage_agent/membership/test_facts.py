"""Facts about sites and series."""

import msgspec
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
    for key in ("link/b", "link/a", SITE, 'series/["link/","e"]'):
        facts.apply(key, "{}")
    facts.apply("link/c", REMOVED)
    assert facts.with_prefix("link/") == ["link/a", "link/b"]
    assert [key for key, _ in facts.series_events()] == ['series/["link/","e"]']
    assert sorted(facts) == ["link/a", "link/b", 'series/["link/","e"]', SITE]
