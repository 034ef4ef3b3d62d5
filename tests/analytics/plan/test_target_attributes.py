"""Tests of the attributes of targets."""

from analytics.plan.target_attributes import TargetAttributes
from mistbow.streams.models import StreamInfo


def target_with(**attributes: object) -> StreamInfo:
    return StreamInfo("results/g", [], 0, 0, 0, 1, attributes, 0, None)


def test_all_attributes_are_stored_and_read_by_the_names_of_former_versions() -> None:
    stored = {
        "outputs": ["i"],
        "sites": ["a", "b"],
        "read": {"panes/a": 7},
        "decides": "f",
        "begin": 1000,
        "corrected": 5,
        "decided": 3,
    }
    expected = TargetAttributes(("i",), ("a", "b"), {"panes/a": 7}, "f", 1000, 5, 3)
    assert TargetAttributes.of(target_with(**stored)) == expected
    assert expected.stored() == stored | {"outputs": ("i",), "sites": ("a", "b")}


def test_unknown_attributes_are_ignored_and_missing_ones_are_none() -> None:
    attributes = TargetAttributes.of(target_with(parts=[1000, 4], begin=0))
    assert attributes == TargetAttributes(begin=0)


def test_a_change_stores_zero_and_empty_values_but_no_unchanged_attributes() -> None:
    assert TargetAttributes(decided=0, sites=()).stored() == {"decided": 0, "sites": ()}
