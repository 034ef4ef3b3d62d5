"""The merge of any two histories of a deployment, which a split has separated."""

import itertools
from collections.abc import Callable

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from analytics_enabler.deployments.merge import merge
from analytics_enabler.deployments.model import Deployment
from tests.analytics_enabler.support import definitions, deployment

Change = Callable[[Deployment, int], Deployment]
Sides = tuple[Deployment, Deployment]

HEALED_AT = 30_000
_MAX_CHANGES = 3
_DELAY_MS = 500
"""The time by which the frontier is behind the clock."""

_TEXTS = (
    "a = COMPUTE AVG(x) EVERY 1 s",
    "a = COMPUTE MAX(x) EVERY 1 s",
    "b = COMPUTE AVG(y) EVERY 1 s",
    "b = COMPUTE MIN(y) EVERY 1 s; a = COMPUTE AVG(x) EVERY 1 s",
)
_DEFINITIONS = {text: definitions(text) for text in _TEXTS}
_SUBMITTED = deployment(_TEXTS[0], since=1_000)


def amendment(text: str) -> Change:
    def amended(former: Deployment, now: int) -> Deployment:
        changed = former.defined_by(_DEFINITIONS[text], since=now - _DELAY_MS)
        return msgspec.structs.replace(changed, queries=text, updated_at=now, amended_at=now)

    return amended


def switch(former: Deployment, now: int) -> Deployment:
    """Pause a deployment, or resume it if it is paused."""
    frontier = now - _DELAY_MS
    if former.paused_at is None:
        return former.paused(now, lambda each: max(each.since, frontier))
    return former.resumed(now, frontier)


_changes = st.lists(
    st.sampled_from([*map(amendment, _TEXTS), switch, switch]), max_size=_MAX_CHANGES
)
_gaps = st.integers(1, 2_000)


@st.composite
def _sides(draw: st.DrawFn) -> Sides:
    """Return two versions of a deployment, whose histories have a common beginning."""
    common, now = _SUBMITTED, 2_000
    for change in draw(_changes):
        now += draw(_gaps)
        common = change(common, now)
    versions = []
    # No change at one side has the time of a change at the other.
    for parity in (0, 1):
        version, at = common, now - now % 2 + parity
        for change in draw(_changes):
            at += 2 * draw(_gaps)
            version = change(version, at)
        versions.append(version)
    return versions[0], versions[1]


@given(_sides())
def test_uid_has_one_definition_on_both_sides_and_after_the_merge(sides: Sides) -> None:
    own, other = sides
    found: dict[str, tuple[str, int]] = {}
    merged = merge(own, other, HEALED_AT)
    for each in (*own.generations, *other.generations, *merged.generations):
        described = each.definition.meaning, each.since
        assert found.setdefault(each.uid, described) == described


@given(_sides())
def test_merge_with_a_version_that_was_merged_changes_nothing(sides: Sides) -> None:
    merged = merge(*sides, HEALED_AT)
    for version in (*sides, merged):
        assert merge(merged, version, HEALED_AT + 1_000) is merged


@given(_sides())
def test_merge_does_not_depend_on_the_side_that_merges(sides: Sides) -> None:
    own, other = sides
    assert merge(own, other, HEALED_AT) == merge(other, own, HEALED_AT)


@given(_sides())
def test_generations_of_an_insight_do_not_overlap_after_a_merge(sides: Sides) -> None:
    merged = merge(*sides, HEALED_AT)
    spans = [each for each in merged.generations if each.until is None or each.until > each.since]
    for name in {each.name for each in spans}:
        ordered = sorted((g for g in spans if g.name == name), key=lambda g: g.since)
        for former, later in itertools.pairwise(ordered):
            assert former.until is not None
            assert former.until <= later.since
