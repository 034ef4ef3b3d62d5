"""Regular expressions of matchers and of label_replace, without series."""

import pytest

from storage_agent.promql.errors import PromqlError
from storage_agent.promql.matchers import full_match, replace_all


@pytest.mark.parametrize("texts", [[], ["a"]])
def test_invalid_pattern_is_refused_whether_or_not_there_are_texts(texts: list[str]) -> None:
    # So many brackets took minutes, in which the agent answered nothing.
    for pattern in ("[" * 60_000, "[a", "(?<x", "a**"):
        with pytest.raises(PromqlError, match="is not a valid regular expression"):
            full_match(pattern, texts)
        with pytest.raises(PromqlError, match="is not a valid regular expression"):
            replace_all(pattern, "$1", texts)


def test_valid_pattern_without_texts_matches_nothing() -> None:
    assert full_match("a+", []).tolist() == []
    assert replace_all("(a)", "$1", []) == []
    assert full_match("a*", ["", "aa", "b"]).tolist() == [True, True, False]
    assert replace_all("(?P<x>a)b", "$x", ["ab", "b"]) == ["a", None]
